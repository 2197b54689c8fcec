//! Promise 12: who holds which number, from few rows.

use keymill_id::{Block, Number};

use super::{Bench, START, TestNode, number, track};
use crate::{
    ClaimState, Timestamp,
    ops::{self, CLAIM_SPAN_MS, Progress, Settlement},
};

fn progress(issued_up_to: u64, issued: u64, burned: u64, at: Timestamp) -> Vec<Progress> {
    let issued_up_to = number(issued_up_to);
    vec![Progress { track: track("links"), issued_up_to, issued, burned, last_issued_at: at }]
}

fn block(start: u64, end: u64) -> Block {
    Block::new(number(start), number(end)).expect("tests name blocks that hold something")
}

pub async fn consecutive_blocks_extend_one_claim<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    for step in 0..50 {
        a.at = START.after(step * 1_000);
        a.reserve("links", 10).await.unwrap();
    }
    let claims = a.claims("links").await;
    assert_eq!(claims.len(), 1);
    assert_eq!(a.row("links").await.claims, 1);
    let claim = &claims[0];
    assert_eq!((claim.start, claim.end), (Number::ZERO, number(500)));
    assert_eq!((&claim.node, claim.epoch, claim.reserved_at), (&a.name, 1, START));
    assert_eq!((claim.issued_up_to, claim.state), (Number::ZERO, ClaimState::Open));
}

pub async fn a_claim_ends_after_its_span<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    for (millis, claims) in [(0, 1), (CLAIM_SPAN_MS - 1, 1), (CLAIM_SPAN_MS, 2), (CLAIM_SPAN_MS + 1, 2)] {
        a.at = START.after(millis);
        a.reserve("links", 10).await.unwrap();
        assert_eq!(a.claims("links").await.len(), claims, "after {millis} ms");
    }
    assert_eq!(a.claims("links").await[0].reserved_at, START.after(CLAIM_SPAN_MS));
}

pub async fn another_nodes_block_splits_a_claim<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    a.reserve("links", 10).await.unwrap();
    b.reserve("links", 10).await.unwrap();
    a.reserve("links", 10).await.unwrap();
    // All of it issued: nothing is lost with the old process, and its claim stays as it is.
    a.heartbeat(progress(30, 20, 0, START)).await.unwrap();
    a.restart().await.unwrap();
    a.reserve("links", 10).await.unwrap();
    let held = a.claims("links").await.into_iter().map(|c| (c.node.to_string(), c.epoch, c.start.get()));
    let expected =
        [("a", 2, 30), ("a", 1, 20), ("b", 1, 10), ("a", 1, 0)].map(|(n, e, s)| (n.to_owned(), e, s));
    assert_eq!(held.collect::<Vec<_>>(), expected, "a restart is another process too");
}

pub async fn a_gap_splits_a_claim<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    a.reserve("links", 10).await.unwrap();
    a.reserve_between("links", 20, 10, 1 << 41).await.unwrap();
    let claims = a.claims("links").await;
    assert_eq!((claims[1].end, claims[0].start), (number(10), number(20)));
    assert_eq!(a.claim("links", 15).await.unwrap().end, number(10), "nobody holds 15, as its end shows");
}

pub async fn the_claim_of_a_number_is_found_among_many<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    for _ in 0..40 {
        a.reserve("links", 7).await.unwrap();
        b.reserve("links", 3).await.unwrap();
    }
    for at in [0, 6, 7, 9, 10, 196, 197, 399] {
        let claim = a.claim("links", at).await.unwrap();
        assert!(claim.start.get() <= at && at < claim.end.get(), "{at} is not in {claim:?}");
        let holder = if at % 10 < 7 { &a.name } else { &b.name };
        assert_eq!(&claim.node, holder, "at {at}");
    }
    assert_eq!(a.claim("links", keymill_id::NUMBER_MAX).await.unwrap().start, number(397));
    a.create("empty").await.unwrap();
    assert_eq!(a.claim("empty", 0).await, None);
}

