//! Promise 10 once more: the engine under the ledger is another one.

use super::{FailsOver, START, TestNode, assert_refused, number};
use crate::{LedgerError, ops};

pub async fn another_incarnation_halts_before_anything_is_changed<B: FailsOver>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    a.reserve("links", 100).await.unwrap();
    let before = a.row("links").await;
    bench.fail_over().await;
    let survey = a.ledger.survey(ops::Survey { at: START }).await.unwrap();
    assert_ne!(survey.incarnation, survey.head.incarnation, "it can be seen before anybody writes");
    assert_refused!(a.reserve("links", 10).await, LedgerError::Halted { .. });
    assert_refused!(b.restart().await, LedgerError::Halted { .. });
    assert!(a.head().await.halted.is_some());
    assert_eq!(a.row("links").await, before);
}

pub async fn advance_accepts_the_new_incarnation<B: FailsOver>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    a.reserve("links", 100).await.unwrap();
    bench.fail_over().await;
    assert_refused!(a.restart().await, LedgerError::Halted { .. });
    a.report_witness().await.unwrap();
    a.ledger.advance(ops::Advance { without: Vec::new(), dry_run: false, at: START }).await.unwrap();
    a.restart().await.unwrap();
    assert_eq!(a.reserve("links", 10).await.unwrap().block.start(), number(100), "nothing was lost");
}
