//! What is no ledger, or somebody else's, is refused by name.

use std::fs;

use keymill_ledger::{HoleKind, LedgerError};

use crate::folder::{Folder, refusal_of};

#[test]
fn a_second_opener_is_told_who_has_it() {
    let folder = Folder::new();
    let first = folder.open();
    let LedgerError::InUse { what, by } = refusal_of(folder.try_open()) else { panic!("another refusal") };
    assert!(what.contains("ledger.db"), "{what}");
    assert!(by.contains("the tests") && by.contains(&std::process::id().to_string()), "{by}");
    drop(first);
    folder.open();
}

#[test]
fn a_file_that_is_not_sqlite_is_refused() {
    let folder = Folder::new();
    fs::write(folder.path(), "#!/bin/sh\necho this is no ledger, whatever its name says\n".repeat(99))
        .unwrap();
    assert!(matches!(refusal_of(folder.try_open()), LedgerError::Corrupt { .. }));
}

#[test]
fn an_sqlite_file_of_somebody_else_is_refused_and_left_alone() {
    let folder = Folder::new();
    let theirs = rusqlite::Connection::open(folder.path()).unwrap();
    theirs.execute_batch("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('Layla');").unwrap();
    let refusal = refusal_of(folder.try_open());
    assert!(
        matches!(&refusal, LedgerError::Corrupt { detail, .. } if detail.contains("not a Keymill ledger"))
    );
    let tables: i64 = theirs.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let folder = Folder::new();
    drop(folder.open());
    let raw = rusqlite::Connection::open(folder.path()).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    let refusal = refusal_of(folder.try_open());
    assert!(matches!(&refusal, LedgerError::Corrupt { detail, .. } if detail.contains("newer Keymill")));
}

/// Edits the file as rot would, behind SQLite's back, and says what opening it answers.
async fn after_an_edit(sql: &str) -> LedgerError {
    let folder = Folder::new();
    let mut node = folder.start("a").await;
    node.reserve("events/3", 10).await.unwrap();
    node.withhold("links", &[7, 9], HoleKind::Alias).await.unwrap();
    drop(node);
    let raw = rusqlite::Connection::open(folder.path()).unwrap();
    assert_eq!(raw.execute(sql, []).unwrap(), 1, "{sql}");
    drop(raw);
    refusal_of(folder.try_open())
}

#[tokio::test]
async fn a_row_that_rotted_is_found_when_the_file_is_opened() {
    for sql in [
        "UPDATE tracks SET cursor = cursor - 1 WHERE track = 'links'",
        "UPDATE tracks SET revision = revision - 1 WHERE track = 'links'",
        // A worker's track that lost its name would count from zero again.
        "UPDATE tracks SET track = 'events/7' WHERE track = 'events/3'",
        "DELETE FROM tracks WHERE track = 'links'",
        "UPDATE documents SET body = replace(body, '\"beat\"', '\"boat\"') WHERE kind = 'node'",
        "UPDATE documents SET key = 'links-' WHERE kind = 'keyspace'",
        "DELETE FROM documents WHERE kind = 'keyspace'",
        "DELETE FROM documents WHERE kind = 'head'",
        // A hole that moved would let its number be issued.
        "UPDATE holes SET number = 8 WHERE number = 9",
        "UPDATE holes SET kind = 'route' WHERE number = 9",
        "DELETE FROM holes WHERE number = 9",
    ] {
        let refusal = after_an_edit(sql).await;
        assert!(matches!(refusal, LedgerError::Corrupt { .. }), "{sql}: {refusal:?}");
    }
}

#[tokio::test]
async fn numbers_survive_a_reopening() {
    let folder = Folder::new();
    let mut node = folder.start("a").await;
    let start = 1 << 53;
    let block = node.reserve_between("links", start + 1, 2, keymill_id::NUMBER_MAX).await.unwrap().block;
    let (row, claims) = (node.row("links").await, node.claims("links").await);
    folder.reopen(&mut node);
    assert_eq!((node.row("links").await, node.claims("links").await), (row, claims));
    node.restart().await.unwrap();
    assert_eq!(node.reserve("links", 1).await.unwrap().block.start(), block.end());
}

#[tokio::test]
async fn a_first_start_that_was_cut_short_leaves_a_ledger_or_nothing() {
    // The file exists and is empty: what a crash before the first commit leaves.
    let folder = Folder::new();
    fs::write(folder.path(), "").unwrap();
    let (_, created) = folder.try_open().unwrap();
    assert!(created);
}
