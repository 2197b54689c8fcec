//! A backup is a copy that knows it is one.

use std::{fs, path::Path};

use keymill_ledger::{
    Ledger, LedgerError, LedgerId, SqliteStore,
    conformance::{START, TestNode, number, track},
    ops,
};

use crate::folder::Folder;

#[tokio::test]
async fn a_backup_opens_halted_and_serves_after_advance() {
    let folder = Folder::new();
    let mut node = folder.start("a").await;
    node.reserve("links", 100).await.unwrap();
    let copy = Folder::new();
    node.ledger.backup(copy.path(), START).await.unwrap();
    node.reserve("links", 100).await.expect("the source serves on");
    let again = node.ledger.backup(copy.path(), START).await;
    assert!(matches!(again, Err(LedgerError::Unavailable { operation: "backup", .. })), "{again:?}");

    let mut restored = node.clone();
    restored.ledger = copy.open();
    let refusal = restored.restart().await;
    assert!(
        matches!(&refusal, Err(LedgerError::Halted { reason }) if reason.contains("backup")),
        "{refusal:?}"
    );
    assert_eq!(restored.row("links").await.cursor, number(100));
    restored.report_witness().await.unwrap();
    let advance = ops::Advance { without: Vec::new(), dry_run: false, at: START };
    restored.ledger.advance(advance).await.unwrap();
    restored.restart().await.unwrap();
    let block = restored.reserve("links", 10).await.unwrap().block;
    assert_eq!(block.start(), number(200), "above what was granted after the copy");
}

#[tokio::test]
async fn a_backup_whose_node_is_gone_is_advanced_without_it() {
    let folder = Folder::new();
    let mut node = folder.start("a").await;
    node.reserve("links", 100).await.unwrap();
    let copy = Folder::new();
    node.ledger.backup(copy.path(), START).await.unwrap();
    node.ledger = copy.open();
    let advance = ops::Advance { without: Vec::new(), dry_run: false, at: START };
    let waiting = node.ledger.advance(advance.clone()).await;
    assert!(matches!(waiting, Err(LedgerError::AwaitingNodes { .. })), "{waiting:?}");
    let without = vec![(node.name.clone(), 5_000)];
    node.ledger.advance(ops::Advance { without, ..advance }).await.unwrap();
    let mut other = TestNode::start(node.ledger.clone(), "b").await;
    assert_eq!(other.reserve("links", 1).await.unwrap().block.start(), number(5_100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_does_not_hold_up_the_source() {
    let folder = Folder::new();
    let mut node = folder.start("a").await;
    let (ledger, copies) = (node.ledger.clone(), tempfile::tempdir().unwrap());
    let backups = tokio::spawn(async move {
        for n in 0..5 {
            ledger.backup(&copies.path().join(format!("{n}.db")), START).await.unwrap();
        }
        copies
    });
    while !backups.is_finished() {
        node.reserve("links", 10).await.unwrap();
    }
    let copies = backups.await.unwrap();
    let left: Vec<_> = fs::read_dir(copies.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 5, "nothing half done is left beside them: {left:?}");
    let opened = SqliteStore::open(&copies.path().join("4.db"), "x", LedgerId("x".to_owned()), START);
    let cursor =
        opened.unwrap().0.track(ops::TrackAt { track: track("links") }).await.unwrap().unwrap().cursor;
    assert!(cursor <= node.row("links").await.cursor);
}

#[tokio::test]
async fn a_backup_to_nowhere_says_so() {
    let folder = Folder::new();
    let node = folder.start("a").await;
    let nowhere = node.ledger.backup(Path::new("/no/such/folder/copy.db"), START).await;
    assert!(matches!(nowhere, Err(LedgerError::Unavailable { .. })), "{nowhere:?}");
}
