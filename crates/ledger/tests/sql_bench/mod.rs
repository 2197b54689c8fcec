//! A ledger on a real SQL engine, one prefix per test, and the ways to send it back in time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use keymill_ledger::{
    LedgerId, SqlStore, StoreOptions, Tls,
    conformance::{Bench, Rewinds, START},
};

const TABLES: [&str; 9] =
    ["head", "nodes", "tracks", "holes", "claims", "keyspaces", "leases", "tokens", "witnesses"];

/// An engine that many tests share.
pub(crate) trait Server: Sync {
    fn url(&self) -> String;
    fn sql(&self, statements: &str) -> anyhow::Result<String>;
}

pub(crate) fn options() -> StoreOptions {
    StoreOptions {
        lossy_accepted: false,
        migrate: true,
        timeout: Duration::from_secs(20),
        tls: Tls::default(),
        create: true,
        new_id: LedgerId("test".to_owned()),
        at: START,
    }
}

pub(crate) struct OnServer {
    server: &'static dyn Server,
    prefix: String,
}

impl OnServer {
    /// Tables of its own, which no other test has.
    pub(crate) fn new(server: &'static dyn Server) -> Self {
        static TESTS: AtomicU32 = AtomicU32::new(0);
        Self { server, prefix: format!("t{}", TESTS.fetch_add(1, Ordering::Relaxed)) }
    }

    fn sql(&self, statements: impl Iterator<Item = String>) {
        let statements: Vec<String> = statements.collect();
        self.server.sql(&statements.join("; ")).expect("the tables are the test's own");
    }
}

impl Bench for OnServer {
    type Store = SqlStore;

    async fn handle(&self) -> Arc<SqlStore> {
        let url = format!("{}?table_prefix={}", self.server.url(), self.prefix);
        Arc::new(SqlStore::new(&url, options()).expect("a good URL"))
    }

    async fn pass(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// Rows put aside and put back: what a restored dump does.
impl Rewinds for OnServer {
    type Moment = String;

    async fn moment(&self) -> String {
        static MOMENTS: AtomicU32 = AtomicU32::new(0);
        let copy = format!("m{}", MOMENTS.fetch_add(1, Ordering::Relaxed));
        let prefix = &self.prefix;
        self.sql(
            TABLES
                .iter()
                .map(|table| format!("CREATE TABLE {copy}_{table} AS SELECT * FROM {prefix}_{table}")),
        );
        copy
    }

    async fn rewind(&self, to: String) {
        let prefix = &self.prefix;
        self.sql(TABLES.iter().flat_map(|table| {
            [
                format!("DELETE FROM {prefix}_{table}"),
                format!("INSERT INTO {prefix}_{table} SELECT * FROM {to}_{table}"),
            ]
        }));
    }
}
