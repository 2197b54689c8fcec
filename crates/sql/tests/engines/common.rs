//! Real engines, and the smallest works there are.

use std::{sync::OnceLock, time::Duration};

use keymill_engines::{mariadb::MariaDb, postgres::Postgres};
use keymill_sql::{Access, Address, Database, Row, Shared, SqlError, Sqlite, Statements, Tls, Value, Work};
use tempfile::TempDir;

pub(crate) fn postgres() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::start().expect("PostgreSQL starts"))
}

pub(crate) fn mariadb() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| MariaDb::start().expect("MariaDB starts"))
}

pub(crate) fn shared(url: &str) -> Shared {
    let address = Address::parse(url, &Tls::default(), Duration::from_secs(5)).expect("a good URL");
    Shared::new(address)
}

/// The engines that many processes share.
pub(crate) fn both() -> [Shared; 2] {
    [shared(&postgres().url()), shared(&mariadb().url())]
}

/// A file of its own, removed after it was closed.
pub(crate) struct File {
    pub(crate) sqlite: Sqlite,
    pub(crate) dir: TempDir,
}

impl File {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder to test in");
        Self { sqlite: Sqlite::open(&dir.path().join("test.db")).expect("a new file"), dir }
    }

    pub(crate) fn database(&self) -> Database {
        Database::embedded(self.sqlite.clone())
    }
}

/// Every engine, and the folder that one of them lives in.
pub(crate) fn all() -> ([Database; 3], File) {
    let file = File::new();
    let [postgres, mariadb] = both();
    ([postgres.into(), mariadb.into(), file.database()], file)
}

/// Statements that write, one after another. Answers how many rows each of them wrote.
#[derive(Clone)]
pub(crate) struct Do(pub(crate) Vec<(String, Vec<Value>)>);

impl Do {
    pub(crate) fn all(statements: &[&str]) -> Self {
        Self(statements.iter().map(|sql| ((*sql).to_owned(), Vec::new())).collect())
    }

    pub(crate) fn one(sql: &str, values: &[Value]) -> Self {
        Self(vec![(sql.to_owned(), values.to_vec())])
    }
}

impl Work for Do {
    type Answer = Vec<u64>;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Vec<u64>, SqlError> {
        let mut counts = Vec::new();
        for (sql, values) in &self.0 {
            let sql = statements.dialect().typed(sql);
            counts.push(statements.execute(&sql, values).await?);
        }
        Ok(counts)
    }
}

/// One statement that reads.
pub(crate) struct Ask(pub(crate) String, pub(crate) Vec<Value>);

impl Work for Ask {
    type Answer = Vec<Row>;
    const ACCESS: Access = Access::Read;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Vec<Row>, SqlError> {
        statements.query(&self.0, &self.1).await
    }
}

/// A database, or a handle to what is behind one.
pub(crate) trait Handle: Clone + Into<Database> {}

impl<H: Clone + Into<Database>> Handle for H {}

pub(crate) async fn make(database: &impl Handle, statements: &[&str]) {
    database.clone().into().run(Do::all(statements)).await.unwrap();
}

pub(crate) async fn ask(database: &impl Handle, sql: &str, values: &[Value]) -> Vec<Row> {
    database.clone().into().run(Ask(sql.to_owned(), values.to_vec())).await.unwrap()
}

pub(crate) async fn count(database: &impl Handle, table: &str) -> i64 {
    ask(database, &format!("SELECT count(*) FROM {table}"), &[]).await[0].integer(0).unwrap()
}
