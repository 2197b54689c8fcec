//! A ledger on etcd: transactions that compare the revisions of what they read, over a quorum.
//!
//! Every read is linearizable, and all reads of one transaction are at the revision of the first. No lease
//! of etcd's is used: a keep-alive that says yes proves nothing (a renewal may answer for a lease that was
//! revoked), a compare-and-set on our own rows does.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::{
    StoreOptions, Tls,
    keyed::{Address, Batch, Engine, Keyed, Order, Outcome, Span, Stored, View},
};
use crate::{Grade, LedgerError};

mod client;
mod txn;

mod proto {
    #![allow(missing_debug_implementations, unreachable_pub, unused_qualifications, clippy::all)]
    tonic::include_proto!("etcdserverpb");
}

use client::Client;
use proto::{KeyValue, RangeRequest, ResponseHeader, range_request::SortOrder};

const ETCD: &str = "etcd";
const DEFAULT_PORT: u16 = 2379;
/// Rows asked for at a time.
const PAGE: i64 = 1_000;

/// A ledger on an etcd cluster: `etcd://host1:2379,host2:2379/prefix`, or `etcds://` for TLS.
pub type EtcdStore = Keyed<Etcd>;

impl EtcdStore {
    /// Reads the URL and the TLS files; the first operation connects.
    pub fn new(url: &str, options: StoreOptions) -> Result<Self, LedgerError> {
        let (rest, has_tls) = match url.split_once("://") {
            Some(("etcd", rest)) => (rest, options.tls != Tls::default()),
            Some(("etcds", rest)) => (rest, true),
            _ => return Err(refused("ledger.url must begin with etcd:// or etcds://".to_owned())),
        };
        let address = Address::parse(ETCD, rest, DEFAULT_PORT)?;
        let tls = if has_tls { Some(tls_config(&options.tls)?) } else { None };
        let prefix = format!("{}/", address.prefix).into();
        let client = Arc::new(Client::new(address, tls, options.timeout)?);
        Ok(Self::on(Etcd { client, prefix, newest: Arc::default() }, options))
    }
}

fn refused(detail: String) -> LedgerError {
    LedgerError::Refused { store: ETCD, detail }
}

fn tls_config(tls: &Tls) -> Result<ClientTlsConfig, LedgerError> {
    let read = |setting: &str, path: &Path| {
        fs::read(path)
            .map_err(|error| refused(format!("{setting} ({}) cannot be read: {error}", path.display())))
    };
    let Some(ca) = &tls.ca else {
        return Err(refused("etcd over TLS needs ledger.tls_ca, the authority to trust".to_owned()));
    };
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read("ledger.tls_ca", ca)?));
    match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => {
            let (cert, key) = (read("ledger.tls_cert", cert)?, read("ledger.tls_key", key)?);
            Ok(config.identity(Identity::from_pem(cert, key)))
        }
        (None, None) => Ok(config),
        _ => Err(refused("ledger.tls_cert and ledger.tls_key belong together; set both or none".to_owned())),
    }
}

#[derive(Debug)]
pub struct Etcd {
    client: Arc<Client>,
    /// With the slash at its end.
    prefix: Arc<str>,
    /// The highest revision this process has seen.
    newest: Arc<AtomicI64>,
}

impl Engine for Etcd {
    type View = EtcdView;

    const NAME: &'static str = ETCD;
    const GRADE: Grade = Grade::Strict;
    const HOLES_MAX: Option<u64> = Some(10_000);

    async fn view(&self) -> Result<EtcdView, LedgerError> {
        let (client, prefix, newest) = (self.client.clone(), self.prefix.clone(), self.newest.clone());
        Ok(EtcdView { client, prefix, newest, seen: None })
    }
}

#[derive(Debug)]
pub struct EtcdView {
    client: Arc<Client>,
    prefix: Arc<str>,
    newest: Arc<AtomicI64>,
    /// Where the first read found the cluster; all others are made there.
    seen: Option<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    cluster: u64,
    revision: i64,
    /// It was further before: a restored copy that kept the cluster's id.
    went_back: bool,
}

impl EtcdView {
    async fn range(&mut self, request: RangeRequest) -> Result<(Vec<KeyValue>, bool), LedgerError> {
        let revision = self.seen.map_or(0, |seen| seen.revision);
        let response = self.client.range(RangeRequest { revision, ..request }).await?;
        let header =
            response.header.ok_or_else(|| client::unavailable("read", "an answer without a header"))?;
        match self.seen {
            None => self.seen = Some(self.first_seen(&header)),
            Some(seen) if seen.cluster != header.cluster_id => return Err(another_cluster("read")),
            Some(_) => {}
        }
        Ok((response.kvs, response.more))
    }

