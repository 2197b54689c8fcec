//! Why keys could not be had.

use keymill_ledger::LedgerError;

/// Variants differ in what a caller does next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    #[error("there is no keyspace of that name")]
    KeyspaceNotFound,
    #[error("the keyspace is retired and issues no more keys")]
    Retired,
    /// Create another keyspace: this one has spelled all it can.
    #[error("no key of the keyspace is left: all were issued, burned, or are in other nodes' stock")]
    Exhausted,
    /// Bind content instead: its key comes from it.
    #[error("keys of a digest keyspace are made from content, so there are none to take")]
    MadeFromContent,
    /// Try again in a moment.
    #[error("the stock is empty and the refill did not come in time")]
    OutOfStock,
    /// Look at the pool's store, or at the tuning that names it.
    #[error("the keyspace's rows cannot be had: {0}")]
    NoRows(String),
    /// Try again in a moment.
    #[error("the ledger cannot be reached and the stock is used up")]
    LedgerUnavailable,
    /// Try again in a moment: the keys that could not be written down are burned.
    #[error("every key of the keyspace is written down before it leaves, and that cannot be done just now")]
    Unrecorded,
    /// Name a database.
    #[error("every key of the keyspace is to be written down (`audit`), and this node has nowhere to do so")]
    NoKeyLog,
    /// Try again in a moment, or ask another node: waiting would only make the queue longer.
    #[error("too many callers wait already")]
    Overloaded,
    /// Try again in a moment: this node's clock is behind what its IDs say already.
    #[error("the clock is {by_ms} ms behind IDs that were issued")]
    ClockBehind { by_ms: u64 },
    /// Look at the node's clock.
    #[error("the clock jumped ahead by {by_ms} ms, and IDs from the future are not issued")]
    ClockAhead { by_ms: u64 },
    #[error("no worker id is free: {0}")]
    NoWorker(String),
    /// Wake an operator.
    #[error("the ledger is halted: {0}")]
    LedgerHalted(String),
    #[error("this node is starting")]
    Starting,
    #[error("this node is stopping")]
    Draining,
    /// A bug, or a store that contradicts itself: look at the log.
    #[error("an internal error; the server's log says more")]
    Internal,
}

impl IssueError {
    pub fn from_ledger(error: &LedgerError) -> Self {
        match error {
            LedgerError::Halted { reason } => Self::LedgerHalted(reason.clone()),
            LedgerError::Exhausted { .. } => Self::Exhausted,
            LedgerError::NoWorker { .. } | LedgerError::WorkerTaken { .. } => {
                Self::NoWorker(error.to_string())
            }
            LedgerError::UnknownKeyspace { .. } => Self::KeyspaceNotFound,
            LedgerError::Fenced { .. } => Self::Draining,
            LedgerError::Unavailable { .. } | LedgerError::Overtaken { .. } | LedgerError::Refused { .. } => {
                Self::LedgerUnavailable
            }
            _ => Self::Internal,
        }
    }
}
