//! Promises 8 to 10: late and double messages, fenced processes, and a ledger that forgot something.

use std::sync::Arc;

use keymill_id::Number;

use super::{Bench, START, TestNode, assert_refused, name, number, track};
use crate::{
    HoleKind, Ledger, LedgerError, NodeReport, TokenRow, WorkerId,
    faults::{LosesReplies, Strike, When},
    ops::{self, Stamp},
};

/// Every stamped write there is, under one stamp, and what became of each.
async fn every_write(node: &mut TestNode, stamp: Stamp) -> Vec<(&'static str, Result<(), LedgerError>)> {
    let ledger = node.ledger.clone();
    let (keyspace, worker) = (name("events"), WorkerId(0));
    let mut reserve = node.reserve_op("links", 5);
    reserve.stamp = stamp.clone();
    let mut give_back = node.give_back_op("links", 0, node.row("links").await.revision);
    give_back.stamp = stamp.clone();
    let mut withhold = node.withhold_op("links", &[500], HoleKind::Alias);
    withhold.stamp = stamp.clone();
    let mut create = node.create_op("fresh");
    create.stamp = stamp.clone();
    let mut lease = node.lease_op("a");
    lease.stamp = stamp.clone();
    let heartbeat =
        ops::Heartbeat { stamp: stamp.clone(), report: NodeReport::default(), progress: Vec::new() };
    let stop = ops::Stop { stamp: stamp.clone(), progress: Vec::new(), settlements: Vec::new() };
    let tuning = [("low_water".to_owned(), 1.into())].into_iter().collect();
    let tune = ops::TuneKeyspace { stamp: stamp.clone(), name: name("links"), tuning };
    let retire = ops::RetireKeyspace { stamp: stamp.clone(), name: name("links") };
    let renew = ops::RenewWorker {
        stamp: stamp.clone(),
        keyspace: keyspace.clone(),
        worker,
        term: 1,
        ttl_ms: 900_000,
    };
    let release = ops::ReleaseWorker { stamp: stamp.clone(), keyspace, worker, term: 1 };
    let token = TokenRow { id: "t".to_owned(), body: serde_json::Value::Null };
    let put_token = ops::PutToken { stamp: stamp.clone(), token };
    let revoke_token = ops::RevokeToken { stamp, id: "kept".to_owned() };
    vec![
        ("reserve", ledger.reserve(reserve).await.map(drop)),
        ("give_back", ledger.give_back(give_back).await.map(drop)),
        ("withhold", ledger.withhold(withhold).await.map(drop)),
        ("heartbeat", ledger.heartbeat(heartbeat).await.map(drop)),
        ("stop", ledger.stop(stop).await),
        ("create_keyspace", ledger.create_keyspace(create).await.map(drop)),
        ("tune_keyspace", ledger.tune_keyspace(tune).await.map(drop)),
        ("retire_keyspace", ledger.retire_keyspace(retire).await.map(drop)),
        ("lease_worker", ledger.lease_worker(lease).await.map(drop)),
        ("renew_worker", ledger.renew_worker(renew).await.map(drop)),
        ("release_worker", ledger.release_worker(release).await),
        ("put_token", ledger.put_token(put_token).await),
        ("revoke_token", ledger.revoke_token(revoke_token).await.map(drop)),
    ]
}

/// A node that has reserved, leased worker 0 of `events` and put token `kept`: something to lose.
async fn settled<B: Bench>(bench: &B) -> TestNode {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    a.reserve("links", 100).await.unwrap();
    a.lease("a").await.unwrap();
    let token = TokenRow { id: "kept".to_owned(), body: serde_json::Value::Null };
    let put = ops::PutToken { stamp: a.stamp(), token };
    let beat = put.stamp.next;
    let answer = a.ledger.put_token(put).await;
    a.note(beat, answer).unwrap();
    a
}

/// All that a write could have changed.
async fn everything(node: &TestNode) -> String {
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        node.head().await,
        node.ledger.nodes().await,
        node.ledger.tracks().await,
        node.ledger.keyspaces().await,
        node.ledger.tokens().await,
        node.leases("events").await,
        node.claims("links").await,
    )
}

pub async fn a_message_that_comes_twice_changes_nothing<B: Bench>(bench: B) {
    let mut a = settled(&bench).await;
    let op = a.reserve_op("links", 10);
    a.send_reserve(op.clone()).await.unwrap();
    let before = everything(&a).await;
    assert_refused!(a.send_reserve(op.clone()).await, LedgerError::Overtaken { .. });
    for (write, answer) in every_write(&mut a, op.stamp).await {
        assert!(matches!(answer, Err(LedgerError::Overtaken { .. })), "{write}: {answer:?}");
    }
    assert_eq!(everything(&a).await, before);
}

pub async fn a_message_that_was_overtaken_changes_nothing<B: Bench>(bench: B) {
    let mut a = settled(&bench).await;
    let late = a.stamp();
    a.heartbeat(Vec::new()).await.unwrap();
    let before = everything(&a).await;
    for (write, answer) in every_write(&mut a, late).await {
        assert!(matches!(answer, Err(LedgerError::Overtaken { .. })), "{write}: {answer:?}");
    }
    assert_eq!(everything(&a).await, before);
}

