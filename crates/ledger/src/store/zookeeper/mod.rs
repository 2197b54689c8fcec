//! A ledger on ZooKeeper: a `multi` that checks the versions of what was read, over a quorum.
//!
//! A session that is not connected counts as lost, whatever may become of it: its client is dropped, what it
//! was asked has an unknown outcome, and the next operation opens another. Reads come from one server, in
//! order and no older than the begin of the transaction; that a server lags behind is found by the check.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, MultiWriteError, SessionState};

use super::{
    StoreOptions,
    keyed::{Address, Batch, Engine, Keyed, Order, Outcome, Span, Stored, View},
};
use crate::{Grade, LedgerError};

mod paths;

use paths::Paths;

const ZOOKEEPER: &str = "zookeeper";
const DEFAULT_PORT: u16 = 2181;
/// What a server accepts in one request (`jute.maxbuffer`), with room for names and numbers around it.
const REQUEST_BYTES_MAX: usize = 900_000;
/// Rows that are asked for at a time.
const AT_ONCE: usize = 256;

/// A ledger on a ZooKeeper ensemble: `zookeeper://host1:2181,host2:2181/prefix`.
pub type ZookeeperStore = Keyed<Zookeeper>;

impl ZookeeperStore {
    /// Reads the URL; the first operation connects.
    pub fn new(url: &str, options: StoreOptions) -> Result<Self, LedgerError> {
        let Some(rest) = url.strip_prefix("zookeeper://") else {
            return Err(refused("ledger.url must begin with zookeeper://".to_owned()));
        };
        let address = Address::parse(ZOOKEEPER, rest, DEFAULT_PORT)?;
        let paths = Arc::new(Paths::under(&address.prefix));
        let ensemble = Ensemble { address, patience: options.timeout, session: Mutex::default() };
        let folders = Arc::default();
        Ok(Self::on(Zookeeper { ensemble: Arc::new(ensemble), paths, folders }, options))
    }
}

fn refused(detail: String) -> LedgerError {
    LedgerError::Refused { store: ZOOKEEPER, detail }
}

#[derive(Debug)]
pub struct Zookeeper {
    ensemble: Arc<Ensemble>,
    paths: Arc<Paths>,
    /// Folders that are known to be there; none is ever removed.
    folders: Arc<Mutex<BTreeSet<String>>>,
}

/// The servers, and the session with one of them.
#[derive(Debug)]
struct Ensemble {
    address: Address,
    patience: Duration,
    session: Mutex<Option<Session>>,
}

#[derive(Clone)]
struct Session(Arc<Client>);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({:?})", self.0.state())
    }
}

impl Ensemble {
    /// A session that is connected, now.
    async fn session(&self) -> Result<Arc<Client>, LedgerError> {
        let mut kept = self.session.lock().await;
        if let Some(Session(client)) = &*kept
            && client.state() == SessionState::SyncConnected
        {
            return Ok(client.clone());
        }
        *kept = None;
        let mut connector = Client::connector().with_session_timeout(self.patience).with_fail_eagerly();
        if let Some(login) = &self.address.login {
            connector =
                connector.with_auth("digest", format!("{}:{}", login.user, login.password).as_bytes());
        }
        let connected = connector.connect(&self.address.members.join(",")).await;
        let client = Arc::new(connected.map_err(|error| sorted("connect", error))?);
        *kept = Some(Session(client.clone()));
        Ok(client)
    }

    /// Sorts the complaint; a session that may be lost is not used again.
    async fn failed(&self, operation: &'static str, error: Error) -> LedgerError {
        *self.session.lock().await = None;
        sorted(operation, error)
    }

    /// Who may see and change the rows: whoever has the password, or anyone if there is none.
    fn acls(&self) -> Acls<'static> {
        if self.address.login.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
    }

    fn persistent(&self) -> CreateOptions<'static> {
        CreateMode::Persistent.with_acls(self.acls())
    }
}

fn sorted(operation: &'static str, error: Error) -> LedgerError {
    match error {
        Error::NoAuth | Error::AuthFailed | Error::InvalidAcl => {
            refused(format!("{error}; check user and password in ledger.url"))
        }
        error => LedgerError::Unavailable { store: ZOOKEEPER, operation, source: error.into() },
    }
}

