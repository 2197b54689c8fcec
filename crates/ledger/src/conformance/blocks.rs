//! Promises 1 to 4: no number twice, durable first, lost calls waste and never repeat, bounds are kept.

use std::{sync::Arc, time::Duration};

use super::{Bench, TestNode, assert_refused, number, numbers_once};
use crate::{
    Ledger, LedgerError,
    faults::{Fails, LosesReplies, Slow, Strike, When},
};

pub async fn blocks_never_overlap<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let mut blocks = Vec::new();
    for count in [1, 100, 7, 1, 1_000_000, 3] {
        blocks.push(a.reserve("links", count).await.unwrap().block);
        blocks.push(b.reserve("links", count).await.unwrap().block);
    }
    assert_eq!(blocks[0].start(), number(0), "numbers begin at zero");
    assert_eq!(a.row("links").await.cursor, blocks.last().unwrap().end());
    numbers_once(blocks);
}

pub async fn another_handle_sees_what_was_acknowledged<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let reserved = a.reserve("links", 100).await.unwrap();
    let b = TestNode::start(bench.handle().await, "b").await;
    let row = b.row("links").await;
    assert_eq!((row.cursor, row.revision, row.reserved), (number(100), reserved.revision, 100));
    assert_eq!(b.claim("links", 99).await.unwrap().node, a.name);
}

pub async fn at_least_is_honoured_and_never_lowers_the_cursor<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let last = 1 << 40;
    let block = a.reserve_between("links", 5_000, 10, last).await.unwrap().block;
    assert_eq!((block.start(), block.end()), (number(5_000), number(5_010)));
    let block = a.reserve_between("links", 17, 10, last).await.unwrap().block;
    assert_eq!(block.start(), number(5_010), "an earlier time is no way back");
    let block = a.reserve_between("links", 5_020, 10, last).await.unwrap().block;
    assert_eq!(block.start(), number(5_020), "exactly at the cursor");
    assert_eq!(a.row("links").await.reserved, 30, "what was leapt over was not reserved");
}

pub async fn the_last_block_is_short_and_then_the_track_is_exhausted<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    assert_eq!(a.reserve_between("links", 0, 1_000, 1_296).await.unwrap().block.count(), 1_000);
    assert_eq!(a.reserve_between("links", 0, 1_000, 1_296).await.unwrap().block.count(), 296);
    let full = a.row("links").await;
    for at_least in [0, 1_295, 1_296, 5_000] {
        let refused = a.reserve_between("links", at_least, 1, 1_296).await;
        assert_refused!(refused, LedgerError::Exhausted { .. });
    }
    assert_eq!(a.row("links").await, full, "a refused reserve takes nothing");
    let grown = a.reserve_between("links", 0, 10, 10_000).await.unwrap().block;
    assert_eq!(grown.start(), number(1_296), "a pool that grows goes on where it ended");
}

pub async fn a_lost_reply_wastes_a_block_and_never_repeats_it<B: Bench>(bench: B) {
    let strike = Strike::on(Some("reserve"), When::Every(2));
    let lossy: Arc<dyn Ledger> = Arc::new(LosesReplies { inner: bench.handle().await, strike });
    let mut a = TestNode::with_links(lossy, "a").await;
    let mut blocks = Vec::new();
    for _ in 0..5 {
        blocks.push(a.reserve("links", 10).await.unwrap().block);
        assert_refused!(a.reserve("links", 10).await, LedgerError::Unavailable { .. });
    }
    assert_eq!(a.row("links").await.cursor, number(100), "the lost ones took effect");
    assert_eq!(blocks[4].start(), number(80), "each retry got a later block");
    numbers_once(blocks);
}

pub async fn a_refused_call_takes_nothing<B: Bench>(bench: B) {
    let strike = Strike::on(Some("reserve"), When::Nth(2));
    let failing: Arc<dyn Ledger> = Arc::new(Fails { inner: bench.handle().await, strike });
    let mut a = TestNode::with_links(failing, "a").await;
    a.reserve("links", 10).await.unwrap();
    assert_refused!(a.reserve("links", 10).await, LedgerError::Unavailable { .. });
    assert_eq!(a.reserve("links", 10).await.unwrap().block.start(), number(10));
}

pub async fn a_dropped_call_never_repeats_a_block<B: Bench>(bench: B) {
    let strike = Strike::on(Some("reserve"), When::Every(1));
    let delay = Duration::from_millis(4);
    let slow: Arc<dyn Ledger> = Arc::new(Slow { inner: bench.handle().await, strike, delay });
    let mut a = TestNode::with_links(slow, "a").await;
    let mut blocks = Vec::new();
    // Some are dropped before the commit, some in it, some after.
    for millis in (0..16).chain([1_000]) {
        let op = a.reserve_op("links", 10);
        let patience = Duration::from_millis(millis);
        if let Ok(answer) = tokio::time::timeout(patience, a.send_reserve(op)).await {
            blocks.push(answer.unwrap().block);
        }
    }
    assert!(!blocks.is_empty(), "a second is long enough for one of them");
    assert!(a.row("links").await.cursor >= blocks.last().unwrap().end());
    numbers_once(blocks);
}

pub async fn an_unknown_keyspace_has_no_numbers<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    for keyspace in ["link", "links-", "linkss"] {
        assert_refused!(a.reserve(keyspace, 1).await, LedgerError::UnknownKeyspace { .. });
    }
    assert_eq!(a.ledger.tracks().await.unwrap().len(), 1, "asking makes no track");
}

pub async fn a_worker_counts_apart_from_its_keyspace<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    a.create("ab").await.unwrap();
    for (on, at_least) in [("ab", 0), ("ab/1", 100), ("ab/11", 200), ("ab/2", 300)] {
        let block = a.reserve_between(on, at_least, 10, 1 << 41).await.unwrap().block;
        assert_eq!(block.start(), number(at_least), "`{on}` is nobody else's track");
    }
    assert_eq!(a.claims("ab").await.len(), 1);
    assert_eq!(a.claims("ab/1").await.len(), 1);
    assert_eq!(a.ledger.tracks().await.unwrap().len(), 4);
}
