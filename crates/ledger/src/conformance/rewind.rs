//! Promise 10: a store that went back in time is caught, halted, and let go only above all witnesses.

use keymill_id::Number;

use super::{Rewinds, START, TestNode, assert_refused, name, number, track};
use crate::{
    HoleKind, LedgerError, NodeName,
    ops::{self, Advanced, GivenBack},
};

fn advance(without: &[(&str, u64)]) -> ops::Advance {
    let without = without.iter().map(|(node, skip)| (node.parse().expect("a good name"), *skip)).collect();
    ops::Advance { without, dry_run: false, at: START }
}

/// Both nodes reserve, the store goes back to before that, and A's next write finds out.
///
/// Known to the store: A holds 0..100. Lost: A's 100..200, B's 200..300, and A's hole at 1 000.
async fn rewound<B: Rewinds>(bench: &B) -> (TestNode, TestNode) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    a.reserve("links", 100).await.unwrap();
    let moment = bench.moment().await;
    a.reserve("links", 100).await.unwrap();
    b.reserve("links", 100).await.unwrap();
    a.withhold("links", &[1_000], HoleKind::Alias).await.unwrap();
    a.reserve_between("events/3", 5_000, 100, 1 << 41).await.unwrap();
    bench.rewind(moment).await;
    (a, b)
}

async fn halted<B: Rewinds>(bench: &B) -> (TestNode, TestNode) {
    let (mut a, b) = rewound(bench).await;
    assert_refused!(a.reserve("links", 10).await, LedgerError::Halted { .. });
    (a, b)
}

pub async fn the_first_write_after_a_rewind_halts_before_it_changes_anything<B: Rewinds>(bench: B) {
    let (mut a, _) = rewound(&bench).await;
    let before = (a.ledger.tracks().await.unwrap(), a.ledger.nodes().await.unwrap());
    assert_eq!(before.0[0].1.cursor, number(100), "the store did go back");
    assert_refused!(a.heartbeat(Vec::new()).await, LedgerError::Halted { .. });
    assert_eq!((a.ledger.tracks().await.unwrap(), a.ledger.nodes().await.unwrap()), before);
}

pub async fn a_halt_is_for_every_node<B: Rewinds>(bench: B) {
    let (mut a, mut b) = halted(&bench).await;
    for node in [&mut a, &mut b] {
        assert_refused!(node.reserve("links", 1).await, LedgerError::Halted { .. });
        assert_refused!(node.withhold("links", &[500], HoleKind::Alias).await, LedgerError::Halted { .. });
        assert_refused!(node.create("more").await, LedgerError::Halted { .. });
        assert_refused!(node.lease("a").await, LedgerError::Halted { .. });
        assert_refused!(node.stop(Vec::new()).await, LedgerError::Halted { .. });
        assert_refused!(node.restart().await, LedgerError::Halted { .. });
    }
    let stranger: NodeName = "stranger".parse().unwrap();
    let register = TestNode::register_op(&stranger, None);
    assert_refused!(a.ledger.register(register).await, LedgerError::Halted { .. });
}

pub async fn a_halted_ledger_can_be_read<B: Rewinds>(bench: B) {
    let (a, _) = halted(&bench).await;
    let halt = a.head().await.halted.expect("it says that it is halted");
    assert!(halt.reason.contains("`a`"), "and who found out: {}", halt.reason);
    assert_eq!(halt.since, START);
    assert_eq!(a.row("links").await.cursor, number(100));
    assert_eq!(a.claims("links").await.len(), 1);
    assert!(a.keyspace("links").await.is_some());
}

pub async fn a_rewind_is_seen_at_a_restart_too<B: Rewinds>(bench: B) {
    let (mut a, _) = rewound(&bench).await;
    assert_refused!(a.restart().await, LedgerError::Halted { .. });
    assert!(a.head().await.halted.is_some());
    assert_eq!(a.node_row().await.epoch, 1, "it was not let in");
}

pub async fn advance_waits_for_every_live_node<B: Rewinds>(bench: B) {
    let (a, b) = halted(&bench).await;
    a.report_witness().await.unwrap();
    let waiting = a.ledger.advance(advance(&[])).await;
    assert_refused!(waiting, LedgerError::AwaitingNodes { nodes } if nodes == [b.name.clone()]);
    assert!(a.head().await.halted.is_some());
    b.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.unwrap();
    assert_eq!((a.head().await.halted, a.head().await.advances), (None, 1));
    assert_refused!(a.ledger.advance(advance(&[])).await, LedgerError::NotHalted);
}

