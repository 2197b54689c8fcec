//! The log that commits go to, kept from growing without end.
//!
//! SQLite begins it anew when nobody reads from it, and under reads that always overlap that moment never
//! comes. So once the log has grown this large the writer waits for whoever reads from it. That is brief: what
//! is in the log is in the file by then, and new readers read that.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use super::failure;
use crate::SqlError;

/// More: commits are held up less often. Less: the disk holds less twice.
const LOG_MAX: u64 = 64 << 20;

pub(super) struct Log {
    path: PathBuf,
    size_max: u64,
    /// At what size the writer waits. Higher than the most it may be, if someone reads for longer than is waited.
    wait_at: u64,
}

impl Log {
    pub(super) fn of(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self { path: path.into(), size_max: LOG_MAX, wait_at: LOG_MAX }
    }

    /// After a commit. Only [`SqlError::Broken`] is an error: the log is emptied later, or grows.
    pub(super) fn tend(&mut self, connection: &Connection) -> Result<(), SqlError> {
        let size = fs::metadata(&self.path).map_or(0, |log| log.len());
        if size < self.wait_at {
            return Ok(());
        }
        let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        self.wait_at = match emptied.map_err(|error| failure("checkpoint", error)) {
            Ok(0) => self.size_max,
            Err(broken @ SqlError::Broken(_)) => return Err(broken),
            Ok(_) | Err(_) => {
                tracing::warn!(
                    size_bytes = size,
                    "the log of the database cannot be emptied and is at {size} bytes"
                );
                size.saturating_add(self.size_max)
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Sqlite, *};

    #[test]
    fn the_log_is_emptied_once_nobody_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.db");
        let writer = Sqlite::connect(&path).unwrap();
        writer.execute_batch("PRAGMA busy_timeout = 1; CREATE TABLE t (v BLOB)").unwrap();
        let mut log = Log { size_max: 1 << 20, wait_at: 1 << 20, ..Log::of(&path) };
        let size = || fs::metadata(dir.path().join("test.db-wal")).unwrap().len();
        let write = || writer.execute("INSERT INTO t VALUES (zeroblob(2000000))", []).unwrap();

        let reader = Sqlite::connect_to_read(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        write();
        log.tend(&writer).unwrap();
        assert!(size() > 1 << 20, "somebody is reading it");
        let wait_at = log.wait_at;
        log.tend(&writer).unwrap();
        assert_eq!(log.wait_at, wait_at, "and is not waited for after every commit");

        reader.execute_batch("COMMIT").unwrap();
        write();
        log.tend(&writer).unwrap();
        assert_eq!(size(), 0);
        write();
        log.tend(&writer).unwrap();
        assert_eq!(size(), 0, "and again");
        assert_eq!(writer.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap(), 3);
    }
}
