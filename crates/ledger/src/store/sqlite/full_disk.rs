//! The disk is full: SQLite is told that the file may not grow, which fails where `ENOSPC` would.

use std::{path::Path, sync::Arc};

use keymill_id::Block;
use tokio::task::JoinSet;

use super::SqliteStore;
use crate::{
    HoleKind, LedgerError, LedgerId,
    conformance::{START, TestNode, numbers_once},
};

/// Opens the ledger so that its file can hold `pages` pages and no more.
fn open(path: &Path, pages: u32) -> Arc<SqliteStore> {
    let lock = SqliteStore::lock(path, "the tests").unwrap();
    let (connection, _) = SqliteStore::prepare(path, LedgerId("full".to_owned()), START).unwrap();
    connection.pragma_update(None, "max_page_count", pages).unwrap();
    Arc::new(SqliteStore::start(path, connection, lock))
}

/// Fills the file with holes, so that no page is left.
async fn fill(node: &mut TestNode) {
    for start in (1_000_000..).step_by(200) {
        let holes: Vec<u64> = (start..start + 200).collect();
        match node.withhold("links", &holes, HoleKind::Import).await {
            Ok(_) => {}
            Err(LedgerError::Unavailable { .. }) => return,
            Err(other) => panic!("a full disk is not `{other}`"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_and_forgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let store = open(&path, 40);
    let mut first = TestNode::with_links(store.clone(), "n0").await;
    let mut nodes = Vec::new();
    for n in 1..20 {
        nodes.push(TestNode::start(store.clone(), &format!("n{n}")).await);
    }
    fill(&mut first).await;
    let holes = first.row("links").await.holes;

    // Claims and holes need room, so sooner or later everything is refused; side by side in one commit.
    let mut tasks = JoinSet::new();
    for mut node in nodes {
        tasks.spawn(async move {
            let (mut blocks, mut refusals) = (Vec::new(), 0);
            for _ in 0..20 {
                match node.reserve("links", 10).await {
                    Ok(reserved) => blocks.push(reserved.block),
                    Err(LedgerError::Unavailable { .. }) => refusals += 1,
                    Err(other) => panic!("a full disk is not `{other}`"),
                }
            }
            (blocks, refusals)
        });
    }
    let outcomes = tasks.join_all().await;
    let refusals: u64 = outcomes.iter().map(|(_, refusals)| refusals).sum();
    let mut blocks: Vec<Block> = outcomes.into_iter().flat_map(|(blocks, _)| blocks).collect();
    assert!(refusals > 0, "it was not full");
    assert_eq!(first.row("links").await.holes, holes, "and what was there can be read");
    drop((store, first));

    let store = open(&path, 1_000_000);
    let mut after = TestNode::start(store, "after").await;
    assert_eq!(after.row("links").await.holes, holes);
    for _ in 0..3 {
        blocks.push(after.reserve("links", 10).await.expect("with room again, it goes on").block);
    }
    numbers_once(blocks);
}
