//! etcd keeps every promise, with members that come and go and snapshots that are put back.

use std::{
    process::Command,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keymill_engines::{certificates::Certificates, etcd::Etcd, process::run};
use keymill_id::{Block, Number};
use keymill_ledger::{
    EtcdStore, HoleKind, LedgerError, LedgerId, Rows, Store, StoreOptions, Tls,
    conformance::{Bench, FailsOver, Rewinds, START, TestNode, number, track},
    ops::{self, Operation},
};
use tokio::sync::Mutex;

/// One cluster for all tests that leave it as it is; each has a prefix of its own.
static SHARED: LazyLock<Etcd> = LazyLock::new(|| Etcd::cluster(3).expect("three members of etcd"));
static LEDGERS: AtomicU64 = AtomicU64::new(0);

fn options(new_id: &str) -> StoreOptions {
    StoreOptions {
        lossy_accepted: false,
        migrate: true,
        timeout: Duration::from_secs(30),
        tls: Tls::default(),
        create: true,
        new_id: LedgerId(new_id.to_owned()),
        at: START,
    }
}

struct Shared {
    addresses: String,
    prefix: String,
    handles: AtomicU64,
}

async fn open() -> Shared {
    let ledger = LEDGERS.fetch_add(1, Ordering::Relaxed);
    let (addresses, prefix) = (SHARED.addresses(), format!("test-{ledger}"));
    Shared { addresses, prefix, handles: AtomicU64::new(0) }
}

impl Shared {
    fn ctl(&self) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.addresses]);
        command
    }
}

impl Bench for Shared {
    type Store = EtcdStore;

    async fn handle(&self) -> Arc<EtcdStore> {
        let url = format!("etcd://{}/{}", self.addresses, self.prefix);
        let id = self.handles.fetch_add(1, Ordering::Relaxed);
        Arc::new(EtcdStore::new(&url, options(&format!("handle-{id}"))).expect("a good URL"))
    }

    async fn pass(&self, _millis: u64) {}
}

/// The rows are copied and put back, which is what a rewind looks like if the engine stays the same.
impl Rewinds for Shared {
    type Moment = Vec<(String, String)>;

    async fn moment(&self) -> Self::Moment {
        let get =
            run(self.ctl().args(["get", "--prefix", &format!("{}/", self.prefix)])).expect("etcd is up");
        let lines: Vec<&str> = get.lines().collect();
        lines.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
    }

    async fn rewind(&self, to: Self::Moment) {
        run(self.ctl().args(["del", "--prefix", &format!("{}/", self.prefix)])).expect("etcd is up");
        for (key, value) in to {
            run(self.ctl().args(["put", &key, &value])).expect("etcd is up");
        }
    }
}

mod etcd {
    keymill_ledger::conformance!(super::open, rewinds);
}

/// A cluster of its own, for tests that break it.
struct Own {
    etcd: Mutex<Etcd>,
    url: String,
}

impl Own {
    fn cluster(members: usize) -> Self {
        let etcd = Etcd::cluster(members).expect("etcd starts");
        let url = format!("etcd://{}", etcd.addresses());
        Self { etcd: Mutex::new(etcd), url }
    }
}

async fn own() -> Own {
    Own::cluster(1)
}

impl Bench for Own {
    type Store = EtcdStore;

    async fn handle(&self) -> Arc<EtcdStore> {
        Arc::new(EtcdStore::new(&self.url, options("own")).expect("a good URL"))
    }

    async fn pass(&self, _millis: u64) {}
}

impl FailsOver for Own {
    async fn fail_over(&self) {
        let mut etcd = self.etcd.lock().await;
        let now = etcd.snapshot("now").expect("etcd is up");
        etcd.restore(&now, "another").expect("a snapshot can be restored");
    }
}

mod restored {
    keymill_ledger::conformance!(@tests super::own;
        failover:
            another_incarnation_halts_before_anything_is_changed,
            advance_accepts_the_new_incarnation;
    );
}

