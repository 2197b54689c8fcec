//! The MariaDB store keeps every promise.

mod sql_bench;

use std::sync::{Arc, OnceLock};

use keymill_engines::mariadb::MariaDb;
use keymill_ledger::{
    Grade, LedgerError, SqlStore, Store, StoreOptions, Tls,
    conformance::{Bench, FailsOver, TestNode},
};
use sql_bench::{OnServer, Server, options};

impl Server for MariaDb {
    fn url(&self) -> String {
        self.url()
    }
    fn sql(&self, statements: &str) -> anyhow::Result<String> {
        self.sql(&format!("USE keymill; {statements}"))
    }
}

async fn open() -> OnServer {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    OnServer::new(SERVER.get_or_init(|| MariaDb::start().expect("MariaDB starts")))
}

mod mariadb {
    keymill_ledger::conformance!(super::open, rewinds);
}

/// A server of the test's own, because it becomes another one.
struct Alone(MariaDb);

async fn open_alone() -> Alone {
    Alone(MariaDb::start().expect("MariaDB starts"))
}

impl Bench for Alone {
    type Store = SqlStore;

    async fn handle(&self) -> Arc<SqlStore> {
        Arc::new(SqlStore::new(&self.0.url(), options()).expect("a good URL"))
    }

    async fn pass(&self, _millis: u64) {}
}

impl FailsOver for Alone {
    async fn fail_over(&self) {
        self.0.sql("SET GLOBAL server_id = 77").expect("it becomes another member");
    }
}

mod failover {
    keymill_ledger::conformance!(@tests super::open_alone;
        failover:
            another_incarnation_halts_before_anything_is_changed,
            advance_accepts_the_new_incarnation;
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_forget_is_refused_and_says_why() {
    let server = MariaDb::start_with(&["--innodb-flush-log-at-trx-commit=2", "--log-bin"]).unwrap();
    let refused = SqlStore::new(&server.url(), options()).unwrap();
    let refused = TestNode::try_start(Arc::new(refused), "a").await.unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("innodb_flush_log_at_trx_commit is 2") && said.contains("sync_binlog"), "{said}");
    let accepted = SqlStore::new(&server.url(), StoreOptions { lossy_accepted: true, ..options() }).unwrap();
    let accepted = Arc::new(accepted);
    TestNode::start(accepted.clone(), "a").await;
    assert_eq!(Store::grade(&*accepted), Grade::Lossy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_whom_the_authority_vouches_for_and_nobody_else() {
    let (server, made) = MariaDb::start_with_tls().unwrap();
    server.sql("ALTER USER keymill@'127.0.0.1' REQUIRE SSL").unwrap();
    let store =
        |tls: Tls, url: &str| Arc::new(SqlStore::new(url, StoreOptions { tls, ..options() }).unwrap());
    let trusting = Tls { ca: Some(made.file("ca.pem")), ..Tls::default() };
    TestNode::start(store(trusting, &server.url()), "a").await;
    let unknown = format!("{}?ssl-mode=VERIFY_IDENTITY", server.url());
    let refused = TestNode::try_start(store(Tls::default(), &unknown), "b").await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    let plain = format!("{}?ssl-mode=DISABLED", server.url());
    let refused = TestNode::try_start(store(Tls::default(), &plain), "b").await.unwrap_err();
    assert!(
        matches!(&refused, LedgerError::Refused { detail, .. } if detail.contains("denied")),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_away_is_waited_for_and_found() {
    let mut server = MariaDb::start().unwrap();
    let store = Arc::new(SqlStore::new(&server.url(), options()).unwrap());
    let mut node = TestNode::with_links(store.clone(), "a").await;
    assert_eq!(Store::grade(&*store), Grade::Strict);
    node.reserve("links", 10).await.unwrap();
    server.crash().unwrap();
    assert!(matches!(node.reserve("links", 10).await, Err(LedgerError::Unavailable { .. })));
    server.restart().unwrap();
    node.reserve("links", 10).await.unwrap();
    // root alone may write now, as on a replica.
    server.sql("SET GLOBAL read_only = 1").unwrap();
    let unwritten = node.reserve("links", 10).await.unwrap_err();
    assert!(unwritten.is_transient() && unwritten.to_string().contains("read-only"), "{unwritten}");
}
