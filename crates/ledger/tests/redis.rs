//! Redis keeps every promise while it remembers, and is found out when it does not.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keymill_engines::{
    certificates::Certificates,
    process::free_port,
    redis::{DURABLE, FORGETFUL, Redis},
};
use keymill_id::{Block, Number};
use keymill_ledger::{
    Grade, LedgerError, LedgerId, RedisStore, Rows, Store, StoreOptions, Tls,
    conformance::{Bench, FailsOver, Rewinds, START, TestNode, number, track},
    ops::{self, Operation},
};
use tokio::sync::Mutex;

/// One server for all tests that leave it as it is; each has a prefix of its own.
static SHARED: LazyLock<Redis> = LazyLock::new(|| Redis::start(DURABLE).expect("a Redis server"));
static LEDGERS: AtomicU64 = AtomicU64::new(0);

fn options() -> StoreOptions {
    StoreOptions {
        lossy_accepted: true,
        migrate: true,
        timeout: Duration::from_secs(30),
        tls: Tls::default(),
        create: true,
        new_id: LedgerId("test".to_owned()),
        at: START,
    }
}

fn connect(redis: &Redis, query: &str, options: StoreOptions) -> Arc<RedisStore> {
    let url = format!("redis://127.0.0.1:{}/{query}", redis.port());
    Arc::new(RedisStore::new(&url, options).expect("a good URL"))
}

struct Shared {
    prefix: String,
    moments: AtomicU64,
}

async fn open() -> Shared {
    let ledger = LEDGERS.fetch_add(1, Ordering::Relaxed);
    Shared { prefix: format!("test-{ledger}"), moments: AtomicU64::new(0) }
}

impl Shared {
    /// Copies all that the ledger has from one set of names to another.
    fn copy(&self, from: &str, to: &str) {
        for name in ["rows", "order", "versions"] {
            let name = format!("{{{}}}:{name}", self.prefix);
            let (from, to) = (format!("{name}{from}"), format!("{name}{to}"));
            SHARED.cli(&["del", &to]).expect("Redis is up");
            SHARED.cli(&["copy", &from, &to]).expect("Redis is up");
        }
    }
}

impl Bench for Shared {
    type Store = RedisStore;

    async fn handle(&self) -> Arc<RedisStore> {
        connect(&SHARED, &format!("?prefix={}", self.prefix), options())
    }

    async fn pass(&self, _millis: u64) {}
}

/// The rows are copied and put back, which is what a rewind looks like if the server stays the same.
impl Rewinds for Shared {
    type Moment = String;

    async fn moment(&self) -> String {
        let moment = format!("@{}", self.moments.fetch_add(1, Ordering::Relaxed));
        self.copy("", &moment);
        moment
    }

    async fn rewind(&self, to: String) {
        self.copy(&to, "");
    }
}

mod redis {
    keymill_ledger::conformance!(super::open, rewinds);
}

/// A server of its own, for tests that break it.
struct Own(Mutex<Redis>);

async fn own() -> Own {
    Own(Mutex::new(Redis::start(DURABLE).expect("Redis starts")))
}

impl Bench for Own {
    type Store = RedisStore;

    async fn handle(&self) -> Arc<RedisStore> {
        connect(&*self.0.lock().await, "", options())
    }

    async fn pass(&self, _millis: u64) {}
}

impl FailsOver for Own {
    /// A restart is enough: who knows what was lost in it?
    async fn fail_over(&self) {
        self.0.lock().await.restart().expect("Redis starts again");
    }
}

