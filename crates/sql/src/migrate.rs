//! Numbered migrations: a schema that knows its version, and becomes a newer one once.

use crate::{Access, Database, Dialect, SqlError, Statements as _, Transaction, Value};

/// Tables with a common prefix and the steps that led to them. Steps are never edited once released, only
/// added to. Their statements may use `{prefix}` and the types of [`Dialect::typed`].
#[derive(Debug, Clone, Copy)]
pub struct Schema<'a> {
    pub prefix: &'a str,
    /// Statements per version, the first version first.
    pub steps: &'a [&'a [&'a str]],
}

/// What was found and what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// 0: there is nothing yet.
    pub found: usize,
    pub known: usize,
}

impl Version {
    pub fn is_current(self) -> bool {
        self.found == self.known
    }
}

impl Schema<'_> {
    fn table(&self) -> String {
        format!("{}_schema", self.prefix)
    }

    /// The version in the database. A newer one than is known is an error.
    pub async fn version(&self, database: &Database) -> Result<Version, SqlError> {
        let mut transaction = database.begin(Access::Read).await?;
        let version = self.read_version(&mut transaction).await?;
        transaction.rollback().await;
        Ok(version)
    }

    async fn read_version(&self, transaction: &mut Transaction) -> Result<Version, SqlError> {
        let schema = transaction.dialect().current_schema();
        let sql = format!(
            "SELECT count(*) FROM information_schema.tables WHERE table_schema = {schema} AND table_name = ?"
        );
        let is_there = single(transaction, &sql, &[self.table().into()]).await? > 0;
        let found = if is_there {
            let sql = format!("SELECT coalesce(max(version), 0) FROM {}", self.table());
            single(transaction, &sql, &[]).await?
        } else {
            0
        };
        let known = self.steps.len();
        match usize::try_from(found) {
            Ok(found) if found <= known => Ok(Version { found, known }),
            _ => Err(SqlError::Refused(format!(
                "its tables `{}_…` were made by a newer Keymill (version {found}, this one knows {known}); use that version",
                self.prefix
            ))),
        }
    }

    /// Brings the tables to the known version. Of two who try at once, one waits and finds it done.
    pub async fn migrate(&self, database: &Database) -> Result<Version, SqlError> {
        let mut transaction = database.begin(Access::Write).await?;
        self.lock(&mut transaction).await?;
        let create =
            format!("CREATE TABLE IF NOT EXISTS {} (version BIGINT NOT NULL PRIMARY KEY)", self.table());
        transaction.execute(&create, &[]).await?;
        let version = self.read_version(&mut transaction).await?;
        for (step, number) in self.steps.iter().zip(1_i64..).skip(version.found) {
            for statement in *step {
                self.apply(&mut transaction, statement).await?;
            }
            let record = format!("INSERT INTO {} (version) VALUES (?)", self.table());
            transaction.execute(&record, &[number.into()]).await?;
        }
        self.unlock(&mut transaction).await?;
        transaction.commit().await?;
        Ok(version)
    }

    /// MySQL commits every definition by itself, so a step that was cut short is found half done: what is
    /// there already is passed over.
    async fn apply(&self, transaction: &mut Transaction, statement: &str) -> Result<(), SqlError> {
        let sql = transaction.dialect().typed(&statement.replace("{prefix}", self.prefix));
        match transaction.define(&sql).await {
            Err(SqlError::Refused(said)) if transaction.dialect() == Dialect::MySql && is_there(&said) => {
                Ok(())
            }
            done => done,
        }
    }

    async fn lock(&self, transaction: &mut Transaction) -> Result<(), SqlError> {
        match transaction.dialect() {
            Dialect::Postgres => {
                // Ends with the transaction; it waits as long as any lock.
                transaction.query("SELECT pg_advisory_xact_lock(?)", &[self.lock_number().into()]).await?;
            }
            Dialect::MySql => {
                let got = "SELECT coalesce(get_lock(concat('keymill ', database(), ?), 10), 0)";
                let name = Value::from(format!(" {}", self.lock_number()));
                if single(transaction, got, &[name]).await? != 1 {
                    return Err(SqlError::Aborted("another process is migrating its tables".to_owned()));
                }
            }
        }
        Ok(())
    }

    async fn unlock(&self, transaction: &mut Transaction) -> Result<(), SqlError> {
        if transaction.dialect() == Dialect::MySql {
            let name = Value::from(format!(" {}", self.lock_number()));
            transaction.query("SELECT release_lock(concat('keymill ', database(), ?))", &[name]).await?;
        }
        Ok(())
    }

    /// The same for everyone who uses this prefix (FNV-1a).
    fn lock_number(&self) -> i64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = self.table().bytes().fold(0xcbf2_9ce4_8422_2325, step);
        i64::from_ne_bytes(hash.to_ne_bytes())
    }
}

/// The table exists, or the index does.
fn is_there(said: &str) -> bool {
    said.ends_with("(1050)") || said.ends_with("(1061)")
}

async fn single(transaction: &mut Transaction, sql: &str, values: &[Value]) -> Result<i64, SqlError> {
    let rows = transaction.query(sql, values).await?;
    rows.first().ok_or_else(|| SqlError::Unexpected(format!("no answer to `{sql}`")))?.integer(0)
}
