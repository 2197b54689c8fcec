//! A row for every key that leaves (`audit = "key"`), for those whom ranges do not satisfy.
//!
//! The rows are on the disk before the keys leave; keys whose rows may not be there are burned. They are a second
//! opinion as well: a key that has a row already goes to nobody, whatever the ledger thinks of its number.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use keymill_id::{Definition, KeyspaceName};
use keymill_ledger::Timestamp;

use crate::{
    clock::Clock,
    error::IssueError,
    tuning::{Audit, Tuned},
};

/// Where the rows are kept.
#[async_trait]
pub trait KeyLog: fmt::Debug + Send + Sync + 'static {
    /// Writes a row for each key, or none. `Ok`: they are there whatever happens from now on.
    async fn write(&self, issued: Issued<'_>) -> Result<(), KeyLogError>;
}

/// Keys that are about to leave.
#[derive(Debug)]
pub struct Issued<'a> {
    pub keyspace: &'a KeyspaceName,
    pub definition: &'a Definition,
    pub keys: Vec<String>,
    pub at: Timestamp,
}

/// Why there are no rows, or perhaps none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyLogError {
    /// Try again in a moment, with other keys.
    #[error("{0}")]
    Unavailable(String),
    /// Wake an operator: a key has a row already, or rows cannot be written at all.
    #[error("{0}")]
    Refused(String),
}

/// The key log of one keyspace: whether it is kept, and where.
#[derive(Debug)]
pub(crate) struct Book {
    /// `None`: this node has nowhere to keep it.
    log: Option<Arc<dyn KeyLog>>,
    is_kept: AtomicBool,
    clock: Arc<dyn Clock>,
}

impl Book {
    pub(crate) fn new(log: Option<Arc<dyn KeyLog>>, tuned: &Tuned, clock: Arc<dyn Clock>) -> Self {
        Self { log, is_kept: AtomicBool::new(tuned.audit == Audit::Key), clock }
    }

    pub(crate) fn tune(&self, tuned: &Tuned) {
        self.is_kept.store(tuned.audit == Audit::Key, Ordering::Relaxed);
    }

    /// Whether keys may leave only once they are written down.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    pub(crate) async fn write(
        &self,
        keyspace: &KeyspaceName,
        definition: &Definition,
        keys: Vec<String>,
    ) -> Result<(), IssueError> {
        let log = self.log.as_ref().ok_or(IssueError::NoKeyLog)?;
        let count = keys.len();
        let issued = Issued { keyspace, definition, keys, at: self.clock.wall() };
        log.write(issued).await.map_err(|error| match error {
            KeyLogError::Unavailable(_) => {
                tracing::debug!(%keyspace, count, %error, "keys could not be written down, and are burned");
                IssueError::Unrecorded
            }
            KeyLogError::Refused(_) => {
                tracing::error!(%keyspace, count, %error, "keys of `{keyspace}` could not be written down, and are burned: {error}");
                IssueError::Internal
            }
        })
    }
}
