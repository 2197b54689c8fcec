//! A disk that fails in the middle of a write, seen from a process of its own.
//!
//! The child may not write files beyond a limit; the kernel answers `EFBIG`, which to SQLite is an I/O
//! error like any other. It says what it was granted until then, and the parent looks at what is left.

use std::{env, process::Command};

use keymill_ledger::{
    LedgerError,
    conformance::{TestNode, number},
};

use crate::folder::Folder;

/// Where the child finds the ledger.
const LEDGER: &str = "KEYMILL_TEST_LEDGER";
/// In blocks of 512 bytes: enough for some commits, too little for many.
const FILE_SIZE_MAX: u64 = 400;

#[tokio::test]
#[ignore = "the child of a_disk_that_fails_stops_the_store_and_repeats_nothing"]
async fn child() {
    let folder = Folder::at(env::var_os(LEDGER).expect("only the parent starts this").into());
    let mut node = TestNode::start(folder.open(), "child").await;
    let failure = loop {
        match node.reserve("links", 10).await {
            Ok(reserved) => println!("granted {}", reserved.block.end()),
            Err(failure) => break failure,
        }
    };
    println!("failed {failure:?}");
    assert!(matches!(failure, LedgerError::Broken { .. }));
    let again = node.reserve("links", 10).await;
    assert!(matches!(again, Err(LedgerError::Broken { .. })), "the disk was asked again: {again:?}");
    println!("stopped");
}

#[tokio::test]
async fn a_disk_that_fails_stops_the_store_and_repeats_nothing() {
    let folder = Folder::new();
    let mut node = folder.start("a").await;
    Folder::close(&mut node);
    let limited = format!("trap '' XFSZ; ulimit -f {FILE_SIZE_MAX}; exec \"$0\" \"$@\"");
    let child = Command::new("sh")
        .args(["-c", &limited])
        .arg(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "failing_disk::child"])
        .env(LEDGER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("stopped"), "{said}{}", String::from_utf8_lossy(&child.stderr));
    let granted = said.lines().filter_map(|line| line.strip_prefix("granted ")?.parse::<u64>().ok());
    let last = granted.max().expect("some were granted before it failed");

    node.ledger = folder.open();
    assert!(node.row("links").await.cursor >= number(last), "an acknowledged block is gone");
    node.restart().await.unwrap();
    assert!(node.reserve("links", 1).await.unwrap().block.start() >= number(last));
}