    /// Where the cluster was when this transaction began.
    async fn seen(&mut self) -> Result<Seen, LedgerError> {
        if self.seen.is_none() {
            self.get("head").await?;
        }
        self.seen.ok_or_else(|| client::unavailable("read", "it was never asked"))
    }

    fn first_seen(&self, header: &ResponseHeader) -> Seen {
        let newest = self.newest.fetch_max(header.revision, Ordering::Relaxed);
        Seen { cluster: header.cluster_id, revision: header.revision, went_back: header.revision < newest }
    }

    /// The cluster answered a commit: from here on it counts from there.
    fn note(&self, seen: Seen, revision: i64) {
        if seen.went_back {
            self.newest.store(revision, Ordering::Relaxed);
        } else {
            self.newest.fetch_max(revision, Ordering::Relaxed);
        }
    }

    fn key(&self, key: &str) -> Vec<u8> {
        [self.prefix.as_bytes(), key.as_bytes()].concat()
    }

    fn stored(&self, found: KeyValue) -> Result<(String, Stored), LedgerError> {
        let garbled =
            || LedgerError::Corrupt { store: ETCD, detail: "a row of the ledger is not text".to_owned() };
        let key = String::from_utf8(found.key).map_err(|_| garbled())?;
        let key = key.strip_prefix(&*self.prefix).ok_or_else(garbled)?.to_owned();
        let value = String::from_utf8(found.value).map_err(|_| garbled())?;
        let version = u64::try_from(found.mod_revision).map_err(|_| garbled())?;
        Ok((key, Stored { value, version }))
    }
}

/// What another cluster says is no answer to us, and what it did there burns.
fn another_cluster(operation: &'static str) -> LedgerError {
    client::unavailable(operation, "another cluster answered than the one that was read before")
}

impl View for EtcdView {
    /// The cluster's id. A restored snapshot has another one only if it was restored with another
    /// `--initial-cluster-token`; a process that saw the cluster further on notices by the revision.
    async fn incarnation(&mut self) -> Result<String, LedgerError> {
        let Seen { cluster, revision, went_back } = self.seen().await?;
        Ok(if went_back { format!("{cluster:016x}@{revision}") } else { format!("{cluster:016x}") })
    }

    async fn get(&mut self, key: &str) -> Result<Option<Stored>, LedgerError> {
        let (found, _) = self.range(RangeRequest { key: self.key(key), ..RangeRequest::default() }).await?;
        let found = found.into_iter().next().map(|found| self.stored(found)).transpose()?;
        Ok(found.map(|(_, stored)| stored))
    }

    async fn list(&mut self, span: &Span) -> Result<Vec<(String, Stored)>, LedgerError> {
        let (mut from, mut to) = (self.key(&span.from), self.key(&span.to));
        let sort_order = match span.order {
            Order::Up => SortOrder::Ascend,
            Order::Down => SortOrder::Descend,
        };
        let wanted = span.limit.unwrap_or(usize::MAX);
        let mut rows = Vec::new();
        loop {
            let limit = PAGE.min(i64::try_from(wanted - rows.len()).unwrap_or(PAGE));
            let (key, range_end) = (from.clone(), to.clone());
            let page = RangeRequest { key, range_end, limit, revision: 0, sort_order: sort_order.into() };
            let (found, more) = self.range(page).await?;
            match (span.order, found.last()) {
                (Order::Up, Some(last)) => from = [last.key.as_slice(), &[0]].concat(),
                (Order::Down, Some(last)) => to.clone_from(&last.key),
                (_, None) => {}
            }
            for found in found {
                rows.push(self.stored(found)?);
            }
            if !more || rows.len() >= wanted {
                return Ok(rows);
            }
        }
    }

    async fn commit(mut self, batch: Batch) -> Result<Outcome, LedgerError> {
        let seen = self.seen().await?;
        let txn = txn::request(&self.prefix, seen.revision, &batch)?;
        let response = self.client.txn(txn).await?;
        let header = response.header.unwrap_or_default();
        if header.cluster_id != seen.cluster || header.revision < seen.revision {
            return Err(another_cluster("commit"));
        }
        self.note(seen, header.revision);
        Ok(if response.succeeded { Outcome::Committed } else { Outcome::Conflict })
    }
}
