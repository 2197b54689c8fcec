//! Ledgers in PostgreSQL and in MySQL or MariaDB: one short transaction per operation, on tables that every
//! node shares.
//!
//! Nothing is connected until the first operation: it migrates, looks at how the engine is set up, and makes
//! the head of a new ledger. An operation that another one got in the way of is undone by the engine and run
//! again here; whatever was lost on the way to or from a `COMMIT` is told to the caller as not answered, and
//! nobody finds out later.

use std::{path::Path, sync::Arc, time::Duration};

use keymill_sql::{Access, Address, Shared, SqlError};
use tokio::sync::OnceCell;

use super::{Store, StoreOptions};
use crate::{Grade, LedgerError, Timestamp, ops::Operation};

mod columns;
mod engine;
mod opening;
mod rows;
mod schema;

use opening::{Opening, Ready};
use rows::{HeadLock, SqlRows};

/// How often an operation is run that others keep getting in the way of.
const ATTEMPTS_MAX: u32 = 20;
/// The pause before the second run; each later one is longer by as much.
const PAUSE: Duration = Duration::from_millis(1);

/// `postgres://` or `mysql://`.
#[derive(Debug)]
pub struct SqlStore {
    opening: Arc<Opening>,
}

/// How one run of an operation ended.
enum Run<A> {
    Ended(Result<A, LedgerError>),
    /// Undone, and worth another try.
    Again {
        head_lock: HeadLock,
        why: SqlError,
    },
}

impl SqlStore {
    /// Reads the URL and connects nowhere.
    pub fn new(url: &str, options: StoreOptions) -> Result<Self, LedgerError> {
        let address = Address::parse(url, &options.tls, options.timeout)
            .map_err(|error| LedgerError::Refused { store: "sql", detail: error.to_string() })?;
        let opening = Opening { database: Shared::new(address), options, ready: OnceCell::new() };
        Ok(Self { opening: Arc::new(opening) })
    }

    /// Brings the tables to this version, whatever the options say, and tells the version they had.
    pub async fn migrate(&self) -> Result<keymill_sql::Version, LedgerError> {
        self.opening.migrate().await
    }

    /// Opened by a task of its own: a caller who gives up does not undo what takes longer than it waits.
    async fn ready(&self) -> Result<&Ready, LedgerError> {
        if self.opening.ready.get().is_none() {
            let opening = self.opening.clone();
            let opened =
                tokio::spawn(async move { opening.ready.get_or_try_init(|| opening.open()).await.map(drop) });
            opened.await.map_err(|_| self.opening.failed("open", stopped()))??;
        }
        self.opening.ready.get().ok_or_else(|| self.opening.failed("open", stopped()))
    }

    async fn run<O: Operation>(&self, op: &O, ready: &Ready, head_lock: HeadLock) -> Run<O::Answer> {
        let ended = |error| Run::Ended(Err(self.opening.failed(O::NAME, error)));
        let access = if O::READS_ONLY { Access::Read } else { Access::Write };
        let mut transaction = match self.opening.database.begin(access).await {
            Ok(transaction) => transaction,
            Err(error) => return ended(error),
        };
        let mut rows = SqlRows::new(&ready.tables, &mut transaction, access, head_lock, O::NAME);
        let outcome = op.run(&mut rows).await;
        let head_lock = if rows.wants_head { HeadLock::Exclusive } else { head_lock };
        if let Some(trouble) = rows.trouble.take() {
            transaction.rollback().await;
            return match trouble {
                SqlError::Aborted(_) => Run::Again { head_lock, why: trouble },
                other => ended(other),
            };
        }
        let keep = outcome.as_ref().map_or_else(LedgerError::commits, |_| access == Access::Write);
        if !keep {
            transaction.rollback().await;
            return Run::Ended(outcome);
        }
        match transaction.commit().await {
            Ok(()) => Run::Ended(outcome),
            Err(why @ SqlError::Aborted(_)) => Run::Again { head_lock, why },
            Err(error) => ended(error),
        }
    }
}

impl Store for SqlStore {
    fn name(&self) -> &'static str {
        self.opening.name()
    }

    /// Until the engine was seen: what it will have to be.
    fn grade(&self) -> Grade {
        let expected = if self.opening.options.lossy_accepted { Grade::Lossy } else { Grade::Strict };
        self.opening.ready.get().map_or(expected, |ready| ready.grade)
    }

    fn keeps_time(&self) -> bool {
        true
    }

    async fn transact<O: Operation>(&self, op: O) -> Result<O::Answer, LedgerError> {
        let ready = self.ready().await?;
        let mut lock = HeadLock::Shared;
        let mut last = SqlError::Unavailable("it was never run".to_owned());
        for attempt in 1..=ATTEMPTS_MAX {
            match self.run(&op, ready, lock).await {
                Run::Ended(outcome) => return outcome,
                Run::Again { head_lock, why } => (lock, last) = (head_lock, why),
            }
            tokio::time::sleep(PAUSE * attempt).await;
        }
        Err(self.opening.failed(O::NAME, last))
    }

    async fn backup(&self, _to: &Path, _at: Timestamp) -> Result<(), LedgerError> {
        Err(LedgerError::Unsupported { store: self.name(), operation: "backup" })
    }
}

/// The runtime is going down.
fn stopped() -> SqlError {
    SqlError::Unavailable("this process is stopping".to_owned())
}

/// Sorts what the engine said by what a caller must do.
fn ledger_error(store: &'static str, operation: &'static str, error: SqlError) -> LedgerError {
    match error {
        SqlError::Aborted(_) | SqlError::Unavailable(_) | SqlError::Unknown(_) => {
            LedgerError::Unavailable { store, operation, source: error.into() }
        }
        SqlError::Refused(detail) => LedgerError::Refused { store, detail },
        SqlError::Unexpected(detail) => LedgerError::Corrupt { store, detail },
        SqlError::Broken(detail) => LedgerError::Broken { store, detail },
    }
}
