//! The embedded engine keeps every promise.

use keymill_registry::{Registry, conformance::Bench};
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