impl Engine for Zookeeper {
    type View = ZookeeperView;

    const NAME: &'static str = ZOOKEEPER;
    const GRADE: Grade = Grade::Strict;
    const HOLES_MAX: Option<u64> = Some(10_000);

    async fn view(&self) -> Result<ZookeeperView, LedgerError> {
        let client = self.ensemble.session().await?;
        let (ensemble, paths, folders) = (self.ensemble.clone(), self.paths.clone(), self.folders.clone());
        let view = ZookeeperView { client, ensemble, paths, folders, seen: BTreeMap::new() };
        // So that this server knows what others had acknowledged before.
        match view.client.sync("/").await {
            Ok(()) => Ok(view),
            Err(error) => Err(view.ensemble.failed("read", error).await),
        }
    }
}

pub struct ZookeeperView {
    client: Arc<Client>,
    ensemble: Arc<Ensemble>,
    paths: Arc<Paths>,
    folders: Arc<Mutex<BTreeSet<String>>>,
    /// The version of every row that was read; `None`: it was absent.
    seen: BTreeMap<String, Option<i32>>,
}

impl std::fmt::Debug for ZookeeperView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZookeeperView").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl ZookeeperView {
    /// What a read found; a row that is not there is an answer.
    async fn found<T>(&self, answer: Result<T, Error>) -> Result<Option<T>, LedgerError> {
        match answer {
            Ok(found) => Ok(Some(found)),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(self.ensemble.failed("read", error).await),
        }
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, LedgerError> {
        let children = self.client.list_children(path).await;
        Ok(self.found(children).await?.unwrap_or_default())
    }

    /// Keys of the span, in its order, as many as it asks for.
    async fn keys(&self, span: &Span) -> Result<Vec<String>, LedgerError> {
        let mut keys = BTreeSet::new();
        for folder in self.children(self.paths.root()).await? {
            if !Paths::may_hold(&folder, span) {
                continue;
            }
            let leaves = self.children(&self.paths.folder(&folder)).await?;
            let found = leaves.into_iter().map(|leaf| Paths::key(&folder, &leaf));
            keys.extend(found.filter(|key| span.contains(key)));
        }
        let limit = span.limit.unwrap_or(usize::MAX);
        Ok(match span.order {
            Order::Up => keys.into_iter().take(limit).collect(),
            Order::Down => keys.into_iter().rev().take(limit).collect(),
        })
    }

    fn stored(&mut self, key: &str, data: Vec<u8>, version: i32) -> Result<Stored, LedgerError> {
        let garbled = || LedgerError::Corrupt { store: ZOOKEEPER, detail: format!("`{key}` is not text") };
        let value = String::from_utf8(data).map_err(|_| garbled())?;
        self.seen.insert(key.to_owned(), Some(version));
        Ok(Stored { value, version: u64::try_from(version).map_err(|_| garbled())? })
    }

    /// Makes the folders of `keys`. They hold nothing by themselves, so it does not matter who makes them.
    async fn make_folders<'k>(&self, keys: impl Iterator<Item = &'k String>) -> Result<(), LedgerError> {
        let mut known = self.folders.lock().await;
        for key in keys {
            let folder = self.paths.folder(&Paths::split(key).0);
            if known.contains(&folder) {
                continue;
            }
            if let Err(error) = self.client.mkdir(&folder, &self.ensemble.persistent()).await {
                return Err(self.ensemble.failed("write", error).await);
            }
            known.insert(folder);
        }
        Ok(())
    }

    /// A row is written in one way if it is there and in another if it is not, so that must be known.
    async fn look_before_writing(&mut self, batch: &Batch) -> Result<(), LedgerError> {
        let unseen: Vec<&String> =
            batch.writes.iter().map(|(key, _)| key).filter(|key| !self.seen.contains_key(*key)).collect();
        let paths: Vec<String> = unseen.iter().map(|key| self.paths.row(key)).collect();
        for (keys, paths) in unseen.chunks(AT_ONCE).zip(paths.chunks(AT_ONCE)) {
            let stats = join_all(paths.iter().map(|path| self.client.check_stat(path))).await;
            for (key, stat) in keys.iter().zip(stats) {
                let stat = self.found(stat).await?.flatten();
                self.seen.insert((*key).clone(), stat.map(|stat| stat.version));
            }
        }
        Ok(())
    }

    async fn multi(&self, batch: &Batch) -> Result<(), MultiWriteError> {
        let persistent = self.ensemble.persistent();
        let mut multi = self.client.new_multi_writer();
        for (key, version) in &batch.guards {
            let path = self.paths.row(key);
            match version {
                // What does not fit was never a version of it, and the check fails.
                Some(version) => {
                    multi.add_check_version(&path, i32::try_from(*version).unwrap_or(i32::MAX))?
                }
                // There is no check for absence; what can be made and removed was not there.
                None => {
                    multi.add_create(&path, &[], &persistent)?;
                    multi.add_delete(&path, None)?;
                }
            }
        }
        for (key, value) in &batch.writes {
            let path = self.paths.row(key);
            match (value, self.seen.get(key).copied().flatten()) {
                (Some(value), Some(_)) => multi.add_set_data(&path, value.as_bytes(), None)?,
                (Some(value), None) => multi.add_create(&path, value.as_bytes(), &persistent)?,
                (None, _) => multi.add_delete(&path, None)?,
            }
        }
        multi.commit().await.map(drop)
    }
}