pub async fn a_stopped_node_is_not_waited_for<B: Rewinds>(bench: B) {
    let mut gone = TestNode::start(bench.handle().await, "gone").await;
    gone.stop(Vec::new()).await.unwrap();
    let (a, b) = halted(&bench).await;
    a.report_witness().await.unwrap();
    b.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.unwrap();
}

pub async fn a_dry_run_changes_nothing<B: Rewinds>(bench: B) {
    let (a, b) = halted(&bench).await;
    a.report_witness().await.unwrap();
    b.report_witness().await.unwrap();
    let before = (a.head().await, a.ledger.tracks().await.unwrap(), a.ledger.nodes().await.unwrap());
    let dry = ops::Advance { dry_run: true, ..advance(&[]) };
    let told = a.ledger.advance(dry).await.unwrap();
    let after = (a.head().await, a.ledger.tracks().await.unwrap(), a.ledger.nodes().await.unwrap());
    assert_eq!(after, before);
    assert_eq!(a.hole("links", 1_000).await, None);
    assert_eq!(a.ledger.advance(advance(&[])).await.unwrap(), told, "and then it does what it said");
}

pub async fn advance_lifts_every_track_above_all_that_was_granted<B: Rewinds>(bench: B) {
    let (mut a, mut b) = halted(&bench).await;
    a.report_witness().await.unwrap();
    b.report_witness().await.unwrap();
    let mut lifted = a.ledger.advance(advance(&[])).await.unwrap();
    lifted.sort_by(|a, b| a.track.cmp(&b.track));
    let moved = |on, from, to| Advanced { track: track(on), from: number(from), to: number(to) };
    assert_eq!(lifted, [moved("events/3", 0, 5_100), moved("links", 100, 300)]);

    a.restart().await.expect("the ledger knows again what it remembers");
    b.restart().await.unwrap();
    assert_eq!(b.reserve("links", 10).await.unwrap().block.start(), number(300));
    assert_eq!(a.reserve("links", 10).await.unwrap().block.start(), number(310));
    assert_eq!(a.reserve("events/3", 10).await.unwrap().block.start(), number(5_100));
}

pub async fn advance_puts_holes_back<B: Rewinds>(bench: B) {
    let (mut a, b) = halted(&bench).await;
    assert_eq!(a.hole("links", 1_000).await, None, "the store forgot it");
    a.report_witness().await.unwrap();
    b.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.unwrap();
    assert_eq!(a.hole("links", 1_000).await, Some(HoleKind::Alias));
    a.restart().await.unwrap();
    assert_eq!(a.reserve("links", 1_000).await.unwrap().holes, [number(1_000)]);
    assert_eq!(a.row("links").await.holes, 1);
}

/// Found by the model: a name withheld while the store had forgotten that the pool issued that very key.
pub async fn a_name_below_the_lifted_cursor_is_granted_to_nobody<B: Rewinds>(bench: B) {
    let (mut a, mut b) = rewound(&bench).await;
    b.acked = 0; // B is blind: it remembers nothing that would give the store away
    b.ends.clear();
    b.withhold("links", &[150], HoleKind::Alias).await.unwrap();
    assert_refused!(a.heartbeat(Vec::new()).await, LedgerError::Halted { .. });
    a.report_witness().await.unwrap();
    b.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.unwrap();
    a.restart().await.unwrap();
    let outcomes = a.withhold("links", &[150, 1_000], HoleKind::Alias).await.unwrap().outcomes;
    let there = ops::Withheld::AlreadyThere;
    assert_eq!(outcomes, [there(HoleKind::Spent), there(HoleKind::Alias)], "150 was A's, 1 000 is to come");
}