/// What was sent to a member that died has an unknown outcome; the next write finds another member.
async fn reserve_until_granted(node: &mut TestNode) -> u64 {
    for _ in 0..100 {
        match node.reserve("links", 10).await {
            Ok(reserved) => return reserved.block.start().get(),
            Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("two of three members are a quorum")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_goes_on_when_its_leader_is_killed() {
    let bench = Own::cluster(3);
    let mut node = TestNode::with_links(bench.handle().await, "a").await;
    let mut starts = Vec::new();
    for _ in 0..3 {
        let leader = bench.etcd.lock().await.leader().unwrap();
        bench.etcd.lock().await.kill_member(leader).unwrap();
        starts.push(reserve_until_granted(&mut node).await);
        starts.push(reserve_until_granted(&mut node).await);
        bench.etcd.lock().await.restart_member(leader).unwrap();
        starts.push(reserve_until_granted(&mut node).await);
    }
    assert!(starts.is_sorted_by(|a, b| a + 10 <= *b), "each block is above the last: {starts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nothing_is_granted_and_nothing_is_lost() {
    let bench = Own::cluster(3);
    let quick = StoreOptions { timeout: Duration::from_secs(2), ..options("own") };
    let mut node = TestNode::with_links(Arc::new(EtcdStore::new(&bench.url, quick).unwrap()), "a").await;
    node.reserve("links", 10).await.unwrap();
    for member in [0, 1] {
        bench.etcd.lock().await.kill_member(member).unwrap();
    }
    let refused = node.reserve("links", 10).await;
    assert!(matches!(refused, Err(LedgerError::Unavailable { .. })), "{refused:?}");
    for member in [0, 1] {
        let mut etcd = bench.etcd.lock().await;
        etcd.start(member).unwrap();
    }
    assert!(reserve_until_granted(&mut node).await >= 10);
}

/// The operator restored yesterday's snapshot with the same token: the cluster's id is what it was.
async fn restored_with_the_same_id(bench: &Own) -> (TestNode, TestNode) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    a.reserve("links", 100).await.unwrap();
    b.reserve("links", 100).await.unwrap();
    let mut etcd = bench.etcd.lock().await;
    let snapshot = etcd.snapshot("yesterday").unwrap();
    a.reserve("links", 100).await.unwrap();
    etcd.restore(&snapshot, "first").unwrap();
    (a, b)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_snapshot_is_caught_by_the_node_that_wrote_in_the_lost_part() {
    let bench = own().await;
    let (a, b) = restored_with_the_same_id(&bench).await;
    // Handles that never saw the cluster further on: nothing but the beat can tell.
    let mut a = TestNode { ledger: bench.handle().await, ..a };
    let b = TestNode { ledger: bench.handle().await, ..b };
    let refused = a.reserve("links", 10).await;
    assert!(
        matches!(&refused, Err(LedgerError::Halted { reason }) if reason.contains("went back")),
        "{refused:?}"
    );
    a.report_witness().await.unwrap();
    b.report_witness().await.unwrap();
    a.ledger.advance(ops::Advance { without: Vec::new(), dry_run: false, at: START }).await.unwrap();
    a.restart().await.unwrap();
    assert_eq!(a.reserve("links", 10).await.unwrap().block.start(), number(300));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_snapshot_is_caught_by_any_process_that_saw_more_of_it() {
    let bench = own().await;
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let snapshot = bench.etcd.lock().await.snapshot("yesterday").unwrap();
    a.reserve("links", 100).await.unwrap();
    // B wrote nothing in the part that will be lost, but it has read some of it.
    b.row("links").await;
    bench.etcd.lock().await.restore(&snapshot, "first").unwrap();
    let refused = b.reserve("links", 10).await;
    assert!(
        matches!(&refused, Err(LedgerError::Halted { reason }) if reason.contains("engine")),
        "{refused:?}"
    );
    a.report_witness().await.unwrap();
    b.report_witness().await.unwrap();
    a.ledger.advance(ops::Advance { without: Vec::new(), dry_run: false, at: START }).await.unwrap();
    b.restart().await.expect("the cluster is accepted as it is now");
    assert_eq!(b.reserve("links", 10).await.unwrap().block.start(), number(100));
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

/// The control to both: if this test ever fails, the restore restores nothing, and they prove nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_stamp_a_restored_snapshot_grants_the_same_block_twice() {
    let bench = own().await;
    TestNode::with_links(bench.handle().await, "a").await;
    let snapshot = bench.etcd.lock().await.snapshot("yesterday").unwrap();
    let first = bench.handle().await.transact(BelievingReserve).await.unwrap();
    bench.etcd.lock().await.restore(&snapshot, "first").unwrap();
    let second = bench.handle().await.transact(BelievingReserve).await.unwrap();
    assert_eq!(first, second, "the duplicate that the stamp prevents");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_holes_are_held_and_no_more() {
    let bench = open().await;
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut numbers: Vec<u64> = (0..9_000).map(|n| n * 1_000 + 7).collect();
    a.withhold("links", &numbers, HoleKind::Import).await.unwrap();
    let rest: Vec<u64> = (0..1_000).map(|n| n * 3_000 + 8).collect();
    a.withhold("links", &rest, HoleKind::Import).await.unwrap();
    numbers.extend(rest);
    numbers.sort_unstable();
    let refused = a.withhold("links", &[5], HoleKind::Alias).await;
    assert!(matches!(refused, Err(LedgerError::TooManyHoles { limit: 10_000, .. })), "{refused:?}");
    assert_eq!(a.hole("links", 5).await, None);
    let reserved = a.reserve("links", 10_000_000).await.unwrap();
    assert_eq!(reserved.holes, numbers.into_iter().map(number).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_many_keyspaces_can_stop_and_start() {
    let bench = open().await;
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let names: Vec<String> = (0..200).map(|n| format!("ks-{n}")).collect();
    for name in &names {
        a.create(name).await.unwrap();
        a.reserve(name, 10).await.unwrap();
    }
    a.restart().await.unwrap();
    for name in &names {
        a.reserve(name, 10).await.unwrap();
    }
    let settlements = names.iter().map(|name| ops::Settlement { track: track(name), unissued: Vec::new() });
    a.stop(settlements.collect()).await.unwrap();
    assert!(a.node_row().await.stopped);
}

#[tokio::test]
async fn an_etcd_that_is_not_there_is_said_to_be_unavailable() {
    let quick = StoreOptions { timeout: Duration::from_secs(2), ..options("own") };
    let store = EtcdStore::new("etcd://127.0.0.1:1,127.0.0.1:2", quick).expect("opening touches no network");
    let refused = TestNode::try_start(Arc::new(store), "a").await.unwrap_err();
    assert!(matches!(refused, LedgerError::Unavailable { .. }), "{refused}");
    assert!(refused.to_string().contains("refused"), "it says why: {refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_open_a_cluster_behind_tls() {
    let certificates = Certificates::make().unwrap();
    let [ca, cert, key] = ["ca.pem", "client.pem", "client.key"].map(|name| Some(certificates.file(name)));
    let both = Tls { ca: ca.clone(), cert, key };
    let etcd = Etcd::guarded(certificates).unwrap();
    let url = format!("etcds://{}", etcd.guarded_address().unwrap());
    let open = |tls| {
        let options = StoreOptions { tls, timeout: Duration::from_secs(5), ..options("own") };
        EtcdStore::new(&url, options)
    };
    let mut node = TestNode::with_links(Arc::new(open(both).unwrap()), "a").await;
    node.reserve("links", 10).await.unwrap();
    let nobody = open(Tls { ca, ..Tls::default() }).unwrap();
    let refused = TestNode::try_start(Arc::new(nobody), "b").await;
    assert!(matches!(refused, Err(LedgerError::Unavailable { .. })), "{refused:?}");
    let refused = open(Tls::default()).unwrap_err();
    assert!(refused.to_string().contains("ledger.tls_ca"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_and_a_password_open_a_guarded_cluster() {
    let bench = own().await;
    let address = bench.url.trim_start_matches("etcd://").to_owned();
    for command in [
        "user add root:top",
        "user grant-role root root",
        "role add keys",
        "role grant-permission keys --prefix=true readwrite keymill/",
        "user add app:p@ss",
        "user grant-role app keys",
        "auth enable",
    ] {
        let mut ctl = Command::new("etcdctl");
        ctl.env("ETCDCTL_API", "3").args(["--endpoints", &address]).args(command.split(' '));
        run(&mut ctl).unwrap();
    }
    let open =
        |login: &str| Arc::new(EtcdStore::new(&format!("etcd://{login}{address}"), options("own")).unwrap());
    let mut node = TestNode::with_links(open("app:p%40ss@"), "a").await;
    node.reserve("links", 10).await.unwrap();
    for login in ["", "app:wrong@", "nobody:p@"] {
        let refused = TestNode::try_start(open(login), "b").await;
        assert!(
            matches!(&refused, Err(LedgerError::Refused { detail, .. }) if detail.contains("ledger.url")),
            "{login}: {refused:?}"
        );
    }
}
