//! A ledger on Redis: one script per commit, that compares and writes in one go.
//!
//! Redis may forget what it acknowledged – its replicas follow later, its log is synced later – so it is
//! taken as a ledger only where that was accepted, and says at every connection what it found. What it
//! forgot is found out by the nodes' stamps and by its replication id, which every restart and every
//! failover changes.

use std::{fmt, fs, path::Path, sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ErrorKind, RedisError, Script, ServerErrorKind,
    TlsCertificates, aio::MultiplexedConnection,
};
use tokio::sync::Mutex;

use super::{
    StoreOptions, Tls,
    keyed::{Batch, Engine, Keyed, Order, Outcome, Span, Stored, View, check_prefix},
};
use crate::{Grade, LedgerError};

mod settings;

const REDIS: &str = "redis";

/// A ledger on Redis: `redis://[user:password@]host:port/db`, `rediss://` for TLS. `?prefix=NAME` puts it
/// beside another one.
pub type RedisStore = Keyed<Redis>;

impl RedisStore {
    /// Reads the URL and the TLS files; the first operation connects.
    pub fn new(url: &str, options: StoreOptions) -> Result<Self, LedgerError> {
        if !options.lossy_accepted {
            return Err(refused(
                "Redis may forget a write it acknowledged, when it restarts or fails over; if that is \
                 acceptable, set ledger.lossy = \"accepted\", else use PostgreSQL, MariaDB or etcd"
                    .to_owned(),
            ));
        }
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let prefix = match query.split_once('=') {
            None if query.is_empty() => check_prefix(""),
            Some(("prefix", prefix)) => check_prefix(prefix),
            _ => Err("the only setting that ledger.url takes is ?prefix=NAME".to_owned()),
        };
        let prefix = prefix.map_err(refused)?;
        // The error does not repeat the URL: it may hold a password.
        let client = client(address, &options.tls)
            .map_err(|error| refused(format!("ledger.url or the TLS files are wrong: {error}")))?;
        let server = Server { client, connection: Mutex::default(), patience: options.timeout };
        // One hash tag: in a Redis Cluster, all keys of a ledger have to be in one slot.
        let names = ["rows", "order", "versions"].map(|name| format!("{{{prefix}}}:{name}"));
        let scripts = Scripts {
            commit: Script::new(include_str!("commit.lua")),
            list: Script::new(include_str!("list.lua")),
        };
        Ok(Self::on(
            Redis { server: Arc::new(server), names: Arc::new(names), scripts: Arc::new(scripts) },
            options,
        ))
    }
}

fn client(address: &str, tls: &Tls) -> Result<Client, RedisError> {
    if !address.starts_with("rediss://") {
        return Client::open(address);
    }
    let read = |path: &Path| fs::read(path).map_err(RedisError::from);
    let client_tls = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? }),
        _ => None,
    };
    let root_cert = tls.ca.as_deref().map(read).transpose()?;
    Client::build_with_tls(address, TlsCertificates { client_tls, root_cert })
}

fn refused(detail: String) -> LedgerError {
    LedgerError::Refused { store: REDIS, detail }
}

#[derive(Debug)]
pub struct Redis {
    server: Arc<Server>,
    /// The hash of rows, the order of their keys, the counter of versions.
    names: Arc<[String; 3]>,
    scripts: Arc<Scripts>,
}

#[derive(Debug)]
struct Scripts {
    commit: Script,
    list: Script,
}

/// The server, and the connection to it. A connection that failed is dropped; the next call makes another.
struct Server {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
    patience: Duration,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("at", &self.client.get_connection_info().addr())
            .finish_non_exhaustive()
    }
}

impl Server {
    async fn connection(&self) -> Result<MultiplexedConnection, LedgerError> {
        let mut kept = self.connection.lock().await;
        if let Some(connection) = &*kept {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience))
            .set_response_timeout(Some(self.patience));
        let connected = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connected.map_err(|error| sorted("connect", error))?;
        settings::check(&mut connection).await?;
        *kept = Some(connection.clone());
        Ok(connection)
    }

    /// A connection that works, and the server's replication id.
    async fn greet(&self) -> Result<(MultiplexedConnection, String), LedgerError> {
        let mut connection = self.connection().await?;
        let info: Result<String, _> =
            redis::cmd("INFO").arg("replication").query_async(&mut connection).await;
        let info = match info {
            Ok(info) => info,
            Err(error) => return Err(self.failed("read", error).await),
        };
        match info.lines().find_map(|line| line.strip_prefix("master_replid:")) {
            Some(id) => Ok((connection, id.trim().to_owned())),
            None => Err(refused("the server does not tell its replication id".to_owned())),
        }
    }

    /// Sorts the complaint; a connection that may be broken is not used again.
    async fn failed(&self, operation: &'static str, error: RedisError) -> LedgerError {
        if error.is_io_error() || error.is_unrecoverable_error() {
            *self.connection.lock().await = None;
        }
        sorted(operation, error)
    }
}

