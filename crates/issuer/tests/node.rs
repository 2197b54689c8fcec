//! Whole nodes on a ledger that misbehaves: keys are taken while replies are lost, calls fail and slow
//! down, the ledger goes back in time; none comes twice, and everything recovers by itself.

use std::{collections::HashSet, path::Path, sync::Arc, time::Duration};

use keymill_id::{KeyspaceName, Stated};
use keymill_issuer::{
    CreateError, IssueError, KeyState, Node, NodeSettings, NodeState, Wanted, clock::SystemClock,
    tuning::Tuning, witness::Witness,
};
use keymill_ledger::{
    HoleKind, Ledger, MemoryStore, NodeName, Track,
    faults::{Fails, LosesReplies, Slow, Strike, When},
    ops,
};

const PATIENCE: Duration = Duration::from_secs(5);

fn name(text: &str) -> KeyspaceName {
    KeyspaceName::parse(text).unwrap()
}

fn stated(json: &str) -> Stated {
    serde_json::from_str(json).unwrap()
}

fn wanted(keyspace: &str, json: &str) -> Wanted {
    let tuning: Tuning = serde_json::from_str(r#"{"stock_min":100}"#).unwrap();
    Wanted { name: name(keyspace), stated: stated(json), tuning }
}

fn settings(node: &str) -> NodeSettings {
    NodeSettings {
        name: NodeName::parse(node).unwrap(),
        region: None,
        heartbeat: Duration::from_millis(50),
        timeout: Duration::from_millis(500),
        keyspaces_max: 100,
        waiting_takes: 1000,
        wanted: vec![wanted("links", r#"{"scheme":"pool"}"#), wanted("tickets", r#"{"scheme":"sequence"}"#)],
        if_empty: Vec::new(),
        elsewhere: Vec::new(),
        version: "test".to_owned(),
        address: String::new(),
        lanes: 2,
        row_pools: Arc::new(keymill_issuer::rowed::NoRowPools),
        key_log: None,
    }
}

fn start(ledger: Arc<dyn Ledger>, dir: &Path, node: &str) -> Arc<Node> {
    let witness =
        Witness::open(&dir.join(format!("witness-{node}")), &NodeName::parse(node).unwrap()).unwrap();
    Node::start(ledger, Arc::new(SystemClock::new()), witness, settings(node)).unwrap()
}

async fn until(node: &Node, wanted: impl FnMut(&NodeState) -> bool) -> NodeState {
    let mut state = node.state();
    tokio::time::timeout(PATIENCE, state.wait_for(wanted)).await.expect("in time").unwrap().clone()
}

async fn serving(node: &Node) {
    until(node, |state| *state == NodeState::Serving).await;
}

async fn take(node: &Arc<Node>, keyspace: &str, count: u32) -> Result<Vec<String>, IssueError> {
    let haul = node.keyspace(keyspace).await?.take(count, PATIENCE).await?;
    Ok(haul.keys().map(|key| String::from_utf8(key.to_vec()).unwrap()).collect())
}

fn numbers(tickets: &[String]) -> Vec<u64> {
    tickets.iter().map(|ticket| ticket.parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_gives_back_and_the_next_start_goes_on_without_a_gap() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let node = start(ledger.clone(), dir.path(), "a");
    serving(&node).await;
    assert_eq!(numbers(&take(&node, "tickets", 150).await.unwrap()), (1..=150).collect::<Vec<_>>());
    let stopped = node.stop(PATIENCE).await;
    assert!(stopped.given_back > 0);
    assert_eq!(take(&node, "tickets", 1).await, Err(IssueError::Draining));
    drop(node);
    let node = start(ledger, dir.path(), "a");
    serving(&node).await;
    assert_eq!(numbers(&take(&node, "tickets", 2).await.unwrap()), [151, 152]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_no_gap_even_where_nodes_take_turns_and_no_number_is_in_two() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let mut tasks = Vec::new();
    for node in ["a", "b", "c"] {
        let node = start(ledger.clone(), dir.path(), node);
        serving(&node).await;
        for count in [1_u32, 30, 99, 500] {
            let node = node.clone();
            tasks.push(tokio::spawn(async move {
                let served = node.keyspace("tickets").await.unwrap();
                let mut runs = Vec::new();
                for _ in 0..25 {
                    let first = served.take_run(count, PATIENCE).await.unwrap().get();
                    runs.push(first..first + u64::from(count));
                }
                assert!(runs.is_sorted_by_key(|run| run.start), "tickets rise");
                runs
            }));
        }
    }
    let mut seen = HashSet::new();
    for task in tasks {
        for number in task.await.unwrap().into_iter().flatten() {
            assert!(seen.insert(number), "{number} is in two runs");
        }
    }
    assert_eq!(seen.len(), 3 * 25 * (1 + 30 + 99 + 500));
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_beyond_the_places_to_wait_are_refused_at_once() {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let strike = Strike::on(Some("reserve"), When::Every(1));
    let slow = Arc::new(Slow { inner: store, strike, delay: Duration::from_secs(600) });
    let witness = Witness::open(&dir.path().join("witness"), &NodeName::parse("a").unwrap()).unwrap();
    let settings = NodeSettings { waiting_takes: 3, ..settings("a") };
    let node = Node::start(slow, Arc::new(SystemClock::new()), witness, settings).unwrap();
    serving(&node).await;
    let served = node.keyspace("links").await.unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let served = served.clone();
        waiting.spawn(async move { served.take(1, Duration::from_secs(600)).await.map(drop) });
    }
    for _ in 0..47 {
        let refused = tokio::time::timeout(PATIENCE, waiting.join_next()).await.expect("at once");
        assert_eq!(refused.unwrap().unwrap(), Err(IssueError::Overloaded));
    }
    let run = node.keyspace("tickets").await.unwrap().take_run(2, Duration::from_millis(20)).await;
    assert!(
        run.is_err_and(|error| error != IssueError::Overloaded),
        "another keyspace has places of its own"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_burns_the_stock_and_repeats_nothing() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let mut seen = HashSet::new();
    for _ in 0..20 {
        let node = start(ledger.clone(), dir.path(), "a");
        serving(&node).await;
        for keyspace in ["links", "tickets"] {
            for key in take(&node, keyspace, 77).await.unwrap() {
                assert!(seen.insert((keyspace, key)), "a key came twice");
            }
        }
        drop(node); // no stop: what it held is gone
    }
    let cursor =
        ledger.track(ops::TrackAt { track: Track::of(name("tickets")) }).await.unwrap().unwrap().cursor;
    assert!(cursor.get() <= 20 * (77 + 2 * 200), "each crash burns at most the stock: {cursor}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_failed_and_slow_calls_waste_numbers_and_repeat_none() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new("l"));
    let lossy = LosesReplies { inner: store.clone(), strike: Strike::on(Some("reserve"), When::Every(3)) };
    let failing = Fails { inner: lossy, strike: Strike::on(Some("reserve"), When::Every(4)) };
    let strike = Strike::on(Some("reserve"), When::Every(5));
    let slow = Slow { inner: failing, strike, delay: Duration::from_millis(300) };
    let node = start(Arc::new(slow), dir.path(), "a");
    serving(&node).await;
    let mut tasks = Vec::new();
    for task in 0..4u32 {
        let node = node.clone();
        tasks.push(tokio::spawn(async move {
            let mut keys = Vec::new();
            for round in 0..40 {
                // A refusal is fine here; a repeat is not.
                keys.extend(take(&node, "links", 1 + (task * 31 + round) % 90).await.unwrap_or_default());
            }
            keys
        }));
    }
    let mut seen = HashSet::new();
    for task in tasks {
        for key in task.await.unwrap() {
            assert!(seen.insert(key), "a key came twice");
        }
    }
    assert!(seen.len() > 2000, "{}", seen.len());
    let row = store.track(ops::TrackAt { track: Track::of(name("links")) }).await.unwrap().unwrap();
    assert!(row.cursor.get() > seen.len() as u64, "lost replies burned numbers");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_share_a_ledger_and_never_a_key() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let nodes = [start(ledger.clone(), dir.path(), "a"), start(ledger.clone(), dir.path(), "b")];
    let mut seen = HashSet::new();
    for node in &nodes {
        serving(node).await;
    }
    for round in 0..60 {
        for key in take(&nodes[round % 2], "tickets", 40).await.unwrap() {
            assert!(seen.insert(key), "a ticket came twice");
        }
    }
    // What one created the other serves at once; what one issued the other can tell.
    nodes[0]
        .create_keyspace(&name("promo"), &stated(r#"{"scheme":"pool"}"#), &Tuning::default())
        .await
        .unwrap();
    let key = take(&nodes[1], "promo", 1).await.unwrap().remove(0);
    let served = nodes[0].keyspace("promo").await.unwrap();
    let found = nodes[0].inspect(&served, &key).await.unwrap().unwrap();
    assert_eq!(found.node.unwrap().as_str(), "b");
    for node in &nodes {
        node.stop(PATIENCE).await;
    }
}

/// Found by the model: A gives back whole what lies above B's numbers, B reserves there end to end with its
/// own and gives back further down. A witness that kept the start of what A gave back would halt the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn stopping_in_turn_never_looks_like_a_ledger_that_went_back() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let b = start(ledger.clone(), dir.path(), "b");
    serving(&b).await;
    take(&b, "tickets", 1).await.unwrap();
    let a = start(ledger.clone(), dir.path(), "a");
    serving(&a).await;
    while a.keyspace("tickets").await.unwrap().glance().stock == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    a.stop(PATIENCE).await;
    let before = b.keyspace("tickets").await.unwrap().glance().reserves;
    take(&b, "tickets", 60).await.unwrap();
    while b.keyspace("tickets").await.unwrap().glance().reserves == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    b.stop(PATIENCE).await;
    let cursor =
        ledger.track(ops::TrackAt { track: Track::of(name("tickets")) }).await.unwrap().unwrap().cursor;
    assert_eq!(cursor.get(), 61, "both gave back all they had");
    let a = start(ledger, dir.path(), "a");
    serving(&a).await;
    assert_eq!(numbers(&take(&a, "tickets", 1).await.unwrap()), [62]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_process_of_the_same_name_fences_the_older() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let ledger = Arc::new(MemoryStore::new("l"));
    let older = start(ledger.clone(), dirs[0].path(), "a");
    serving(&older).await;
    let newer = start(ledger, dirs[1].path(), "a");
    serving(&newer).await;
    let state = until(&older, |state| matches!(state, NodeState::Dead { .. })).await;
    assert!(matches!(state, NodeState::Dead { reason } if reason.contains("started again elsewhere")));
    assert!(take(&newer, "links", 1).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_went_back_is_halted_burned_reported_and_healed() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let node = start(ledger.clone(), dir.path(), "a");
    serving(&node).await;
    let mut seen: HashSet<String> = take(&node, "tickets", 50).await.unwrap().into_iter().collect();
    let old = ledger.snapshot();
    seen.extend(take(&node, "tickets", 500).await.unwrap());
    ledger.rewind(old);
    until(&node, |state| matches!(state, NodeState::Halted { .. })).await;
    // Burned before anyone can be served from it.
    let refused = loop {
        match take(&node, "tickets", 1).await {
            Ok(keys) => assert!(seen.insert(keys[0].clone()), "a ticket came twice"),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, IssueError::LedgerHalted(_)));
    let advance = |dry_run| ops::Advance { without: Vec::new(), dry_run, at: node.now() };
    let planned = tokio::time::timeout(PATIENCE, async {
        loop {
            match ledger.advance(advance(true)).await {
                Ok(planned) => break planned,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await, // not reported yet
            }
        }
    });
    assert!(!planned.await.unwrap().is_empty());
    ledger.advance(advance(false)).await.unwrap();
    serving(&node).await;
    for ticket in take(&node, "tickets", 600).await.unwrap() {
        assert!(seen.insert(ticket), "a ticket came twice");
    }
}

/// Two nodes on an engine that may forget: no operator is needed, and nothing comes twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_lossy_ledger_that_forgot_skips_ahead_by_itself() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::lossy("l")));
    let nodes = ["a", "b"].map(|name| start(ledger.clone(), dir.path(), name));
    let mut seen = HashSet::new();
    for node in &nodes {
        serving(node).await;
    }
    let old = ledger.snapshot();
    for node in &nodes {
        seen.extend(take(node, "tickets", 500).await.unwrap());
    }
    ledger.rewind(old);
    ledger.change_incarnation("memory-2");
    for node in &nodes {
        until(node, |state| matches!(state, NodeState::Halted { .. })).await;
    }
    for node in &nodes {
        serving(node).await;
        for ticket in take(node, "tickets", 500).await.unwrap() {
            assert!(seen.insert(ticket), "a ticket came twice");
        }
    }
}

/// The control to it: who might hold what was forgotten is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_lossy_ledger_waits_for_a_node_that_has_not_reported() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::lossy("l")));
    let node = start(ledger.clone(), dir.path(), "a");
    let silent = start(ledger.clone(), dir.path(), "b");
    serving(&node).await;
    serving(&silent).await;
    drop(silent); // as a crash would: it gave nothing back, and says nothing more
    let old = ledger.snapshot();
    take(&node, "tickets", 500).await.unwrap();
    ledger.rewind(old);
    until(&node, |state| matches!(state, NodeState::Halted { .. })).await;
    let survey = || async { ledger.survey(ops::Survey { at: node.now() }).await.unwrap().head };
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(survey().await.halted.is_some(), "it went on without asking everyone");
    }
    let b = (NodeName::parse("b").unwrap(), 1_000);
    ledger.advance(ops::Advance { without: vec![b], dry_run: false, at: node.now() }).await.unwrap();
    serving(&node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_out_of_reach_is_ridden_out_from_stock_and_then_said() {
    let dir = tempfile::tempdir().unwrap();
    // The first reserve of each keyspace succeeds; nothing after it does.
    let store = Fails { inner: MemoryStore::new("l"), strike: Strike::on(Some("reserve"), When::After(2)) };
    let node = start(Arc::new(store), dir.path(), "a");
    serving(&node).await;
    assert_eq!(take(&node, "links", 60).await.unwrap().len(), 60);
    let served = node.keyspace("links").await.unwrap();
    let refused = served.take(5000, Duration::from_millis(300)).await.map(|haul| haul.count());
    assert_eq!(refused, Err(IssueError::LedgerUnavailable));
    // All or nothing: what was gathered for the large take is still there for a small one.
    assert_eq!(take(&node, "links", 40).await.unwrap().len(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_disagrees_is_refused_with_both_values() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let node = start(ledger, dir.path(), "a");
    serving(&node).await;
    let length = |length: u32| stated(&format!(r#"{{"scheme":"pool","length":{length}}}"#));
    let create =
        async |stated: &Stated| node.create_keyspace(&name("promo"), stated, &Tuning::default()).await;
    assert!(create(&length(8)).await.unwrap().1);
    assert!(!create(&length(8)).await.unwrap().1, "the same again is fine");
    assert!(!create(&stated(r#"{"scheme":"pool"}"#)).await.unwrap().1, "what is not stated is not compared");
    let refused = create(&length(9)).await.unwrap_err();
    assert!(matches!(refused, CreateError::Conflict { .. }));
    assert!(refused.to_string().contains('8') && refused.to_string().contains('9'), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withheld_number_is_never_issued_and_the_give_back_survives_it() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let node = start(ledger, dir.path(), "a");
    serving(&node).await;
    let tiny = stated(r#"{"scheme":"pool","alphabet":"base36","length":2,"order":"sequential"}"#);
    node.create_keyspace(&name("tiny"), &tiny, &Tuning::default()).await.unwrap();
    let served = node.keyspace("tiny").await.unwrap();
    let alias = served.mint().unwrap().number_of("zz").unwrap();
    let outcome = node.withhold(&served, vec![alias, alias], HoleKind::Alias).await.unwrap();
    assert_eq!(outcome, [ops::Withheld::Made, ops::Withheld::AlreadyThere(HoleKind::Alias)]);
    assert_eq!(node.inspect(&served, "zz").await.unwrap().unwrap().state, KeyState::Alias);
    let keys = take(&node, "tiny", 1295).await.unwrap();
    assert!(!keys.contains(&"zz".to_owned()));
    assert_eq!(keys.into_iter().collect::<HashSet<_>>().len(), 1295);
    assert_eq!(take(&node, "tiny", 1).await, Err(IssueError::Exhausted));
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_tells_what_became_of_a_key() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let state = async |node: &Arc<Node>, key: &str| {
        let served = node.keyspace("links").await.unwrap();
        node.inspect(&served, key).await.unwrap().map(|found| found.state)
    };
    let node = start(ledger.clone(), dir.path(), "a");
    serving(&node).await;
    let served = node.keyspace("links").await.unwrap();
    let issued = take(&node, "links", 10).await.unwrap();
    let key_of =
        |number: u64| served.mint().unwrap().spell_one(keymill_id::Number::new(number).unwrap()).unwrap();
    assert_eq!(state(&node, &issued[0]).await, Some(KeyState::Issued));
    assert_eq!(state(&node, &key_of(99)).await, Some(KeyState::InStock));
    assert_eq!(state(&node, &key_of(1_000_000)).await, Some(KeyState::NeverIssued));
    assert_eq!(state(&node, "no!").await, None);
    drop((node, served));
    // It died without a word: below the last audit nobody knows.
    let node = start(ledger.clone(), dir.path(), "a");
    serving(&node).await;
    assert_eq!(state(&node, &issued[0]).await, Some(KeyState::Uncertain));
    let again = take(&node, "links", 10).await.unwrap();
    node.stop(PATIENCE).await;
    let node = start(ledger, dir.path(), "a");
    serving(&node).await;
    assert_eq!(state(&node, &again[0]).await, Some(KeyState::Issued), "a clean stop told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retired_keyspace_says_so_and_stays_known() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let node = start(ledger, dir.path(), "a");
    serving(&node).await;
    let key = take(&node, "links", 1).await.unwrap().remove(0);
    node.retire_keyspace(&name("links")).await.unwrap();
    assert_eq!(take(&node, "links", 1).await, Err(IssueError::Retired));
    let served = node.keyspace("links").await.unwrap();
    assert!(node.inspect(&served, &key).await.unwrap().is_some());
    let again =
        node.create_keyspace(&name("links"), &stated(r#"{"scheme":"pool"}"#), &Tuning::default()).await;
    assert!(matches!(again, Err(CreateError::Retired { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_digest_nothing_is_taken_and_its_routes_need_no_holes() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let node = start(ledger.clone(), dir.path(), "a");
    serving(&node).await;
    let digest = stated(r#"{"scheme":"digest","root":true,"alphabet":"base36","length":7}"#);
    let (_, created) = node.create_keyspace(&name("pages"), &digest, &Tuning::default()).await.unwrap();
    assert!(created);
    assert_eq!(take(&node, "pages", 1).await, Err(IssueError::MadeFromContent));
    let served = node.keyspace("pages").await.unwrap();
    assert!(served.take_ready(1).is_err() && served.with_one(|_| ()).is_none());
    assert!(!served.has_run_dry(), "there is nothing to refill");
    assert_eq!(served.size(), Some(36_u64.pow(7)));
    assert_eq!(node.inspect(&served, "METRICS").await.unwrap().unwrap().state, KeyState::Untracked);
    assert!(node.inspect(&served, "metrics8").await.unwrap().is_none());
    let track = ops::TrackAt { track: Track::of(name("pages")) };
    assert_eq!(ledger.track(track).await.unwrap().unwrap().holes, 0);
    node.retire_keyspace(&name("pages")).await.unwrap();
    assert_eq!(take(&node, "pages", 1).await, Err(IssueError::Retired));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_redis_are_under_the_keyspaces_name_and_stay_where_they_were_put() {
    let (dir, ledger) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new("l")));
    let node = start(ledger.clone(), dir.path(), "a");
    serving(&node).await;
    let bare = stated(r#"{"scheme":"pool","store":"redis"}"#);
    let elsewhere = stated(r#"{"scheme":"pool","store":"redis","redis_key":"elsewhere"}"#);
    for (keyspace, stated, key) in [("promo", &bare, "promo"), ("coupons", &elsewhere, "elsewhere")] {
        let (row, created) = node.create_keyspace(&name(keyspace), stated, &Tuning::default()).await.unwrap();
        assert!(created && row.definition.contains(&format!(r#""redis_key":"{key}""#)), "{}", row.definition);
        let again = node.create_keyspace(&name(keyspace), &bare, &Tuning::default()).await;
        assert!(!again.unwrap().1, "what is left out has the ledger's value");
    }
    let moved = node.create_keyspace(&name("promo"), &elsewhere, &Tuning::default()).await;
    assert!(matches!(moved, Err(CreateError::Conflict { .. })), "{moved:?}");
}
