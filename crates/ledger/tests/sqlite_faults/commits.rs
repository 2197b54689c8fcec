//! One writer, many operations to a commit: all of them answered, all of them kept.

use std::{sync::Arc, time::Duration};

use keymill_ledger::{
    Ledger, LedgerError, LedgerId, SqliteStore,
    conformance::{START, TestNode, number, numbers_once},
    faults::{Slow, Strike, When},
};
use tokio::task::JoinSet;

use crate::folder::Folder;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_at_once_are_all_answered_and_kept() {
    let folder = Folder::new();
    let mut first = folder.start("n0").await;
    let mut nodes = vec![first.clone()];
    for n in 1..200 {
        nodes.push(TestNode::start(first.ledger.clone(), &format!("n{n}")).await);
    }
    let mut tasks = JoinSet::new();
    for mut node in nodes {
        tasks.spawn(async move { node.reserve("links", 10).await.unwrap().block });
    }
    let blocks = tasks.join_all().await;
    numbers_once(blocks.clone());

    folder.reopen(&mut first);
    assert_eq!(first.row("links").await.cursor, number(2_000));
    for block in blocks {
        let claim = first.claim("links", block.start().get()).await.unwrap();
        assert_eq!((claim.start, claim.end), (block.start(), block.end()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_refusal_spoils_nothing_for_those_in_the_same_commit() {
    let folder = Folder::new();
    let first = folder.start("n0").await;
    let mut tasks = JoinSet::new();
    for n in 1..60 {
        let mut node = TestNode::start(first.ledger.clone(), &format!("n{n}")).await;
        tasks.spawn(async move {
            let ceiling = if n % 3 == 0 { 0 } else { 1 << 40 };
            node.reserve_between("links", 0, 10, ceiling).await
        });
    }
    let (granted, refused): (Vec<_>, Vec<_>) = tasks.join_all().await.into_iter().partition(Result::is_ok);
    assert!(refused.iter().all(|answer| matches!(answer, Err(LedgerError::Exhausted { .. }))));
    assert_eq!((granted.len(), refused.len()), (40, 19));
    assert_eq!(first.row("links").await.cursor, number(400), "refused ones left nothing behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gave_up_is_never_repeated() {
    let folder = Folder::new();
    let id = LedgerId("first".to_owned());
    let inner = SqliteStore::open(folder.path(), "the tests", id, START).unwrap().0;
    let strike = Strike::on(Some("reserve"), When::Every(2));
    let ledger: Arc<dyn Ledger> = Arc::new(Slow { inner, strike, delay: Duration::from_millis(2) });
    let mut node = TestNode::with_links(ledger, "a").await;
    let mut blocks = Vec::new();
    for micros in (0..6_000).step_by(200) {
        let op = node.reserve_op("links", 10);
        let patience = Duration::from_micros(micros);
        if let Ok(answer) = tokio::time::timeout(patience, node.send_reserve(op)).await {
            blocks.push(answer.unwrap().block);
        }
    }
    let cursor = node.row("links").await.cursor;
    folder.reopen(&mut node);
    assert_eq!(node.row("links").await.cursor, cursor, "given up or not, what was committed stays");
    node.restart().await.unwrap();
    blocks.push(node.reserve("links", 10).await.unwrap().block);
    assert_eq!(blocks.last().unwrap().start(), cursor);
    numbers_once(blocks);
}
