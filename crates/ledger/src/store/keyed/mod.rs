//! What the engines that keep keys and values share: etcd, Redis and ZooKeeper.
//!
//! None of them locks a row. A transaction reads what it needs, keeps its writes to itself, and in the end
//! asks the engine to apply them all *if* the rows it rests on are still as it read them. If they are not,
//! nothing was changed and the operation runs again; an outcome nobody knows is not run again.
//!
//! An [`Engine`] therefore only gets, lists and commits; [`rows`] knows how rows are spelled as keys.

use std::{
    fmt,
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::sync::{Mutex, OnceCell};

use super::{NO_LEDGER, Store, StoreOptions, first_head};
use crate::{Grade, LedgerError, Rows, Timestamp, ops::Operation};

mod address;
mod claims;
mod holes;
mod rows;
mod spelling;
#[cfg(test)]
mod tests;

pub(super) use address::{Address, Login, check_prefix};
use rows::KeyedRows;
pub use spelling::{Order, Span};

/// An engine that keeps keys in order and commits a batch under conditions.
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    type View: View;

    const NAME: &'static str;
    const GRADE: Grade;
    /// How many holes it can hold, if that is a matter of concern.
    const HOLES_MAX: Option<u64>;
    /// Claims that a track keeps; of older ones only the oldest remains, which grows to cover them.
    const CLAIMS_MAX: u64 = 100_000;

    /// Begins to read.
    fn view(&self) -> impl Future<Output = Result<Self::View, LedgerError>> + Send;
}

/// What one transaction sees of the engine. Every read is at least as new as the begin of the transaction.
pub trait View: Send {
    /// The engine's own identity, as it was for what is read here.
    fn incarnation(&mut self) -> impl Future<Output = Result<String, LedgerError>> + Send;
    fn get(&mut self, key: &str) -> impl Future<Output = Result<Option<Stored>, LedgerError>> + Send;
    fn list(
        &mut self,
        span: &Span,
    ) -> impl Future<Output = Result<Vec<(String, Stored)>, LedgerError>> + Send;
    /// Applies `batch` if the engine and every guarded row are what they were; durable before it is said.
    fn commit(self, batch: Batch) -> impl Future<Output = Result<Outcome, LedgerError>> + Send;
}

/// A value, and what tells it from every other value that ever stood under its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub value: String,
    pub version: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Rows that must still have this version; `None`: that must still be absent.
    pub guards: Vec<(String, Option<u64>)>,
    /// What to write; `None` removes a row that is there.
    pub writes: Vec<(String, Option<String>)>,
}

/// How a commit ended that is known to have ended. Anything else is an error, and burns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// A guarded row has changed; nothing was written.
    Conflict,
}

/// How often an operation is run again after a definite conflict.
const ATTEMPTS: u32 = 200;
/// The longest pause before it is.
const PAUSE_MAX_MS: u64 = 32;

/// A ledger on an engine that keeps keys and values.
#[derive(Debug)]
pub struct Keyed<E> {
    pub(super) engine: E,
    options: StoreOptions,
    /// Set once the ledger is known to have a head.
    founded: OnceCell<()>,
    /// Writes of one process go one at a time: together they would only be in each other's way.
    turn: Mutex<()>,
    /// How many conflicts there were, so that no two pauses are alike.
    conflicts: AtomicU64,
}

impl<E: Engine> Keyed<E> {
    pub(super) fn on(engine: E, options: StoreOptions) -> Self {
        Self {
            engine,
            options,
            founded: OnceCell::new(),
            turn: Mutex::default(),
            conflicts: AtomicU64::new(0),
        }
    }

    /// Makes the head of a ledger that has none. Two first starts agree on one.
    async fn found(&self) -> Result<(), LedgerError> {
        let mut rows = KeyedRows::<E>::new(self.engine.view().await?);
        if rows.is_founded().await? {
            return Ok(());
        }
        if !self.options.create {
            return Err(LedgerError::Refused { store: E::NAME, detail: NO_LEDGER.to_owned() });
        }
        if !self.options.migrate {
            let detail = "there is no ledger yet, and ledger.migrate is off; run `keymill ledger migrate`";
            return Err(LedgerError::Refused { store: E::NAME, detail: detail.to_owned() });
        }
        let incarnation = rows.incarnation().await?;
        rows.put_head(&first_head(self.options.new_id.clone(), incarnation, self.options.at)).await?;
        match rows.commit(true).await? {
            Outcome::Committed | Outcome::Conflict => Ok(()),
        }
    }

    async fn attempt<O: Operation>(&self, op: &O) -> Result<Option<O::Answer>, LedgerError> {
        let mut rows = KeyedRows::<E>::new(self.engine.view().await?);
        let answer = op.run(&mut rows).await;
        let keep = match &answer {
            _ if O::READS_ONLY => return answer.map(Some),
            Err(error) if error.is_transient() => return answer.map(Some),
            Err(error) => error.commits(),
            Ok(_) => true,
        };
        // A refusal counts only if what it rests on stood still while it was read.
        match rows.commit(keep).await? {
            Outcome::Committed => answer.map(Some),
            Outcome::Conflict => Ok(None),
        }
    }

    async fn run<O: Operation>(&self, op: &O) -> Result<O::Answer, LedgerError> {
        self.founded.get_or_try_init(|| self.found()).await?;
        let _turn = if O::READS_ONLY { None } else { Some(self.turn.lock().await) };
        for attempt in 0..ATTEMPTS {
            if let Some(answer) = self.attempt(op).await? {
                return Ok(answer);
            }
            tokio::time::sleep(self.pause(attempt)).await;
        }
        let source = "others changed the same rows each time; it was not carried out".into();
        Err(LedgerError::Unavailable { store: E::NAME, operation: O::NAME, source })
    }

    /// Longer each time, and never the same for two who met: the ledger's own id and a count are the dice.
    fn pause(&self, attempt: u32) -> Duration {
        let mut dice = DefaultHasher::new();
        self.options.new_id.hash(&mut dice);
        self.conflicts.fetch_add(1, Ordering::Relaxed).hash(&mut dice);
        let longest = PAUSE_MAX_MS.min(1 << attempt.min(16)) * 1_000;
        Duration::from_micros(dice.finish() % longest)
    }
}

impl<E: Engine> Store for Keyed<E> {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn grade(&self) -> Grade {
        E::GRADE
    }

    fn keeps_time(&self) -> bool {
        false
    }

    async fn transact<O: Operation>(&self, op: O) -> Result<O::Answer, LedgerError> {
        match tokio::time::timeout(self.options.timeout, self.run(&op)).await {
            Ok(answer) => answer,
            Err(elapsed) => {
                Err(LedgerError::Unavailable { store: E::NAME, operation: O::NAME, source: elapsed.into() })
            }
        }
    }

    async fn backup(&self, _to: &Path, _at: Timestamp) -> Result<(), LedgerError> {
        Err(LedgerError::Unsupported { store: E::NAME, operation: "backup" })
    }
}