mod restarted {
    keymill_ledger::conformance!(@tests super::own;
        failover:
            another_incarnation_halts_before_anything_is_changed,
            advance_accepts_the_new_incarnation;
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgot_its_last_writes_is_found_out_by_anyone() {
    let bench = Own(Mutex::new(Redis::start(FORGETFUL).unwrap()));
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    a.reserve("links", 100).await.unwrap();
    bench.0.lock().await.cli(&["save"]).unwrap();
    a.reserve("links", 100).await.unwrap();
    bench.0.lock().await.restart().unwrap();
    assert_eq!(a.row("links").await.cursor, number(100), "the second hundred is forgotten");
    // B lost nothing itself, and still notices that this is not the server it wrote on.
    let refused = b.reserve("links", 10).await;
    assert!(
        matches!(&refused, Err(LedgerError::Halted { reason }) if reason.contains("engine")),
        "{refused:?}"
    );
    a.report_witness().await.unwrap();
    b.report_witness().await.unwrap();
    a.ledger.advance(ops::Advance { without: Vec::new(), dry_run: false, at: START }).await.unwrap();
    b.restart().await.unwrap();
    assert_eq!(b.reserve("links", 10).await.unwrap().block.start(), number(200));
}

/// A reserve as one would write it without stamps: correct in every way, but that it believes the store.
#[derive(Debug, Clone)]
struct BelievingReserve;

impl Operation for BelievingReserve {
    type Answer = Block;
    const NAME: &'static str = "believing_reserve";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<Block, LedgerError> {
        let row = rows.track(&track("links")).await?.expect("the test made it");
        let ten = 10.try_into().expect("ten is not zero");
        let (after, block) = row.reserve(Number::ZERO, ten, Number::MAX).expect("far from used up");
        rows.put_track(&track("links"), &after).await?;
        Ok(block)
    }
}

/// The control to it: if this test ever fails, the server forgot nothing, and the other proves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_stamp_a_server_that_forgot_grants_the_same_block_twice() {
    let bench = Own(Mutex::new(Redis::start(FORGETFUL).unwrap()));
    TestNode::with_links(bench.handle().await, "a").await;
    bench.0.lock().await.cli(&["save"]).unwrap();
    let first = bench.handle().await.transact(BelievingReserve).await.unwrap();
    bench.0.lock().await.restart().unwrap();
    let second = bench.handle().await.transact(BelievingReserve).await.unwrap();
    assert_eq!(first, second, "the duplicate that the stamp prevents");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgot_everything_is_not_the_same_ledger() {
    let bench = Own(Mutex::new(Redis::start(FORGETFUL).unwrap()));
    let handle = |id: &str| {
        let options = StoreOptions { new_id: LedgerId(id.to_owned()), ..options() };
        async { connect(&*bench.0.lock().await, "", options) }
    };
    let mut a = TestNode::with_links(handle("first").await, "a").await;
    a.reserve("links", 100).await.unwrap();
    bench.0.lock().await.restart().unwrap();
    let refused = a.reserve("links", 10).await;
    assert!(matches!(refused, Err(LedgerError::Corrupt { .. })), "its head is gone: {refused:?}");
    a.ledger = handle("second").await;
    let refused = a.restart().await;
    assert!(matches!(refused, Err(LedgerError::ForeignLedger { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_no_replica_heard_of_is_not_believed() {
    let primary = Redis::start(DURABLE).unwrap();
    let replica = primary.replica().unwrap();
    let quick = StoreOptions { timeout: Duration::from_secs(2), ..options() };
    let mut a = TestNode::with_links(connect(&primary, "", quick), "a").await;
    let first = a.reserve("links", 10).await.unwrap().block;
    replica.pause().unwrap();
    let unknown = a.reserve("links", 10).await;
    replica.resume().unwrap();
    assert!(matches!(unknown, Err(LedgerError::Unavailable { .. })), "{unknown:?}");
    let next = a.reserve("links", 10).await.expect("the replica answers again").block;
    assert_eq!((first.start(), next.start()), (number(0), number(20)), "what nobody knew of is burned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_halts_the_ledger_at_the_first_write() {
    let mut primary = Redis::start(DURABLE).unwrap();
    let replica = primary.replica().unwrap();
    let mut a = TestNode::with_links(connect(&primary, "", options()), "a").await;
    a.reserve("links", 100).await.unwrap();
    primary.kill().unwrap();
    replica.cli(&["replicaof", "no", "one"]).unwrap();
    a.ledger = connect(&replica, "", options());
    let refused = a.reserve("links", 10).await;
    assert!(
        matches!(&refused, Err(LedgerError::Halted { reason }) if reason.contains("engine")),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_waited_for() {
    let bench = own().await;
    let quick = StoreOptions { timeout: Duration::from_secs(2), ..options() };
    let mut a = TestNode::with_links(connect(&*bench.0.lock().await, "", quick), "a").await;
    bench.0.lock().await.kill().unwrap();
    for _ in 0..2 {
        let refused = a.reserve("links", 10).await;
        assert!(matches!(refused, Err(LedgerError::Unavailable { .. })), "{refused:?}");
    }
    bench.0.lock().await.restart().unwrap();
    let found = a.reserve("links", 10).await;
    assert!(matches!(found, Err(LedgerError::Halted { .. })), "connected again, and warned: {found:?}");
}

#[tokio::test]
async fn redis_is_no_ledger_unless_its_losses_are_accepted() {
    let strict = StoreOptions { lossy_accepted: false, ..options() };
    let refused = RedisStore::new("redis://127.0.0.1:1", strict).unwrap_err();
    assert!(refused.to_string().contains("ledger.lossy = \"accepted\""), "{refused}");
    let accepted = RedisStore::new("redis://127.0.0.1:1", options()).unwrap();
    assert_eq!(Store::grade(&accepted), Grade::Lossy);
}

#[tokio::test]
async fn a_server_that_would_throw_keys_away_is_refused() {
    let redis = Redis::start(&["--save", "", "--maxmemory-policy", "allkeys-lru"]).unwrap();
    let refused = TestNode::try_start(connect(&redis, "", options()), "a").await;
    assert!(
        matches!(&refused, Err(LedgerError::Refused { detail, .. }) if detail.contains("noeviction")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_password_opens_a_guarded_server_and_is_not_shown() {
    let redis = Redis::start(&["--save", "", "--requirepass", "s3cret"]).unwrap();
    let open = |login: &str| {
        let url = format!("redis://{login}127.0.0.1:{}", redis.port());
        Arc::new(RedisStore::new(&url, options()).expect("a good URL"))
    };
    let store = open(":s3cret@");
    assert!(!format!("{store:?}").contains("s3cret"), "{store:?}");
    TestNode::with_links(store, "a").await.reserve("links", 10).await.unwrap();
    for login in ["", ":wrong@"] {
        let refused = TestNode::try_start(open(login), "b").await;
        assert!(
            matches!(&refused, Err(LedgerError::Refused { detail, .. }) if detail.contains("ledger.url")),
            "{login}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn certificates_open_a_server_behind_tls() {
    let certificates = Certificates::make().unwrap();
    let file = |name: &str| certificates.file(name).to_string_lossy().into_owned();
    let port = free_port().unwrap();
    let _server = Redis::start(&[
        "--save",
        "",
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &file("server.pem"),
        "--tls-key-file",
        &file("server.key"),
        "--tls-ca-cert-file",
        &file("ca.pem"),
    ])
    .unwrap();
    let open = |ca: &str| {
        let [ca, cert, key] = [ca, "client.pem", "client.key"].map(|name| Some(certificates.file(name)));
        let options = StoreOptions { tls: Tls { ca, cert, key }, ..options() };
        Arc::new(RedisStore::new(&format!("rediss://127.0.0.1:{port}"), options).expect("good files"))
    };
    TestNode::with_links(open("ca.pem"), "a").await.reserve("links", 10).await.unwrap();
    let refused = TestNode::try_start(open("client.pem"), "b").await;
    assert!(matches!(refused, Err(LedgerError::Unavailable { .. })), "not whom it trusts: {refused:?}");
}

#[tokio::test]
async fn a_url_that_makes_no_sense_is_refused() {
    for url in
        ["http://127.0.0.1", "redis://127.0.0.1/?prefix=a b", "redis://127.0.0.1/?secret=x", "redis://:pw@"]
    {
        let refused = RedisStore::new(url, options()).unwrap_err();
        assert!(matches!(refused, LedgerError::Refused { .. }), "{url}: {refused}");
        assert!(!refused.to_string().contains("pw@"), "{refused}");
    }
}
