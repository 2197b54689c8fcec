//! Numbered migrations: a schema that knows its version, and becomes a newer one once.

use crate::{Access, Database, Dialect, SqlError, Statements, Value, Work};

/// Tables with a common prefix and the steps that led to them. Steps are never edited once released, only
/// added to. Their statements may use `{prefix}` and the types of [`Dialect::typed`].
#[derive(Debug, Clone, Copy)]
pub struct Schema<'a> {
    pub prefix: &'a str,
    /// Statements per version, the first version first.
    pub steps: Steps,
}

pub type Steps = &'static [&'static [&'static str]];

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
    /// The version in the database. A newer one than is known is an error.
    pub async fn version(&self, database: &Database) -> Result<Version, SqlError> {
        database.run(Look(self.tables())).await
    }

    /// Brings the tables to the known version, and says which they had. Of two who try at once, one waits and
    /// finds it done.
    pub async fn migrate(&self, database: &Database) -> Result<Version, SqlError> {
        database.run(Migrate(self.tables())).await
    }

    fn tables(&self) -> Tables {
        Tables { prefix: self.prefix.to_owned(), steps: self.steps }
    }
}

struct Tables {
    prefix: String,
    steps: Steps,
}

struct Look(Tables);

impl Work for Look {
    type Answer = Version;
    const ACCESS: Access = Access::Read;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Version, SqlError> {
        self.0.version(statements).await
    }
}

struct Migrate(Tables);

impl Work for Migrate {
    type Answer = Version;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Version, SqlError> {
        self.0.lock(statements).await?;
        let migrated = self.0.bring_up_to_date(statements).await;
        // Even after a failure: MySQL's lock is the connection's, which lives on.
        let unlocked = self.0.unlock(statements).await;
        let version = migrated?;
        unlocked.map(|()| version)
    }
}

impl Tables {
    /// The table that holds the version.
    fn table(&self) -> String {
        format!("{}_schema", self.prefix)
    }

    async fn version<S: Statements>(&self, statements: &mut S) -> Result<Version, SqlError> {
        let count = statements.dialect().count_tables();
        let is_there = single(statements, count, &[self.table().into()]).await? > 0;
        let found = if is_there {
            let sql = format!("SELECT coalesce(max(version), 0) FROM {}", self.table());
            single(statements, &sql, &[]).await?
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

    async fn bring_up_to_date<S: Statements>(&self, statements: &mut S) -> Result<Version, SqlError> {
        let dialect = statements.dialect();
        let create =
            format!("CREATE TABLE IF NOT EXISTS {} (version BIGINT NOT NULL PRIMARY KEY)", self.table());
        statements.define(&create).await?;
        let version = self.version(statements).await?;
        for (step, number) in self.steps.iter().zip(1_i64..).skip(version.found) {
            for statement in *step {
                statements.define(&dialect.typed(&statement.replace("{prefix}", &self.prefix))).await?;
            }
            let record = format!("INSERT INTO {} (version) VALUES (?)", self.table());
            statements.execute(&record, &[number.into()]).await?;
        }
        Ok(version)
    }

    async fn lock<S: Statements>(&self, statements: &mut S) -> Result<(), SqlError> {
        match statements.dialect() {
            Dialect::Postgres => {
                // Ends with the transaction; it waits as long as any lock.
                statements.query("SELECT pg_advisory_xact_lock(?)", &[self.lock_number().into()]).await?;
            }
            Dialect::MySql => {
                let got = "SELECT coalesce(get_lock(concat('keymill ', database(), ?), 10), 0)";
                let name = Value::from(format!(" {}", self.lock_number()));
                if single(statements, got, &[name]).await? != 1 {
                    return Err(SqlError::Unavailable("another process is migrating its tables".to_owned()));
                }
            }
            // Nobody else writes meanwhile.
            Dialect::Sqlite => {}
        }
        Ok(())
    }

    async fn unlock<S: Statements>(&self, statements: &mut S) -> Result<(), SqlError> {
        if statements.dialect() == Dialect::MySql {
            let name = Value::from(format!(" {}", self.lock_number()));
            statements.query("SELECT release_lock(concat('keymill ', database(), ?))", &[name]).await?;
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

async fn single<S: Statements>(statements: &mut S, sql: &str, values: &[Value]) -> Result<i64, SqlError> {
    let rows = statements.query(sql, values).await?;
    rows.first().ok_or_else(|| SqlError::Unexpected(format!("no answer to `{sql}`")))?.integer(0)
}
