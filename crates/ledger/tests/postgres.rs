//! The PostgreSQL store keeps every promise.

mod sql_bench;

use std::sync::{Arc, Mutex, OnceLock};

use keymill_engines::postgres::Postgres;
use keymill_ledger::{
    Grade, Ledger, LedgerError, SqlStore, Store, StoreOptions, Tls,
    conformance::{Bench, FailsOver, TestNode},
};
use sql_bench::{OnServer, Server, options};

impl Server for Postgres {
    fn url(&self) -> String {
        self.url()
    }
    fn sql(&self, statements: &str) -> anyhow::Result<String> {
        self.sql(statements)
    }
}

async fn open() -> OnServer {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    OnServer::new(SERVER.get_or_init(|| Postgres::start().expect("PostgreSQL starts")))
}

mod postgres {
    keymill_ledger::conformance!(super::open, rewinds);
}

/// A primary and a standby that takes its place, address and all.
struct Pair {
    primary: Mutex<Option<Postgres>>,
    standby: Mutex<Postgres>,
    url: String,
}

async fn open_pair() -> Pair {
    let primary = Postgres::start().expect("PostgreSQL starts");
    let standby = primary.standby().expect("a standby starts");
    let url = primary.url();
    Pair { primary: Mutex::new(Some(primary)), standby: Mutex::new(standby), url }
}

impl Bench for Pair {
    type Store = SqlStore;

    async fn handle(&self) -> Arc<SqlStore> {
        let options = StoreOptions { lossy_accepted: true, ..options() };
        Arc::new(SqlStore::new(&self.url, options).expect("a good URL"))
    }

    async fn pass(&self, _millis: u64) {}
}

impl FailsOver for Pair {
    async fn fail_over(&self) {
        let primary = self.primary.lock().unwrap().take().expect("it fails over once");
        let mut standby = self.standby.lock().unwrap();
        standby.wait_for(&primary).expect("it catches up");
        standby.take_over(primary).expect("it takes over");
    }
}

mod failover {
    keymill_ledger::conformance!(@tests super::open_pair;
        failover:
            another_incarnation_halts_before_anything_is_changed,
            advance_accepts_the_new_incarnation;
    );
}

fn store(url: &str, options: StoreOptions) -> Arc<SqlStore> {
    Arc::new(SqlStore::new(url, options).expect("a good URL"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_forget_is_refused_and_says_why() {
    let primary = Postgres::start_with(&["fsync=off"]).unwrap();
    let refused = TestNode::try_start(store(&primary.url(), options()), "a").await.unwrap_err();
    assert!(
        matches!(&refused, LedgerError::Refused { detail, .. } if detail.contains("fsync is off")),
        "{refused}"
    );
    let accepted = store(&primary.url(), StoreOptions { lossy_accepted: true, ..options() });
    TestNode::start(accepted.clone(), "a").await;
    assert_eq!(Store::grade(&*accepted), Grade::Lossy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asynchronous_standby_makes_it_lossy_and_a_standby_is_not_written() {
    let primary = Postgres::start().unwrap();
    let alone = store(&primary.url(), options());
    TestNode::start(alone.clone(), "a").await;
    assert_eq!(Store::grade(&*alone), Grade::Strict);
    let standby = primary.standby().unwrap();
    standby.wait_for(&primary).unwrap();
    let refused = TestNode::try_start(store(&primary.url(), options()), "b").await.unwrap_err();
    assert!(
        matches!(&refused, LedgerError::Refused { detail, .. } if detail.contains("asynchronous")),
        "{refused}"
    );
    let unwritten = TestNode::try_start(store(&standby.url(), options()), "b").await.unwrap_err();
    assert!(unwritten.is_transient() && unwritten.to_string().contains("read-only standby"), "{unwritten}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_away_is_waited_for_and_found() {
    let mut server = Postgres::start().unwrap();
    server.crash().unwrap();
    let store = store(&server.url(), options());
    let away = TestNode::try_start(store.clone(), "a").await.unwrap_err();
    assert!(away.is_transient(), "{away}");
    server.restart().unwrap();
    let mut node = TestNode::with_links(store, "a").await;
    node.reserve("links", 10).await.unwrap();
    server.crash().unwrap();
    assert!(node.reserve("links", 10).await.unwrap_err().is_transient());
    server.restart().unwrap();
    node.reserve("links", 10).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_not_touched_where_that_was_asked() {
    let server = Postgres::start().unwrap();
    let still = store(&server.url(), StoreOptions { migrate: false, ..options() });
    let refused = TestNode::try_start(still.clone(), "a").await.unwrap_err();
    assert!(refused.to_string().contains("keymill ledger migrate"), "{refused}");
    assert_eq!(
        server.sql("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'keymill%'").unwrap().trim(),
        "0"
    );
    still.migrate().await.unwrap();
    TestNode::start(still, "a").await;
    server.sql("INSERT INTO keymill_schema VALUES (1000)").unwrap();
    let newer = TestNode::try_start(store(&server.url(), options()), "b").await.unwrap_err();
    assert!(newer.to_string().contains("newer Keymill"), "{newer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_whom_the_authority_vouches_for_and_nobody_else() {
    let (server, made) = Postgres::start_with_tls().unwrap();
    let tls = Tls { ca: Some(made.file("ca.pem")), ..Tls::default() };
    let node = TestNode::start(store(&server.url(), StoreOptions { tls, ..options() }), "a").await;
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE ssl AND application_name = 'keymill'";
    assert_ne!(server.sql(encrypted).unwrap().trim(), "0");
    drop(node);
    // The usual authorities do not know this one.
    let unknown = format!("{}?sslmode=verify-full", server.url());
    let refused = TestNode::try_start(store(&unknown, options()), "b").await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    // The authority vouches for 127.0.0.1, not for this name of it.
    let tls = Tls { ca: Some(made.file("ca.pem")), ..Tls::default() };
    let renamed = server.url().replace("127.0.0.1", "localhost");
    let refused =
        TestNode::try_start(store(&renamed, StoreOptions { tls, ..options() }), "b").await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ordinary_user_is_enough_and_a_password_is_never_shown() {
    let server = Postgres::start().unwrap();
    server.sql("CREATE ROLE plain LOGIN PASSWORD 's3cret'").unwrap();
    server.sql("CREATE SCHEMA plain AUTHORIZATION plain").unwrap();
    let url = server.url().replace("keymill@", "plain:s3cret@");
    let store = store(&url, options());
    let node = TestNode::with_links(store.clone(), "a").await;
    assert!(!format!("{store:?} {node:?}").contains("s3cret"));
    let wrong = SqlStore::new(&url.replace("/postgres", "/s3cret_not_there"), options()).unwrap();
    let refused = wrong.nodes().await.unwrap_err();
    assert!(!format!("{refused:?} {refused}").contains("plain:s3cret"), "{refused:?}");
    let backup = Ledger::backup(&*store, std::path::Path::new("/nowhere"), Default::default()).await;
    assert!(matches!(backup, Err(LedgerError::Unsupported { .. })));
}
