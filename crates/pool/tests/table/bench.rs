//! Pools in the tables of real engines, each test with a prefix of its own.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use keymill_engines::{mariadb::MariaDb, postgres::Postgres};
use keymill_id::{Block, Definition, KeyspaceName, Mint, Number, Rows, Scratch, Secret, Slab, Stated};
use keymill_issuer::rowed::{Begun, Era, RowHome, RowPool};
use keymill_ledger::{LedgerId, NodeName};
use keymill_pool::{TableHome, TablePool};
use keymill_sql::{Access, Address, Database, Dialect, Row, SqlError, Sqlite, Statements, Tls, Work};
use tempfile::TempDir;

pub(crate) const ERA: Era = Era { advances: 0, term: 1 };

pub(crate) struct Bench {
    pub(crate) database: Database,
    pub(crate) prefix: String,
    /// Removed after the file in it was closed.
    _dir: Option<TempDir>,
}

pub(crate) fn database(url: &str) -> Database {
    Database::new(Address::parse(url, &Tls::default(), Duration::from_secs(20)).expect("a good URL"))
}

impl Bench {
    pub(crate) fn postgres() -> Self {
        static SERVER: OnceLock<Postgres> = OnceLock::new();
        let server = SERVER.get_or_init(|| Postgres::start().expect("PostgreSQL starts"));
        Self::new(database(&server.url()), None)
    }

    pub(crate) fn mariadb() -> Self {
        static SERVER: OnceLock<MariaDb> = OnceLock::new();
        let server = SERVER.get_or_init(|| MariaDb::start().expect("MariaDB starts"));
        Self::new(database(&server.url()), None)
    }

    pub(crate) fn sqlite() -> Self {
        let dir = tempfile::tempdir().expect("a folder to test in");
        let file = Sqlite::open(&dir.path().join("test.db")).expect("a new file");
        Self::new(Database::embedded(file), Some(dir))
    }

    pub(crate) fn new(database: Database, dir: Option<TempDir>) -> Self {
        static TESTS: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("t{}_", TESTS.fetch_add(1, Ordering::Relaxed));
        Self { database, prefix, _dir: dir }
    }

    /// A process of its own, as far as the tables are concerned.
    pub(crate) fn pool(&self, node: &str) -> Arc<TablePool> {
        self.pool_of("codes", node, true)
    }

    pub(crate) fn pool_of(&self, keyspace: &str, node: &str, migrate: bool) -> Arc<TablePool> {
        let home = RowHome {
            ledger: LedgerId("tests".to_owned()),
            keyspace: KeyspaceName::parse(keyspace).unwrap(),
            rows: Rows::Table { prefix: self.prefix.clone() },
        };
        let at = TableHome { database: self.database.clone(), migrate, node: node_name(node) };
        Arc::new(TablePool::open(&home, &at).unwrap())
    }

    /// A pool that was begun, with the keys of the first `count` numbers.
    pub(crate) async fn filled(&self, count: u64) -> Arc<TablePool> {
        let pool = self.pool("a");
        assert_eq!(pool.begin(None, ERA, Number::ZERO).await.unwrap(), Begun::Anew { burned: 0 });
        if count > 0 {
            pool.push(ERA, &slab(0, count)).await.unwrap();
        }
        pool
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    /// What another program says. `{p}` is the prefix, `{key}` the column.
    pub(crate) async fn query(&self, sql: &str) -> Vec<Row> {
        self.database.run(Ask(self.named(sql))).await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) -> u64 {
        self.database.run(Do(self.named(sql))).await.unwrap()
    }

    fn named(&self, sql: &str) -> String {
        let key = if self.dialect() == Dialect::MySql { "`key`" } else { "key" };
        sql.replace("{p}", &self.prefix).replace("{key}", key)
    }

    /// The keys of `available` or `used`, in the order of their ids.
    pub(crate) async fn keys(&self, table: &str) -> Vec<String> {
        let rows = self.query(&format!("SELECT {{key}} FROM {{p}}{table}_keys ORDER BY id")).await;
        rows.iter().map(|row| row.text(0).unwrap()).collect()
    }

    pub(crate) async fn count(&self, from: &str) -> i64 {
        self.query(&format!("SELECT count(*) FROM {{p}}{from}")).await[0].integer(0).unwrap()
    }
}

struct Ask(String);

impl Work for Ask {
    type Answer = Vec<Row>;
    const ACCESS: Access = Access::Read;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Vec<Row>, SqlError> {
        statements.query(&self.0, &[]).await
    }
}

struct Do(String);

impl Work for Do {
    type Answer = u64;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<u64, SqlError> {
        statements.execute(&self.0, &[]).await
    }
}

pub(crate) fn node_name(name: &str) -> NodeName {
    NodeName::parse(name).unwrap()
}

pub(crate) fn number(number: u64) -> Number {
    Number::new(number).unwrap()
}

/// Keys that count, so that one that is missing or there twice shows at once.
fn mint() -> &'static Mint {
    static MINT: OnceLock<Mint> = OnceLock::new();
    MINT.get_or_init(|| {
        let stated: Stated = serde_json::from_str(
            r#"{"scheme":"pool","store":"table","alphabet":"decimal","length":8,"order":"sequential"}"#,
        )
        .unwrap();
        let definition = Definition::resolve(&stated, Secret::from_bytes([7; Secret::LENGTH])).unwrap();
        Mint::compile(&definition)
    })
}

pub(crate) fn slab(from: u64, to: u64) -> Slab {
    mint().spell_block(Block::new(number(from), number(to)).unwrap(), &[], &mut Scratch::default())
}

pub(crate) fn key(number: u64) -> String {
    format!("{number:08}")
}

pub(crate) fn keys(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(key).collect()
}

pub(crate) fn texts(keys: &[Vec<u8>]) -> Vec<String> {
    keys.iter().map(|key| String::from_utf8(key.clone()).unwrap()).collect()
}
