//! The first operation on a shared database: what the engine is worth, its tables, the ledger's head.

use keymill_sql::{Access, Schema, Shared, SqlError, Statements as _, Version};
use tokio::sync::OnceCell;

use super::{
    ATTEMPTS_MAX, engine, ledger_error,
    rows::{HeadLock, SqlRows, Tables},
    schema,
};
use crate::{
    Grade, LedgerError, Rows, StoreOptions,
    store::{NO_LEDGER, first_head},
};

/// A database that may not have been seen yet.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) database: Shared,
    pub(super) options: StoreOptions,
    pub(super) ready: OnceCell<Ready>,
}

/// What was found or made.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) tables: Tables,
    pub(super) grade: Grade,
}

impl Opening {
    pub(super) fn name(&self) -> &'static str {
        self.database.dialect().name()
    }

    pub(super) fn failed(&self, operation: &'static str, error: SqlError) -> LedgerError {
        ledger_error(self.name(), operation, error)
    }

    fn schema(&self) -> Schema<'_> {
        Schema { prefix: self.database.address().table_prefix(), steps: schema::STEPS }
    }

    pub(super) async fn migrate(&self) -> Result<Version, LedgerError> {
        let migrated = self.schema().migrate(&self.database.clone().into()).await;
        migrated.map_err(|error| self.failed("migrate", error))
    }

    pub(super) async fn open(&self) -> Result<Ready, LedgerError> {
        let failed = |error| self.failed("open", error);
        let mut transaction = self.database.begin(Access::Read).await.map_err(failed)?;
        let engine = engine::look(&mut transaction).await.map_err(failed)?;
        transaction.rollback().await;
        let grade = self.judge(&engine.doubts)?;
        self.bring_up_to_date().await?;
        let tables = Tables {
            store: self.name(),
            prefix: self.database.address().table_prefix().to_owned(),
            incarnation: engine.incarnation,
        };
        self.make_head(&tables).await?;
        Ok(Ready { tables, grade })
    }

    fn judge(&self, doubts: &[String]) -> Result<Grade, LedgerError> {
        if doubts.is_empty() {
            return Ok(Grade::Strict);
        }
        let doubts = doubts.join("; ");
        if !self.options.lossy_accepted {
            let detail = format!(
                "it may forget what it acknowledged: {doubts}; change that, or accept it with \
                 ledger.lossy = \"accepted\""
            );
            return Err(LedgerError::Refused { store: self.name(), detail });
        }
        tracing::warn!(doubts, "the ledger may forget what it acknowledged (accepted): {doubts}");
        Ok(Grade::Lossy)
    }

    async fn bring_up_to_date(&self) -> Result<(), LedgerError> {
        let version = self.schema().version(&self.database.clone().into()).await;
        let version = version.map_err(|error| self.failed("open", error))?;
        if version.is_current() {
            return Ok(());
        }
        if !self.options.migrate {
            let detail = format!(
                "its tables have version {} and this program wants {}; run `keymill ledger migrate`, or set \
                 ledger.migrate = true",
                version.found, version.known
            );
            return Err(LedgerError::Refused { store: self.name(), detail });
        }
        self.migrate().await.map(drop)
    }

    /// Makes the head if there is none. Of two who try, one finds the other's.
    async fn make_head(&self, tables: &Tables) -> Result<(), LedgerError> {
        for _ in 0..ATTEMPTS_MAX {
            match self.try_to_make_head(tables).await {
                Ok(created) => {
                    if created {
                        let shown = self.database.address().to_string();
                        tracing::info!(ledger = shown, "made a new ledger at {shown}");
                    }
                    return Ok(());
                }
                // Somebody else's, or nobody knows: look again.
                Err(SqlError::Aborted(_) | SqlError::Unknown(_)) => {}
                Err(error) => return Err(self.failed("open", error)),
            }
        }
        Err(self.failed("open", SqlError::Unavailable("its head could not be made".to_owned())))
    }

    /// Says whether this call made it.
    async fn try_to_make_head(&self, tables: &Tables) -> Result<bool, SqlError> {
        let count = format!("SELECT count(*) FROM {}_head", tables.prefix);
        let mut transaction = self.database.begin(Access::Write).await?;
        let found = transaction.query(&count, &[]).await?;
        if found.first().map(|row| row.integer(0)).transpose()?.is_some_and(|heads| heads > 0) {
            transaction.rollback().await;
            return Ok(false);
        }
        if !self.options.create {
            transaction.rollback().await;
            return Err(SqlError::Refused(NO_LEDGER.to_owned()));
        }
        let mut rows = SqlRows::new(tables, &mut transaction, Access::Write, HeadLock::Exclusive, "open");
        let written = async {
            let incarnation = rows.incarnation().await?;
            rows.put_head(&first_head(self.options.new_id.clone(), incarnation, self.options.at)).await
        };
        if let Err(error) = written.await {
            return Err(rows.trouble.take().unwrap_or(SqlError::Unexpected(error.to_string())));
        }
        transaction.commit().await.map(|()| true)
    }
}