pub async fn a_newer_process_fences_the_older<B: Bench>(bench: B) {
    let mut older = settled(&bench).await;
    let newer = TestNode::start(bench.handle().await, "a").await;
    assert_eq!(newer.epoch, older.epoch + 1);
    let before = everything(&newer).await;
    let stamp = older.stamp();
    for (write, answer) in every_write(&mut older, stamp).await {
        let fenced = matches!(&answer, Err(LedgerError::Fenced { newer: 2, .. }));
        assert!(fenced, "{write}: {answer:?}");
    }
    assert_eq!(everything(&newer).await, before);
}

pub async fn a_refused_write_is_not_counted<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let before = a.node_row().await;
    for _ in 0..3 {
        assert_refused!(a.reserve_between("links", 0, 1, 0).await, LedgerError::Exhausted { .. });
        assert_refused!(a.reserve("nothing", 1).await, LedgerError::UnknownKeyspace { .. });
    }
    assert_eq!(a.node_row().await, before, "a refusal leaves nothing behind");
    a.reserve("links", 1).await.expect("so it acknowledges nothing, and the next write is no contradiction");
}

pub async fn a_lost_reply_does_not_look_like_a_rewind<B: Bench>(bench: B) {
    let strike = Strike::on(None, When::Every(3));
    let lossy: Arc<dyn Ledger> = Arc::new(LosesReplies { inner: bench.handle().await, strike });
    let mut a = TestNode::with_links(lossy, "a").await;
    for _ in 0..20 {
        match a.heartbeat(Vec::new()).await {
            Ok(_) | Err(LedgerError::Unavailable { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(a.head().await.halted, None);
}

/// The ledger is halted by `write`, nothing else has changed, and everybody is refused.
async fn halts<B: Bench>(bench: &B, node: &TestNode, write: impl AsyncFnOnce() -> Result<(), LedgerError>) {
    let mut other = TestNode::start(bench.handle().await, "other").await;
    let before = (node.ledger.nodes().await.unwrap(), node.ledger.tracks().await.unwrap());
    assert_refused!(write().await, LedgerError::Halted { .. });
    assert!(node.head().await.halted.is_some(), "the mark outlives the call");
    assert_refused!(other.reserve("links", 1).await, LedgerError::Halted { .. });
    let register = TestNode::register_op(&"third".parse().unwrap(), None);
    assert_refused!(node.ledger.register(register).await, LedgerError::Halted { .. });
    let after = (node.ledger.nodes().await.unwrap(), node.ledger.tracks().await.unwrap());
    assert_eq!(after, before, "found before anything was changed");
}

pub async fn a_write_the_ledger_forgot_halts_it<B: Bench>(bench: B) {
    let a = settled(&bench).await;
    let mut ahead = a.clone();
    ahead.acked += 5;
    ahead.sent += 5;
    halts(&bench, &a, async || ahead.reserve("links", 1).await.map(drop)).await;
}

pub async fn a_start_the_ledger_forgot_halts_it<B: Bench>(bench: B) {
    let a = settled(&bench).await;
    let mut ahead = a.clone();
    ahead.epoch += 1;
    halts(&bench, &a, async || ahead.heartbeat(Vec::new()).await.map(drop)).await;
}

pub async fn a_node_the_ledger_forgot_halts_it<B: Bench>(bench: B) {
    let a = settled(&bench).await;
    let mut stranger = a.clone();
    stranger.name = "stranger".parse().unwrap();
    halts(&bench, &a, async || stranger.withhold("links", &[7], HoleKind::Alias).await.map(drop)).await;
}

pub async fn a_cursor_below_what_was_granted_halts_it<B: Bench>(bench: B) {
    let a = settled(&bench).await;
    let mut ahead = a.clone();
    ahead.ends.insert(track("links"), number(101));
    halts(&bench, &a, async || ahead.reserve("links", 1).await.map(drop)).await;
}

pub async fn a_restart_that_remembers_more_than_the_ledger_halts_it<B: Bench>(bench: B) {
    let mut a = settled(&bench).await;
    a.restart().await.expect("what it remembers is what the ledger knows");
    // Somebody else may have started under the name since: a higher start excuses no forgotten write.
    let mut ahead = a.clone();
    ahead.epoch -= 1;
    ahead.acked += 1;
    halts(&bench, &a, async || ahead.restart().await).await;
    let advance = ops::Advance { without: Vec::new(), dry_run: false, at: START };
    let other = ("other".parse().unwrap(), 0);
    a.report_witness().await.unwrap();
    a.ledger.advance(ops::Advance { without: vec![other], ..advance }).await.unwrap();
    a.restart().await.unwrap();

    let mut ahead = a.clone();
    ahead.ends.insert(track("events/3"), Number::MAX);
    assert_refused!(ahead.restart().await, LedgerError::Halted { .. });
    assert!(a.head().await.halted.is_some());
}

pub async fn nothing_is_advanced_or_reported_without_a_halt<B: Bench>(bench: B) {
    let a = settled(&bench).await;
    let before = everything(&a).await;
    assert_refused!(a.report_witness().await, LedgerError::NotHalted);
    let advance = ops::Advance { without: Vec::new(), dry_run: false, at: START };
    assert_refused!(a.ledger.advance(advance).await, LedgerError::NotHalted);
    assert_eq!(everything(&a).await, before);
}
