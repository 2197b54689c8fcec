//! Promise 5: what was not issued goes back exactly, or not at all.

use std::sync::Arc;

use super::{Bench, TestNode, assert_refused, number};
use crate::{
    Ledger, LedgerError,
    faults::{LosesReplies, Strike, When},
    ops::GivenBack,
};

pub async fn a_give_back_returns_exactly_the_tail<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let reserved = a.reserve("links", 100).await.unwrap();
    let given = a.give_back("links", 40, reserved.revision).await.unwrap();
    assert_eq!(given, GivenBack::Taken { count: 60, revision: reserved.revision + 1 });
    let block = b.reserve("links", 100).await.unwrap().block;
    assert_eq!((block.start(), block.end()), (number(40), number(140)));
}

pub async fn a_give_back_may_span_blocks_of_one_node<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    a.reserve("links", 10).await.unwrap();
    a.at = a.at.after(crate::ops::CLAIM_SPAN_MS);
    a.reserve("links", 10).await.unwrap();
    let last = a.reserve("links", 10).await.unwrap();
    let given = a.give_back("links", 5, last.revision).await.unwrap();
    assert!(matches!(given, GivenBack::Taken { count: 25, .. }));
    let claims = a.claims("links").await;
    assert_eq!(claims.len(), 1, "the second claim went back whole");
    assert_eq!(claims[0].end, number(5));

    let GivenBack::Taken { revision, .. } = given else { unreachable!() };
    let again = a.give_back("links", 2, revision).await.unwrap();
    assert!(matches!(again, GivenBack::Taken { count: 3, .. }), "its own give-back is no stranger's");
}

pub async fn a_give_back_after_someone_elses_reserve_is_refused<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let reserved = a.reserve("links", 100).await.unwrap();
    b.reserve("links", 10).await.unwrap();
    assert_eq!(a.give_back("links", 40, reserved.revision).await.unwrap(), GivenBack::Burned);
    assert_eq!(a.row("links").await.cursor, number(110));
}

pub async fn the_same_cursor_under_another_revision_is_refused<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let of_a = a.reserve("links", 100).await.unwrap();
    let of_b = b.reserve("links", 10).await.unwrap();
    b.give_back("links", 100, of_b.revision).await.unwrap();
    let before = a.row("links").await;
    assert_eq!(before.cursor, of_a.block.end(), "it looks as if nobody had been here");
    assert_eq!(a.give_back("links", 40, of_a.revision).await.unwrap(), GivenBack::Burned);
    assert_eq!(a.row("links").await, before);
}

pub async fn a_give_back_that_comes_twice_is_refused<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let reserved = a.reserve("links", 100).await.unwrap();
    let op = a.give_back_op("links", 40, reserved.revision);
    a.send_give_back(op.clone()).await.unwrap();
    // B reserves exactly what went back: the cursor stands where it stood when the message was sent.
    let of_b = b.reserve("links", 60).await.unwrap();
    assert_eq!(of_b.block.end(), number(100));
    assert_refused!(a.send_give_back(op).await, LedgerError::Overtaken { .. });
    let again = a.give_back("links", 40, reserved.revision).await.unwrap();
    assert_eq!(again, GivenBack::Burned, "even with a new stamp");
    assert_eq!(a.row("links").await.cursor, number(100));
}

pub async fn a_give_back_whose_reply_was_lost_cannot_be_repeated<B: Bench>(bench: B) {
    let strike = Strike::on(Some("give_back"), When::Nth(1));
    let lossy: Arc<dyn Ledger> = Arc::new(LosesReplies { inner: bench.handle().await, strike });
    let mut a = TestNode::with_links(lossy, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let reserved = a.reserve("links", 100).await.unwrap();
    let lost = a.give_back("links", 40, reserved.revision).await;
    assert_refused!(lost, LedgerError::Unavailable { .. });
    assert_eq!(b.reserve("links", 10).await.unwrap().block.start(), number(40), "it took effect");
    let again = a.give_back("links", 40, reserved.revision).await.unwrap();
    assert_eq!(again, GivenBack::Burned);
    a.restart().await.expect("a node that forgot the numbers before it sent them finds nothing missing");
}

pub async fn a_give_back_of_nothing_changes_nothing<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let reserved = a.reserve("links", 100).await.unwrap();
    let before = a.row("links").await;
    for from in [100, 101, keymill_id::NUMBER_MAX] {
        let given = a.give_back("links", from, reserved.revision).await.unwrap();
        assert_eq!(given, GivenBack::Burned, "from {from}");
    }
    assert_eq!(a.row("links").await, before);
    assert_refused!(a.give_back("nothing", 0, 0).await, LedgerError::UnknownKeyspace { .. });
}

pub async fn a_give_back_trims_claims_and_counters<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    b.reserve("links", 10).await.unwrap();
    let reserved = a.reserve("links", 100).await.unwrap();
    a.give_back("links", 50, reserved.revision).await.unwrap();
    let row = a.row("links").await;
    assert_eq!((row.cursor, row.reserved, row.claims, row.burned), (number(50), 50, 2, 0));
    assert_eq!(a.claim("links", 60).await.unwrap().end, number(50));

    let reserved = a.reserve("links", 1).await.unwrap();
    a.give_back("links", 10, reserved.revision).await.unwrap();
    let row = a.row("links").await;
    assert_eq!((row.cursor, row.reserved, row.claims), (number(10), 10, 1));
    assert_eq!(a.claim("links", 60).await.unwrap().node, b.name, "only the other node's is left");
}

/// A node that miscounts must not be believed: what it names was not granted to it, or to nobody.
pub async fn nobody_gives_back_what_was_not_theirs<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    a.reserve("links", 10).await.unwrap();
    let of_b = b.reserve("links", 10).await.unwrap();
    let beyond = b.give_back("links", 5, of_b.revision).await;
    assert_refused!(beyond, LedgerError::Corrupt { .. });

    let leapt = a.reserve_between("links", 25, 10, 1 << 20).await.unwrap();
    let gap = a.give_back("links", 22, leapt.revision).await;
    assert_refused!(gap, LedgerError::Corrupt { .. });
    let leapt = a.reserve_between("links", 1_000, 10, 1 << 20).await.unwrap();
    let more_than_ever = a.give_back("links", 500, leapt.revision).await.unwrap();
    assert_eq!(more_than_ever, GivenBack::Burned);

    a.restart().await.unwrap();
    let after = a.reserve("links", 10).await.unwrap();
    assert_eq!(after.block.start(), number(1_010), "nothing changed, and the ledger works on");
    let old_self = a.give_back("links", 1_005, after.revision).await;
    assert_refused!(old_self, LedgerError::Corrupt { .. });
}