pub async fn claims_are_listed_from_the_newest_down<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    for start in (0..100).step_by(20) {
        a.reserve_between("links", start, 10, 1_000).await.unwrap();
    }
    let page = async |before: Option<u64>, limit| {
        let op = ops::Claims { track: track("links"), before: before.map(number), limit };
        a.ledger.claims(op).await.unwrap().into_iter().map(|claim| claim.start.get()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, [80, 60]);
    assert_eq!(page(Some(60), 2).await, [40, 20]);
    assert_eq!(page(Some(61), 1).await, [60]);
    assert_eq!(page(Some(20), 9).await, [0]);
    assert_eq!(page(Some(0), 9).await, [0; 0]);
}

pub async fn progress_brings_a_claim_forward_and_never_back<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    a.reserve("links", 100).await.unwrap();
    b.reserve("links", 100).await.unwrap();
    a.reserve("links", 100).await.unwrap();
    let later = START.after(9_000);
    a.heartbeat(progress(250, 149, 1, later)).await.unwrap();
    let issued = async |at| a.claim("links", at).await.unwrap().issued_up_to.get();
    assert_eq!((issued(0).await, issued(100).await, issued(200).await), (100, 100, 250), "its own alone");
    assert_eq!(a.claim("links", 200).await.unwrap().last_issued_at, Some(later));
    let row = a.row("links").await;
    assert_eq!((row.issued, row.burned, row.cursor), (149, 1, number(300)));

    let mut again = a.clone();
    again.heartbeat(progress(210, 5, 0, later)).await.unwrap();
    assert_eq!(issued(200).await, 250, "audit figures only rise");
    again.heartbeat(progress(keymill_id::NUMBER_MAX, 0, 0, later)).await.unwrap();
    assert_eq!(issued(200).await, 300, "and never pass the claim");
    let block = again.reserve("links", 10).await.unwrap().block;
    assert_eq!(block.start(), number(300), "nothing is reserved from them");
}

pub async fn a_claim_is_never_issued_beyond_its_end<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let reserved = a.reserve("links", 100).await.unwrap();
    a.heartbeat(progress(80, 80, 0, START)).await.unwrap();
    // A node that says it issued them and then gives them back is confused; its audit must not be.
    a.give_back("links", 50, reserved.revision).await.unwrap();
    let claim = a.claim("links", 0).await.unwrap();
    assert_eq!((claim.end, claim.issued_up_to), (number(50), number(50)));
    a.restart().await.unwrap();
    assert_eq!(a.row("links").await.burned, 0);
}

pub async fn a_clean_stop_settles_what_is_left<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    a.reserve("links", 100).await.unwrap();
    b.reserve("links", 10).await.unwrap();
    a.reserve("links", 100).await.unwrap();
    a.heartbeat(progress(60, 60, 0, START)).await.unwrap();
    let unissued = vec![block(60, 100), block(150, 160), block(190, 210)];
    a.stop(vec![Settlement { track: track("links"), unissued }]).await.unwrap();
    let first = a.claim("links", 0).await.unwrap();
    assert_eq!((first.state, first.unissued), (ClaimState::Settled, vec![block(60, 100)]));
    let second = a.claim("links", 110).await.unwrap();
    assert_eq!(
        (second.state, second.unissued),
        (ClaimState::Settled, vec![block(150, 160), block(190, 210)])
    );
    assert_eq!(a.claim("links", 105).await.unwrap().state, ClaimState::Open, "the other node works on");
    let row = a.row("links").await;
    assert_eq!((row.reserved, row.issued, row.burned), (210, 60, 70));

    a.restart().await.unwrap();
    assert_eq!(a.row("links").await.burned, 70, "nothing is burned twice");
    assert_eq!(a.claim("links", 0).await.unwrap().state, ClaimState::Settled);
}

pub async fn a_crash_loses_what_was_not_issued<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    a.reserve("links", 100).await.unwrap();
    a.heartbeat(progress(30, 30, 0, START)).await.unwrap();
    a.restart().await.unwrap();
    let claim = a.claim("links", 0).await.unwrap();
    assert_eq!((claim.state, claim.issued_up_to), (ClaimState::Lost, number(30)));
    assert_eq!(a.row("links").await.burned, 70);
    a.restart().await.unwrap();
    assert_eq!(a.row("links").await.burned, 70, "a second restart loses nothing more");
    let block = a.reserve("links", 10).await.unwrap().block;
    assert_eq!(block.start(), number(100), "nothing is resumed from an audit figure");
}
