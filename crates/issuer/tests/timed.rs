//! Time-ordered IDs under clocks that lie: whatever a clock does, no ID comes twice.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keymill_id::{KeyspaceName, Layout, Window};
use keymill_issuer::{
    IssueError, KeyState, Node, NodeSettings, NodeState, Wanted, clock::Clock, tuning::Tuning,
    witness::Witness,
};
use keymill_ledger::{Ledger, MemoryStore, NodeName, Timestamp};

const NOON: u64 = 1_794_700_800_000; // 2026-11-15
const HOUR: u64 = 3_600_000;
const PATIENCE: Duration = Duration::from_secs(3);

/// A clock whose hands a test moves. Real time passes too, unless it is stopped.
#[derive(Debug)]
struct Hands {
    start: std::time::Instant,
    wall: AtomicU64,
    /// 1: real time is added. 0: it is not.
    runs: u64,
}

impl Hands {
    fn at(wall: u64, runs: bool) -> Arc<Self> {
        Arc::new(Self { start: std::time::Instant::now(), wall: wall.into(), runs: runs.into() })
    }

    fn step(&self, millis: i64) {
        self.wall.fetch_add(millis.cast_unsigned(), Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn wall(&self) -> Timestamp {
        let passed = u64::try_from(self.start.elapsed().as_millis()).unwrap();
        Timestamp(self.wall.load(Ordering::Relaxed) + passed * self.runs)
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

fn start(ledger: &Arc<MemoryStore>, dir: &Path, node: &str, clock: Arc<Hands>, tuning: &str) -> Arc<Node> {
    let name = NodeName::parse(node).unwrap();
    let witness = Witness::open(&dir.join(format!("witness-{node}")), &name).unwrap();
    let events = KeyspaceName::parse("events").unwrap();
    let tuning: Tuning = serde_json::from_str(tuning).unwrap();
    let stated = serde_json::from_str(r#"{"scheme":"snowflake"}"#).unwrap();
    let settings = NodeSettings {
        name,
        region: None,
        heartbeat: Duration::from_millis(50),
        timeout: Duration::from_millis(500),
        keyspaces_max: 100,
        waiting_takes: 1000,
        wanted: vec![Wanted { name: events, stated, tuning }],
        if_empty: Vec::new(),
        elsewhere: Vec::new(),
        version: "test".to_owned(),
        address: String::new(),
        lanes: 2,
        row_pools: Arc::new(keymill_issuer::rowed::NoRowPools),
        key_log: None,
    };
    Node::start(ledger.clone(), clock, witness, settings).unwrap()
}

async fn serving(node: &Node) {
    let mut state = node.state();
    tokio::time::timeout(PATIENCE, state.wait_for(|state| *state == NodeState::Serving))
        .await
        .unwrap()
        .unwrap();
}

async fn take(node: &Arc<Node>, count: u32) -> Result<Vec<u64>, IssueError> {
    let haul = node.keyspace("events").await?.take(count, PATIENCE).await?;
    Ok(haul.keys().map(|key| std::str::from_utf8(key).unwrap().parse().unwrap()).collect())
}

fn layout() -> Layout {
    Layout::parse("default", None, None).unwrap()
}

fn workers(ids: &[u64]) -> BTreeSet<u32> {
    ids.iter().map(|id| layout().decompose(*id).unwrap().worker).collect()
}

/// Rising, and all of them new.
fn note(seen: &mut HashSet<u64>, ids: &[u64]) {
    assert!(ids.is_sorted_by(|a, b| a < b), "IDs of one answer rise");
    for id in ids {
        assert!(seen.insert(*id), "ID {id} came twice");
    }
}

struct Stage {
    dir: tempfile::TempDir,
    ledger: Arc<MemoryStore>,
}

impl Stage {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), ledger: Arc::new(MemoryStore::new("l")) }
    }

    async fn node(&self, name: &str, clock: &Arc<Hands>, tuning: &str) -> Arc<Node> {
        let node = start(&self.ledger, self.dir.path(), name, clock.clone(), tuning);
        serving(&node).await;
        node
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_takes_another_worker_and_repeats_nothing() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let (mut seen, mut used) = (HashSet::new(), HashSet::new());
    for _ in 0..5 {
        let node = stage.node("a", &clock, "{}").await;
        let ids = take(&node, 500).await.unwrap();
        note(&mut seen, &ids);
        assert!(used.insert(workers(&ids)), "the old worker's window is still ahead of the clock");
        drop(node); // a crash
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_on_a_clock_that_went_back_repeats_nothing() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let mut seen = HashSet::new();
    for step in [0, -1, -1000, -3_600_000, 5_000, -60_000] {
        clock.step(step);
        let node = stage.node("a", &clock, "{}").await;
        note(&mut seen, &take(&node, 300).await.unwrap());
        drop(node);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_with_the_same_clock_never_make_the_same_id() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let nodes = [stage.node("a", &clock, "{}").await, stage.node("b", &clock, "{}").await];
    let mut seen = HashSet::new();
    for round in 0..40 {
        note(&mut seen, &take(&nodes[round % 2], 200).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_is_bounded_and_ends_when_the_clock_is_back() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let node = stage.node("a", &clock, r#"{"on_rollback":"wait","rollback_wait":"400ms"}"#).await;
    let mut seen = HashSet::new();
    note(&mut seen, &take(&node, 10).await.unwrap());
    clock.step(-150);
    note(&mut seen, &take(&node, 10).await.unwrap()); // 150 ms are waited for
    clock.step(-10_000);
    let refused = take(&node, 10).await.unwrap_err();
    assert!(matches!(refused, IssueError::ClockBehind { by_ms: 9_000..=10_500 }), "{refused:?}");
    clock.step(10_000);
    note(&mut seen, &take(&node, 10).await.unwrap());
    let glance = node.keyspace("events").await.unwrap().time_glance().unwrap();
    assert!(glance.rollbacks > 0 && glance.rollback_ms_max >= 9_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_is_at_once_makes_the_node_unfit_and_heals_itself() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let node = stage.node("a", &clock, r#"{"on_rollback":"fail"}"#).await;
    let mut seen = HashSet::new();
    note(&mut seen, &take(&node, 10).await.unwrap());
    let served = node.keyspace("events").await.unwrap();
    assert_eq!(served.unfit(), None);
    clock.step(-5_000);
    let begun = std::time::Instant::now();
    assert!(matches!(take(&node, 1).await, Err(IssueError::ClockBehind { .. })));
    assert!(begun.elapsed() < Duration::from_secs(1), "nobody waited");
    assert!(served.unfit().is_some_and(|by| by > 4_000));
    clock.step(5_000);
    tokio::time::sleep(Duration::from_millis(20)).await;
    note(&mut seen, &take(&node, 10).await.unwrap());
    assert_eq!(served.unfit(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn counting_on_stays_inside_the_window_and_shows_the_offset() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let node = stage.node("a", &clock, r#"{"on_rollback":"logical"}"#).await;
    let mut seen = HashSet::new();
    let before = take(&node, 100).await.unwrap();
    note(&mut seen, &before);
    clock.step(-10_000);
    let during = take(&node, 5_000).await.unwrap();
    note(&mut seen, &during);
    assert!(during[0] > before[99], "order is kept");
    let glance = node.keyspace("events").await.unwrap().time_glance().unwrap();
    assert!(glance.workers[0].ahead_ms > 9_000, "{glance:?}");
    clock.step(10_000);
    note(&mut seen, &take(&node, 100).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_ahead_is_refused_and_not_embedded() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let tuning = r#"{"forward_max":"60s","outage_budget":"10s"}"#;
    let node = stage.node("a", &clock, tuning).await;
    let mut seen = HashSet::new();
    note(&mut seen, &take(&node, 10).await.unwrap());
    clock.step(i64::try_from(HOUR).unwrap());
    let refused = take(&node, 1).await.unwrap_err();
    assert!(matches!(refused, IssueError::ClockAhead { by_ms } if by_ms > HOUR - 2_000), "{refused:?}");
    clock.step(-i64::try_from(HOUR).unwrap());
    tokio::time::sleep(Duration::from_millis(20)).await;
    let after = take(&node, 10).await.unwrap();
    note(&mut seen, &after);
    let time = layout().unix_ms_of(layout().decompose(after[9]).unwrap().tick);
    assert!(time < NOON + HOUR / 2, "no ID from the future");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_paused_past_its_lease_leases_again_without_a_restart() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let tuning = r#"{"lease_ttl":"1s","recycle_delay":"0ms","outage_budget":"2s"}"#;
    let paused = stage.node("a", &clock, tuning).await;
    let mut seen = HashSet::new();
    let first = take(&paused, 50).await.unwrap();
    note(&mut seen, &first);
    // Another node takes the same worker while the first is not renewing: its lease is ended by hand.
    let lease = stage
        .ledger
        .workers(keymill_ledger::ops::Workers { keyspace: KeyspaceName::parse("events").unwrap() });
    assert_eq!(lease.await.unwrap().len(), 1);
    steal(&stage.ledger, &clock).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let ids = take(&paused, 20).await.unwrap();
        note(&mut seen, &ids);
        if workers(&ids) != workers(&first) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the loss was not noticed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let glance = paused.keyspace("events").await.unwrap().time_glance().unwrap();
    assert_eq!(glance.losses, 1);
}

/// Leases worker 0 for someone else, as if its lease had run out.
async fn steal(ledger: &Arc<MemoryStore>, clock: &Arc<Hands>) {
    use keymill_id::Number;
    use keymill_ledger::{NodeReport, WorkerId, ops};
    let node = NodeName::parse("thief").unwrap();
    let at = Timestamp(clock.wall().0 + 60_000);
    let register = ops::Register {
        node: node.clone(),
        remembered: None,
        region: None,
        report: NodeReport::default(),
        at,
    };
    let registration = ledger.register(register).await.unwrap();
    let stamp = ops::Stamp {
        node,
        epoch: registration.epoch,
        acked: registration.beat,
        next: registration.beat + 1,
        at,
    };
    let lease = ops::LeaseWorker {
        stamp,
        keyspace: KeyspaceName::parse("events").unwrap(),
        holder: "thief".to_owned(),
        wanted: Some(WorkerId(0)),
        capacity: 1024,
        ttl_ms: 600_000,
        free_below: Number::MAX,
    };
    ledger.lease_worker(lease).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_worker_that_someone_holds_is_refused() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let holder = stage.node("a", &clock, r#"{"worker":7}"#).await;
    assert_eq!(workers(&take(&holder, 10).await.unwrap()), BTreeSet::from([7]));
    let second = stage.node("b", &clock, r#"{"worker":7}"#).await;
    let refused = take(&second, 1).await.unwrap_err();
    assert!(
        matches!(&refused, IssueError::NoWorker(why) if why.contains("worker 7") && why.contains('a')),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_lanes_hold_two_workers() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let node = stage.node("a", &clock, r#"{"workers":2}"#).await;
    let mut seen = HashSet::new();
    for _ in 0..50 {
        // More than a tick of one worker: the other helps out.
        note(&mut seen, &take(&node, 8_000).await.unwrap());
    }
    let held = node.keyspace("events").await.unwrap().time_glance().unwrap().workers;
    assert_eq!(held.len(), 2);
    assert!(held.iter().all(|worker| worker.issued > 0), "{held:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn borrowing_goes_on_where_waiting_would_stop() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, false); // the hands stand still
    let node = stage.node("a", &clock, r#"{"on_overflow":"borrow"}"#).await;
    let mut seen = HashSet::new();
    note(&mut seen, &take(&node, 50_000).await.unwrap());
    let waits = stage.node("b", &clock, r#"{"on_overflow":"wait"}"#).await;
    note(&mut seen, &take(&waits, 4_000).await.unwrap());
    let served = waits.keyspace("events").await.unwrap();
    let refused = served.take(5_000, Duration::from_millis(200)).await.map(|haul| haul.count());
    assert_eq!(refused, Err(IssueError::OutOfStock));
    assert!(served.time_glance().unwrap().overflows > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_gives_the_rest_of_the_window_back() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let node = stage.node("a", &clock, "{}").await;
    let ids = take(&node, 10).await.unwrap();
    let stopped = node.stop(PATIENCE).await;
    assert!(stopped.given_back > 50_000, "nearly a minute of ticks: {stopped:?}");
    let tracks = stage.ledger.tracks().await.unwrap();
    let (_, row) = tracks.iter().find(|(track, _)| track.worker.is_some()).unwrap();
    let last = layout().decompose(ids[9]).unwrap().tick;
    assert!(
        row.cursor.get() > last && row.cursor.get() < last + 100,
        "never at or below a tick that was used"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_names_the_node_that_held_the_time() {
    let stage = Stage::new();
    let clock = Hands::at(NOON, true);
    let node = stage.node("a", &clock, "{}").await;
    let id = take(&node, 1).await.unwrap()[0];
    let served = node.keyspace("events").await.unwrap();
    let found = node.inspect(&served, &id.to_string()).await.unwrap().unwrap();
    let parts = found.id.unwrap();
    assert_eq!((found.state, found.node.unwrap().as_str(), parts.worker), (KeyState::Uncertain, "a", 0));
    assert!(parts.time.0.abs_diff(clock.wall().0) < 5_000);
    let tomorrow = layout().compose(layout().tick_at(NOON + 24 * HOUR).unwrap(), 0, 0, 0);
    let found = node.inspect(&served, &tomorrow.to_string()).await.unwrap().unwrap();
    assert_eq!(found.state, KeyState::NeverIssued);
    assert_eq!(node.inspect(&served, "007").await.unwrap(), None);
}

/// The control: with a lease alone, and no window to stay in, a pause past the lease repeats an ID.
#[test]
fn control_a_lease_without_a_window_repeats_an_id() {
    use keymill_id::{Generator, Next, Settings};
    let everything = Window::new(0, layout().ticks()).unwrap();
    let generator = || Generator::new(layout(), 0, 17, everything, Settings::default());
    let tick = layout().tick_at(NOON).unwrap();
    let (mut paused, mut successor) = (generator(), generator());
    // The first holder read the clock and was paused; its lease ran out and another took worker 17. The
    // other's clock is a little behind, and meets the same tick.
    let Next::Id(late) = paused.next(tick) else { panic!() };
    let Next::Id(early) = successor.next(tick) else { panic!() };
    assert_eq!(late, early, "this is the duplicate that windows prevent");
}
