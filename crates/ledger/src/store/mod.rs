//! Where the rows live: a file per engine, each of which only knows how to run an operation in one
//! transaction.

use std::{fmt, future::Future, path::Path, pin::pin, sync::Arc, task, time::Duration};

pub use keymill_sql::Tls;

use crate::{Grade, Head, LedgerError, LedgerId, Timestamp, ops::Operation};

pub mod etcd;
pub mod faults;
pub mod keyed;
pub mod memory;
pub mod redis;
pub mod sql;
pub mod sqlite;
pub mod zookeeper;

pub trait Store: fmt::Debug + Send + Sync + 'static {
    fn name(&self) -> &'static str;
    fn grade(&self) -> Grade;
    /// Whether it has a clock of its own, by which leases are judged; else the caller's is.
    fn keeps_time(&self) -> bool;

    /// Runs `op` in one transaction and answers once its writes are durable. A transaction that ends
    /// in an error leaves nothing behind, unless [`LedgerError::commits`].
    fn transact<O: Operation>(&self, op: O) -> impl Future<Output = Result<O::Answer, LedgerError>> + Send;

    fn backup(&self, to: &Path, at: Timestamp) -> impl Future<Output = Result<(), LedgerError>> + Send;
}

/// What every shared store is opened with, besides its URL: `XStore::new(url, options)`.
///
/// Opening parses and touches no network; the first operation connects, brings the schema up to date and
/// makes the head if the ledger has none. So a node starts while its engine is away, and serves once it is
/// there.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// `ledger.lossy = "accepted"`: the operator knows that this engine, as it is set up, may forget a
    /// write it acknowledged. Without it such an engine is refused, with what was found.
    pub lossy_accepted: bool,
    /// `ledger.migrate`: may the schema be created and brought up to date?
    pub migrate: bool,
    /// `ledger.timeout`: how long connecting, and one operation, may take. What was sent by then has an
    /// unknown outcome.
    pub timeout: Duration,
    /// `ledger.tls_ca`, `ledger.tls_cert`, `ledger.tls_key`. Whether TLS is used at all is the URL's to say.
    pub tls: Tls,
    /// May a store that holds no ledger be given one? Not by a node that remembers one: what it would make
    /// is not that one, and would begin to count anew.
    pub create: bool,
    /// Who the ledger becomes, if this start creates it.
    pub new_id: LedgerId,
    /// When that is.
    pub at: Timestamp,
}

/// Said by a store that was to hold a ledger and holds none.
pub(crate) const NO_LEDGER: &str = "there is no ledger, but this node remembers one: the store was emptied, or \
     ledger.url names another place; restore it and advance, or start with a new data dir to begin anew";

/// A handle is a store too, so that a fault can be put around one of several.
impl<S: Store> Store for Arc<S> {
    fn name(&self) -> &'static str {
        S::name(self)
    }
    fn grade(&self) -> Grade {
        S::grade(self)
    }
    fn keeps_time(&self) -> bool {
        S::keeps_time(self)
    }
    fn transact<O: Operation>(&self, op: O) -> impl Future<Output = Result<O::Answer, LedgerError>> + Send {
        S::transact(self, op)
    }
    fn backup(&self, to: &Path, at: Timestamp) -> impl Future<Output = Result<(), LedgerError>> + Send {
        S::backup(self, to, at)
    }
}

/// Runs an operation whose rows never wait: those of an embedded store.
pub(crate) fn run_now<F: Future>(future: F) -> F::Output {
    let mut context = task::Context::from_waker(task::Waker::noop());
    match pin!(future).poll(&mut context) {
        task::Poll::Ready(output) => output,
        task::Poll::Pending => unreachable!("the rows of an embedded store never wait"),
    }
}

/// The first row of a new ledger.
pub(crate) fn first_head(id: LedgerId, incarnation: String, created_at: Timestamp) -> Head {
    Head {
        id,
        created_at,
        incarnation,
        halted: None,
        advances: 0,
        region: None,
        changes: 0,
        root: None,
        keyspaces: 0,
    }
}
