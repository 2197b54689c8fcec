//! The embedded store keeps every promise.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use keymill_ledger::{
    Grade, LedgerError, LedgerId, SqliteStore, Store, Timestamp,
    conformance::{Bench, Rewinds, START},
    ops::Operation,
};
use tempfile::TempDir;
use tokio::sync::RwLock;

/// A store that can be closed under its handles and opened again on other files.
#[derive(Debug)]
struct Reopened {
    path: PathBuf,
    store: RwLock<Option<SqliteStore>>,
}

impl Reopened {
    fn open(path: &Path) -> SqliteStore {
        let id = LedgerId("test".to_owned());
        SqliteStore::open(path, "the suite", id, START).expect("the file is good").0
    }

    /// Runs `files` while nobody has the ledger open, so that all of it is in the one file.
    async fn while_closed<T>(&self, files: impl FnOnce(&Path) -> io::Result<T>) -> T {
        let mut store = self.store.write().await;
        *store = None;
        let done = files(&self.path).expect("the directory is the test's own");
        *store = Some(Self::open(&self.path));
        done
    }
}

impl Store for Reopened {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn grade(&self) -> Grade {
        Grade::Strict
    }

    fn keeps_time(&self) -> bool {
        false
    }

    async fn transact<O: Operation>(&self, op: O) -> Result<O::Answer, LedgerError> {
        let store = self.store.read().await;
        store.as_ref().expect("only `while_closed` takes it away").transact(op).await
    }

    async fn backup(&self, to: &Path, at: Timestamp) -> Result<(), LedgerError> {
        let store = self.store.read().await;
        Store::backup(store.as_ref().expect("only `while_closed` takes it away"), to, at).await
    }
}

struct Sqlite {
    store: Arc<Reopened>,
    /// Removed after the store has closed its files: fields drop in order.
    _dir: TempDir,
}

async fn open() -> Sqlite {
    let dir = tempfile::tempdir().expect("a directory to test in");
    let path = dir.path().join("ledger.db");
    let store = RwLock::new(Some(Reopened::open(&path)));
    Sqlite { store: Arc::new(Reopened { path, store }), _dir: dir }
}

impl Bench for Sqlite {
    type Store = Reopened;

    async fn handle(&self) -> Arc<Reopened> {
        self.store.clone()
    }

    async fn pass(&self, _millis: u64) {}
}

impl Rewinds for Sqlite {
    type Moment = Vec<u8>;

    async fn moment(&self) -> Vec<u8> {
        self.store.while_closed(|path| fs::read(path)).await
    }

    async fn rewind(&self, to: Vec<u8>) {
        self.store.while_closed(|path| fs::write(path, to)).await;
    }
}

mod sqlite {
    keymill_ledger::conformance!(super::open, rewinds);
}