/// Sorts Redis' complaints by what the caller must do.
fn sorted(operation: &'static str, error: RedisError) -> LedgerError {
    match error.kind() {
        ErrorKind::AuthenticationFailed => refused(format!("{error}; check user and password in ledger.url")),
        ErrorKind::Server(ServerErrorKind::NoPerm) => refused(format!(
            "{error}; the user needs INFO, EVAL, EVALSHA, SCRIPT, WAIT and the hash, sorted set and string \
             commands on the ledger's keys"
        )),
        ErrorKind::InvalidClientConfig => refused(error.to_string()),
        _ if error.code() == Some("NOAUTH") => {
            refused(format!("{error}; ledger.url must name a password: redis://USER:PASSWORD@…"))
        }
        _ => LedgerError::Unavailable { store: REDIS, operation, source: error.into() },
    }
}

impl Engine for Redis {
    type View = RedisView;

    const NAME: &'static str = REDIS;
    const GRADE: Grade = Grade::Lossy;
    const HOLES_MAX: Option<u64> = None;

    async fn view(&self) -> Result<RedisView, LedgerError> {
        let (connection, incarnation) = match self.server.greet().await {
            // An old connection may have died unnoticed; nothing was asked of it yet.
            Err(LedgerError::Unavailable { .. }) => self.server.greet().await?,
            greeted => greeted?,
        };
        let (server, names, scripts) = (self.server.clone(), self.names.clone(), self.scripts.clone());
        Ok(RedisView { server, names, scripts, connection, incarnation })
    }
}

pub struct RedisView {
    server: Arc<Server>,
    names: Arc<[String; 3]>,
    scripts: Arc<Scripts>,
    connection: MultiplexedConnection,
    /// The server's replication id when this view began. A commit is refused by any other.
    incarnation: String,
}

impl fmt::Debug for RedisView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisView").field("incarnation", &self.incarnation).finish_non_exhaustive()
    }
}

impl RedisView {
    fn commit_call(&self, batch: &Batch) -> redis::ScriptInvocation<'_> {
        let mut call = self.scripts.commit.prepare_invoke();
        for name in &*self.names {
            call.key(name);
        }
        call.arg(&self.incarnation).arg(batch.guards.len());
        for (key, version) in &batch.guards {
            call.arg(key).arg(version.map(|version| version.to_string()).unwrap_or_default());
        }
        let puts = batch.writes.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        call.arg(puts.clone().count());
        for (key, value) in puts {
            call.arg(key).arg(value);
        }
        let removed = batch.writes.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key);
        call.arg(removed.clone().count());
        for key in removed {
            call.arg(key);
        }
        call
    }

    /// A write that no replica has heard of would be lost with this server. So one must have it, if there is
    /// any; that is the one a failover would choose.
    async fn wait_for_a_replica(&mut self) -> Result<(), LedgerError> {
        let millis = u64::try_from((self.server.patience / 2).as_millis()).unwrap_or(u64::MAX);
        let heard: Result<u64, _> =
            redis::cmd("WAIT").arg(1).arg(millis.max(1)).query_async(&mut self.connection).await;
        match heard {
            Ok(0) => Err(LedgerError::Unavailable {
                store: REDIS,
                operation: "commit",
                source: "no replica confirmed the write".into(),
            }),
            Ok(_) => Ok(()),
            Err(error) => Err(self.server.failed("commit", error).await),
        }
    }
}

/// `version value`, as the script writes it.
fn stored(row: &str) -> Result<Stored, LedgerError> {
    let garbled = || LedgerError::Corrupt { store: REDIS, detail: "a row has no version".to_owned() };
    let (version, value) = row.split_once(' ').ok_or_else(garbled)?;
    Ok(Stored { value: value.to_owned(), version: version.parse().map_err(|_| garbled())? })
}

impl View for RedisView {
    async fn incarnation(&mut self) -> Result<String, LedgerError> {
        Ok(self.incarnation.clone())
    }

    async fn get(&mut self, key: &str) -> Result<Option<Stored>, LedgerError> {
        let row: Result<Option<String>, _> =
            redis::cmd("HGET").arg(&self.names[0]).arg(key).query_async(&mut self.connection).await;
        match row {
            Ok(row) => row.as_deref().map(stored).transpose(),
            Err(error) => Err(self.server.failed("read", error).await),
        }
    }

    async fn list(&mut self, span: &Span) -> Result<Vec<(String, Stored)>, LedgerError> {
        let [rows, order, _] = &*self.names;
        let direction = match span.order {
            Order::Up => "up",
            Order::Down => "down",
        };
        let limit = span.limit.map_or_else(|| "-1".to_owned(), |limit| limit.to_string());
        let mut call = self.scripts.list.prepare_invoke();
        call.key(rows).key(order).arg(direction).arg(&span.from).arg(&span.to).arg(limit);
        let found: Result<Vec<(String, String)>, _> = call.invoke_async(&mut self.connection).await;
        match found {
            Ok(found) => found.into_iter().map(|(key, row)| Ok((key, stored(&row)?))).collect(),
            Err(error) => Err(self.server.failed("read", error).await),
        }
    }

    async fn commit(mut self, batch: Batch) -> Result<Outcome, LedgerError> {
        let mut connection = self.connection.clone();
        let applied: Result<(u8, u64), _> = self.commit_call(&batch).invoke_async(&mut connection).await;
        match applied {
            Ok((0, _)) => Ok(Outcome::Conflict),
            Ok((_, replicas)) => {
                if replicas > 0 && !batch.writes.is_empty() {
                    self.wait_for_a_replica().await?;
                }
                Ok(Outcome::Committed)
            }
            Err(error) => Err(self.server.failed("commit", error).await),
        }
    }
}
