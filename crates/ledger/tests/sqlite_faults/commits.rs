//! One writer, many operations to a commit: all of them answered, all of them kept.

use std::{sync::Arc, time::Duration};

use keymill_ledger::{
    Ledger, LedgerError, LedgerId, SqliteStore,
    conformance::{START, TestNode, number, numbers_once},
    faults::{Slow, Strike, When},
};
use keymill_sql::{Access, Database, SqlError, Statements, Work};
use tokio::task::JoinSet;

use crate::folder::{Folder, refusal_of};

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

/// Somebody else who keeps rows in the ledger's file.
struct Note(i64);

impl Work for Note {
    type Answer = u64;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<u64, SqlError> {
        statements.define("CREATE TABLE IF NOT EXISTS notes (n INTEGER NOT NULL PRIMARY KEY) STRICT").await?;
        statements.execute("INSERT INTO notes VALUES (?)", &[self.0.into()]).await
    }
}

struct Notes;

impl Work for Notes {
    type Answer = i64;
    const ACCESS: Access = Access::Read;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<i64, SqlError> {
        statements.query("SELECT count(*) FROM notes", &[]).await?[0].integer(0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_shares_the_file_shares_its_writer_and_its_lock() {
    let folder = Folder::new();
    let id = LedgerId("first".to_owned());
    let store = SqliteStore::open(folder.path(), "the tests", id, START).unwrap().0;
    let notes = Database::embedded(store.file().clone());
    let mut node = TestNode::with_links(Arc::new(store), "a").await;
    let mut tasks = JoinSet::new();
    for n in 0..300 {
        let notes = notes.clone();
        tasks.spawn(async move { notes.run(Note(n)).await });
    }
    for round in 1..=50 {
        let block = node.reserve("links", 10).await.expect("nobody else's commit is in the way").block;
        assert_eq!(block.end(), number(round * 10));
    }
    for written in tasks.join_all().await {
        assert_eq!(written, Ok(1));
    }
    assert_eq!(notes.run(Notes).await, Ok(300));

    Folder::close(&mut node);
    let refusal = refusal_of(folder.try_open());
    assert!(matches!(refusal, LedgerError::InUse { .. }), "the file is still open: {refusal:?}");
    drop(notes);
    node.ledger = folder.open();
    assert_eq!(node.row("links").await.cursor, number(500));
}
