//! A folder with one ledger in it, for tests that look at the file itself.

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

use keymill_ledger::{
    Ledger, LedgerError, LedgerId, MemoryStore, SqliteStore,
    conformance::{START, TestNode},
};
use tempfile::TempDir;

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Of the ledger, should it be created here.
    id: LedgerId,
    _dir: Option<TempDir>,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self::within(&env::temp_dir(), "first")
    }

    /// For a ledger that is thrown away at once: in memory, where there is such a folder, because
    /// thousands of syncs that prove nothing would be most of the test.
    pub(crate) fn fleeting(id: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
        Self::within(&folder, id)
    }

    fn within(folder: &Path, id: &str) -> Self {
        let dir = tempfile::tempdir_in(folder).expect("a folder to test in");
        Self { path: dir.path().join("ledger.db"), id: LedgerId(id.to_owned()), _dir: Some(dir) }
    }

    /// Where a ledger is already, in somebody else's folder.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, id: LedgerId("first".to_owned()), _dir: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn try_open(&self) -> Result<(Arc<dyn Ledger>, bool), LedgerError> {
        SqliteStore::open_ledger(&self.path, "the tests", self.id.clone(), START)
    }

    pub(crate) fn open(&self) -> Arc<dyn Ledger> {
        self.try_open().expect("the file is good").0
    }

    /// Closes the ledger under a node, the last that has it open.
    pub(crate) fn close(node: &mut TestNode) {
        node.ledger = Arc::new(MemoryStore::new("nothing"));
    }

    /// Closes the ledger under a node and opens it again, as a restart of the process would.
    pub(crate) fn reopen(&self, node: &mut TestNode) {
        Self::close(node);
        node.ledger = self.open();
    }

    /// Opens a fresh ledger for a node, with keyspace `links` in it.
    pub(crate) async fn start(&self, node: &str) -> TestNode {
        TestNode::with_links(self.open(), node).await
    }
}

/// The refusal, where one is due.
pub(crate) fn refusal_of<T>(answer: Result<T, LedgerError>) -> LedgerError {
    match answer {
        Ok(_) => panic!("this should have been refused"),
        Err(refusal) => refusal,
    }
}
