//! The embedded engine keeps every promise.

use keymill_registry::{
    Bound, Registry,
    conformance::{Bench, requests::bind},
};
use keymill_sql::{Database, Sqlite};
use tempfile::TempDir;

struct InFile {
    database: Database,
    _dir: TempDir,
}

async fn open() -> InFile {
    let dir = TempDir::new().expect("a temporary directory");
    let sqlite = Sqlite::open(&dir.path().join("keymill.db")).expect("a new file");
    InFile { database: Database::embedded(sqlite), _dir: dir }
}

impl Bench for InFile {
    async fn registry(&self) -> Registry {
        Registry::new(self.database.clone(), true)
    }
}

mod sqlite {
    keymill_registry::conformance!(super::open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_bound_is_there_when_the_file_is_opened_again() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("keymill.db");
    let open = || Registry::new(Database::embedded(Sqlite::open(&path).unwrap()), true);
    let bind = bind("k", "https://a.example/");
    let Bound::New(entry) = open().bind(bind.clone()).await.unwrap() else { panic!("it is free") };
    assert_eq!(open().bind(bind).await.unwrap(), Bound::Same(entry));
}