pub async fn a_give_back_from_before_the_halt_is_refused<B: Rewinds>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let reserved = a.reserve("links", 100).await.unwrap();
    let moment = bench.moment().await;
    a.heartbeat(Vec::new()).await.unwrap();
    bench.rewind(moment).await;
    // Sent before anybody knew of the rewind, and slow on its way. Only a heartbeat was lost: cursor and
    // revision are what they were.
    let late = a.give_back_op("links", 50, reserved.revision);
    assert_refused!(a.reserve("links", 1).await, LedgerError::Halted { .. });
    a.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.unwrap();
    assert_eq!(a.row("links").await.cursor, number(100));
    assert_eq!(a.send_give_back(late).await.unwrap(), GivenBack::Burned);
}

pub async fn a_node_that_is_gone_is_skipped_over<B: Rewinds>(bench: B) {
    let (mut a, _) = halted(&bench).await;
    a.report_witness().await.unwrap();
    a.ledger.advance(advance(&[("b", 1_000_000)])).await.unwrap();
    a.restart().await.unwrap();
    let block = a.reserve("links", 10).await.unwrap().block;
    assert_eq!(block.start(), number(1_000_200), "above A's 200 by as much as B may have had");
    assert_eq!(a.row("events/3").await.cursor, number(1_005_100), "on every track");
}

pub async fn a_node_that_was_skipped_halts_the_ledger_when_it_comes_back<B: Rewinds>(bench: B) {
    let (mut a, mut b) = halted(&bench).await;
    a.report_witness().await.unwrap();
    a.ledger.advance(advance(&[("b", u64::MAX)])).await.unwrap();
    assert_eq!(a.row("links").await.cursor, Number::MAX, "as far as numbers go, and no further");
    a.restart().await.unwrap();
    assert_refused!(b.reserve("links", 1).await, LedgerError::Halted { .. });
    b.report_witness().await.unwrap();
    a.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.expect("it has reported now");
    b.restart().await.unwrap();
}

pub async fn every_halt_asks_every_node_again<B: Rewinds>(bench: B) {
    let (mut a, mut b) = halted(&bench).await;
    a.report_witness().await.unwrap();
    b.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.unwrap();
    a.restart().await.unwrap();
    b.restart().await.unwrap();
    let moment = bench.moment().await;
    let granted = b.reserve("links", 100).await.unwrap().block;
    bench.rewind(moment).await;
    assert_refused!(b.reserve("links", 1).await, LedgerError::Halted { .. });
    a.report_witness().await.unwrap();
    let waiting = a.ledger.advance(advance(&[])).await;
    assert_refused!(waiting, LedgerError::AwaitingNodes { nodes } if nodes == [b.name.clone()]);
    b.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.unwrap();
    b.restart().await.unwrap();
    assert_eq!(b.reserve("links", 1).await.unwrap().block.start(), granted.end());
}

pub async fn a_start_that_was_lost_is_remembered<B: Rewinds>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let moment = bench.moment().await;
    a.restart().await.unwrap();
    bench.rewind(moment).await;
    assert_refused!(a.heartbeat(Vec::new()).await, LedgerError::Halted { .. });
    a.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.unwrap();
    a.restart().await.unwrap();
    assert_eq!(a.epoch, 3, "a start has its number once");
}

pub async fn a_lost_keyspace_is_never_created_again<B: Rewinds>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let moment = bench.moment().await;
    a.create("lost").await.unwrap();
    a.reserve("lost", 100).await.unwrap();
    bench.rewind(moment).await;
    assert_refused!(a.restart().await, LedgerError::Halted { .. });
    a.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.unwrap();
    a.restart().await.unwrap();
    // Another secret would shuffle the same keys into another order, and they would come again.
    let again = a.create("lost").await;
    assert_refused!(again, LedgerError::LostKeyspace { keyspace } if keyspace == name("lost"));
    a.create("other").await.unwrap();
}

pub async fn an_older_report_does_not_replace_a_newer<B: Rewinds>(bench: B) {
    let (mut a, b) = halted(&bench).await;
    let mut older = a.clone();
    older.ends = [(track("links"), number(100))].into();
    older.acked -= 1;
    older.holes.clear();
    a.report_witness().await.unwrap();
    older.report_witness().await.unwrap();
    b.report_witness().await.unwrap();
    a.ledger.advance(advance(&[])).await.unwrap();
    assert_eq!(a.hole("links", 1_000).await, Some(HoleKind::Alias));
    a.restart().await.expect("its beat was not lowered either");
    assert_eq!(a.reserve("events/3", 1).await.unwrap().block.start(), number(5_100));
}
