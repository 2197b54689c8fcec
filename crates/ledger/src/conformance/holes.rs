//! Promises 6 and 7: a hole is above the cursor when it is made, named by every block since, never gone.

use std::sync::Arc;

use super::{Bench, TestNode, assert_refused, number};
use crate::{
    HoleKind, Ledger, LedgerError,
    faults::{LosesReplies, Strike, When},
    ops::{
        GivenBack,
        Withheld::{AlreadyThere, Made, Passed},
    },
};

pub async fn a_hole_is_made_at_or_above_the_cursor_or_not_at_all<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    a.reserve("links", 100).await.unwrap();
    let held = a.withhold("links", &[0, 99, 100, 101], HoleKind::Alias).await.unwrap();
    assert_eq!(held.outcomes, [Passed, Passed, Made, Made]);
    assert_eq!(a.row("links").await.holes, 2);
    for (at, kind) in [(0, None), (99, None), (100, Some(HoleKind::Alias)), (101, Some(HoleKind::Alias))] {
        assert_eq!(a.hole("links", at).await, kind, "at {at}");
    }
    let nowhere = a.withhold("nothing", &[1], HoleKind::Alias).await;
    assert_refused!(nowhere, LedgerError::UnknownKeyspace { .. });
}

pub async fn a_withhold_says_whether_this_call_made_the_hole<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let first = a.withhold("links", &[7], HoleKind::Alias).await.unwrap();
    assert_eq!(first.outcomes, [Made]);
    let second = b.withhold("links", &[8, 7, 8], HoleKind::Drawn).await.unwrap();
    let expected = [Made, AlreadyThere(HoleKind::Alias), AlreadyThere(HoleKind::Drawn)];
    assert_eq!(second.outcomes, expected, "in the order asked, and a number asked twice is made once");
    for kind in [HoleKind::Route, HoleKind::Import, HoleKind::Used] {
        let at = kind as u64 + 100;
        a.withhold("links", &[at], kind).await.unwrap();
        assert_eq!(b.withhold("links", &[at], HoleKind::Alias).await.unwrap().outcomes, [AlreadyThere(kind)]);
    }
    a.reserve("links", 10).await.unwrap();
    let late = b.withhold("links", &[7, 9], HoleKind::Drawn).await.unwrap();
    assert_eq!(late.outcomes, [AlreadyThere(HoleKind::Alias), Passed], "a hole stays one below the cursor");
    assert_eq!(a.row("links").await.holes, 5);
}

pub async fn a_block_names_every_hole_in_it_and_no_other<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    a.create("other").await.unwrap();
    a.withhold("other", &[5, 15], HoleKind::Alias).await.unwrap();
    a.withhold("links", &[19, 0, 10, 20, 9, 1_000], HoleKind::Import).await.unwrap();
    let named = |reserved: crate::ops::Reserved| reserved.holes.iter().map(|n| n.get()).collect::<Vec<_>>();
    assert_eq!(named(b.reserve("links", 10).await.unwrap()), [0, 9]);
    assert_eq!(named(b.reserve("links", 10).await.unwrap()), [10, 19], "in order");
    assert_eq!(named(b.reserve("links", 1).await.unwrap()), [20]);
    assert_eq!(named(b.reserve("links", 100).await.unwrap()), [0; 0]);

    let many: Vec<u64> = (2_000..3_000).step_by(2).collect();
    a.withhold("links", &many, HoleKind::Drawn).await.unwrap();
    let rest = b.reserve("links", 5_000).await.unwrap();
    assert_eq!(rest.holes.len(), 501);
    assert!(rest.holes.is_sorted());
}

pub async fn holes_outlive_reserves_and_give_backs<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    a.withhold("links", &[5, 50], HoleKind::Alias).await.unwrap();
    let reserved = a.reserve("links", 100).await.unwrap();
    let given = a.give_back("links", 0, reserved.revision).await.unwrap();
    assert!(matches!(given, GivenBack::Taken { count: 100, .. }));
    assert_eq!(a.row("links").await.holes, 2);
    let again = b.reserve("links", 60).await.unwrap();
    assert_eq!(again.block.start(), number(0));
    assert_eq!(again.holes, [number(5), number(50)], "named again, though named before");
    assert_eq!(b.hole("links", 5).await, Some(HoleKind::Alias));
}

pub async fn a_withhold_moves_the_revision_only_if_it_made_something<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let of_a = a.reserve("links", 100).await.unwrap();
    let held = b.withhold("links", &[200], HoleKind::Alias).await.unwrap();
    assert_eq!((held.before, held.after), (of_a.revision, of_a.revision + 1));
    assert_eq!(a.give_back("links", 50, of_a.revision).await.unwrap(), GivenBack::Burned);

    let of_a = a.reserve("links", 10).await.unwrap();
    let nothing = a.withhold("links", &[0, 200], HoleKind::Drawn).await.unwrap();
    assert_eq!((nothing.before, nothing.after), (of_a.revision, of_a.revision));
    // The node's own hole: it may go on from `after`, because nobody else was there in between.
    let held = a.withhold("links", &[201], HoleKind::Drawn).await.unwrap();
    assert_eq!(held.before, of_a.revision);
    let given = a.give_back("links", 105, held.after).await.unwrap();
    assert!(matches!(given, GivenBack::Taken { count: 5, .. }));
}

pub async fn a_lost_withhold_is_not_made_twice<B: Bench>(bench: B) {
    let strike = Strike::on(Some("withhold"), When::Nth(1));
    let lossy: Arc<dyn Ledger> = Arc::new(LosesReplies { inner: bench.handle().await, strike });
    let mut a = TestNode::with_links(lossy, "a").await;
    let lost = a.withhold("links", &[7], HoleKind::Drawn).await;
    assert_refused!(lost, LedgerError::Unavailable { .. });
    let again = a.withhold("links", &[7], HoleKind::Drawn).await.unwrap();
    assert_eq!(again.outcomes, [AlreadyThere(HoleKind::Drawn)], "so the draw is not granted, but redrawn");
}

pub async fn holes_belong_to_one_track<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    for keyspace in ["a", "a0", "a-b"] {
        a.create(keyspace).await.unwrap();
    }
    a.withhold("a0", &[3], HoleKind::Alias).await.unwrap();
    assert_eq!(a.hole("a", 3).await, None);
    assert_eq!(a.reserve("a", 10).await.unwrap().holes, []);
    assert_eq!(a.reserve("a-b", 10).await.unwrap().holes, []);
    assert_eq!(a.reserve("a0", 10).await.unwrap().holes, [number(3)]);
}
