//! Where the rows live: a file per engine, each of which only knows how to run an operation in one
//! transaction.

use std::{fmt, future::Future, path::Path, pin::pin, sync::Arc, task};

use crate::{Grade, Head, LedgerError, LedgerId, Timestamp, ops::Operation};

pub mod faults;
pub mod memory;
pub mod sqlite;

pub trait Store: fmt::Debug + Send + Sync + 'static {
    fn name(&self) -> &'static str;
    fn grade(&self) -> Grade;

    /// Runs `op` in one transaction and answers once its writes are durable. A transaction that ends
    /// in an error leaves nothing behind, unless [`LedgerError::commits`].
    fn transact<O: Operation>(&self, op: O) -> impl Future<Output = Result<O::Answer, LedgerError>> + Send;

    fn backup(&self, to: &Path, at: Timestamp) -> impl Future<Output = Result<(), LedgerError>> + Send;
}

/// A handle is a store too, so that a fault can be put around one of several.
impl<S: Store> Store for Arc<S> {
    fn name(&self) -> &'static str {
        S::name(self)
    }
    fn grade(&self) -> Grade {
        S::grade(self)
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