impl View for ZookeeperView {
    /// An ensemble has no name. Where its first row was made, in its own count and time, is the best it can
    /// tell: rows that were copied into another ensemble were made there.
    async fn incarnation(&mut self) -> Result<String, LedgerError> {
        self.make_folders([String::new()].iter()).await?;
        let stat = self.client.check_stat(self.paths.root()).await;
        match self.found(stat).await?.flatten() {
            Some(stat) => Ok(format!("{:x}-{:x}", stat.czxid, stat.ctime)),
            None => Err(sorted("read", Error::NoNode)),
        }
    }

    async fn get(&mut self, key: &str) -> Result<Option<Stored>, LedgerError> {
        let found = self.client.get_data(&self.paths.row(key)).await;
        match self.found(found).await? {
            Some((data, stat)) => self.stored(key, data, stat.version).map(Some),
            None => {
                self.seen.insert(key.to_owned(), None);
                Ok(None)
            }
        }
    }

    async fn list(&mut self, span: &Span) -> Result<Vec<(String, Stored)>, LedgerError> {
        let keys = self.keys(span).await?;
        let mut rows = Vec::with_capacity(keys.len());
        for keys in keys.chunks(AT_ONCE) {
            let paths: Vec<String> = keys.iter().map(|key| self.paths.row(key)).collect();
            let found = join_all(paths.iter().map(|path| self.client.get_data(path))).await;
            for (key, found) in keys.iter().zip(found) {
                // One that is gone by now was removed in a transaction that ours cannot commit beside.
                if let Some((data, stat)) = self.found(found).await? {
                    rows.push((key.clone(), self.stored(key, data, stat.version)?));
                }
            }
        }
        Ok(rows)
    }

    async fn commit(mut self, batch: Batch) -> Result<Outcome, LedgerError> {
        let size =
            |(key, value): &(String, Option<String>)| key.len() + value.as_ref().map_or(0, String::len);
        if batch.writes.iter().map(size).sum::<usize>() > REQUEST_BYTES_MAX {
            let detail = "these rows are more than it takes in one request (jute.maxbuffer, 1 MB)";
            return Err(refused(detail.to_owned()));
        }
        self.look_before_writing(&batch).await?;
        let written = batch.writes.iter().map(|(key, _)| key);
        self.make_folders(written.chain(batch.guards.iter().map(|(key, _)| key))).await?;
        match self.multi(&batch).await {
            Ok(()) => Ok(Outcome::Committed),
            Err(MultiWriteError::OperationFailed {
                source: Error::BadVersion | Error::NoNode | Error::NodeExists,
                ..
            }) => Ok(Outcome::Conflict),
            Err(error) => Err(self.ensemble.failed("commit", error.into()).await),
        }
    }
}
