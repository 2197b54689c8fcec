//! The embedded store: one SQLite file, written by one thread, many operations to a commit.
//!
//! That thread is [`Sqlite`]'s, and whoever else keeps something in this file shares it. A commit is on the disk
//! before anyone hears of it. Rows that carry promises (all but claims) carry a CRC too, so that a rotten sector
//! is an error and not a smaller cursor.

use std::path::{Path, PathBuf};

use keymill_sql::{Fate, SqlError, Sqlite};
use rusqlite::Connection;

use super::{Store, first_head, run_now};
use crate::{Grade, Halt, Ledger, LedgerError, LedgerId, Rows, Timestamp, lock::FileLock, ops::Operation};

#[cfg(test)]
mod full_disk;
mod rows;
mod schema;
mod verify;

use rows::SqliteRows;

/// How errors call this store.
const SQLITE: &str = "sqlite";

#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    file: Sqlite,
}

impl SqliteStore {
    /// Opens the ledger at `path`, or creates it with `id`. Says whether it was created.
    pub fn open(path: &Path, holder: &str, id: LedgerId, at: Timestamp) -> Result<(Self, bool), LedgerError> {
        let lock = Self::lock(path, holder)?;
        let (connection, created) = Self::prepare(path, id, at)?;
        Ok((Self::start(path, connection, lock), created))
    }

    /// The lock is let go of once the file is closed.
    fn start(path: &Path, connection: Connection, lock: FileLock) -> Self {
        Self { path: path.to_owned(), file: Sqlite::start(path, connection, lock) }
    }

    /// The file, for what else is kept in it.
    pub fn file(&self) -> &Sqlite {
        &self.file
    }

    fn lock(path: &Path, holder: &str) -> Result<FileLock, LedgerError> {
        // By its real name: a link to a ledger is the same ledger.
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let path = real.as_path();
        let mut beside = path.as_os_str().to_owned();
        beside.push("-lock");
        FileLock::acquire(Path::new(&beside), &format!("the ledger {}", path.display()), holder)
    }

    fn prepare(path: &Path, id: LedgerId, at: Timestamp) -> Result<(Connection, bool), LedgerError> {
        let mut connection = Sqlite::connect(path).map_err(|error| failure("open", error))?;
        let created = schema::prepare(&mut connection, path, |connection| {
            let mut rows = SqliteRows { connection };
            let head = first_head(id, rows.incarnation_now(), at);
            run_now(rows.put_head(&head))
        })?;
        verify::verify(&mut SqliteRows { connection: &mut connection })?;
        Ok((connection, created))
    }

    /// As [`open`](Self::open), behind the trait.
    pub fn open_ledger(
        path: &Path,
        holder: &str,
        id: LedgerId,
        at: Timestamp,
    ) -> Result<(std::sync::Arc<dyn Ledger>, bool), LedgerError> {
        let (store, created) = Self::open(path, holder, id, at)?;
        Ok((std::sync::Arc::new(store), created))
    }
}

impl Store for SqliteStore {
    fn name(&self) -> &'static str {
        SQLITE
    }

    fn grade(&self) -> Grade {
        Grade::Strict
    }

    fn keeps_time(&self) -> bool {
        false
    }

    async fn transact<O: Operation>(&self, op: O) -> Result<O::Answer, LedgerError> {
        let job = move |connection: &mut Connection| {
            let outcome = run_now(op.run(&mut SqliteRows { connection }));
            (fate(&outcome), outcome)
        };
        // A caller may give up waiting; then its block is burned.
        self.file.write(job).await.unwrap_or_else(|error| Err(not_written(O::NAME, error)))
    }

    async fn backup(&self, to: &Path, at: Timestamp) -> Result<(), LedgerError> {
        let (from, to) = (self.path.clone(), to.to_owned());
        let copied = tokio::task::spawn_blocking(move || copy_and_stamp(&from, &to, at));
        copied.await.map_err(|error| unavailable("backup", error))?
    }
}

/// What becomes of an operation's writes.
fn fate<A>(outcome: &Result<A, LedgerError>) -> Fate {
    match outcome {
        Ok(_) => Fate::Keep,
        Err(LedgerError::Broken { detail, .. }) => Fate::Broken(detail.clone()),
        Err(error) if error.commits() => Fate::Keep,
        Err(_) => Fate::Undo,
    }
}

/// A copy of one moment, marked so that it opens halted.
fn copy_and_stamp(from: &Path, to: &Path, at: Timestamp) -> Result<(), LedgerError> {
    if to.exists() {
        return Err(unavailable("backup", format!("{} exists; choose another name", to.display())));
    }
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let _ = std::fs::remove_file(&partial);
    let copied = (|| {
        let source = Sqlite::connect_to_read(from).map_err(|error| failure("open", error))?;
        source
            .execute("VACUUM INTO ?1", [partial.to_string_lossy()])
            .map_err(|error| failure("backup", error))?;
        let mut copy = Connection::open(&partial).map_err(|error| failure("backup", error))?;
        let mut rows = SqliteRows { connection: &mut copy };
        let mut head = run_now(rows.head())?;
        let reason = "this is a backup copy; keys may have been issued since it was made".to_owned();
        head.halted = Some(Halt { reason, since: at });
        run_now(rows.put_head(&head))?;
        drop(copy);
        let file = std::fs::File::open(&partial).map_err(|error| unavailable("backup", error))?;
        file.sync_all().map_err(|error| unavailable("backup", error))?;
        std::fs::rename(&partial, to).map_err(|error| unavailable("backup", error))?;
        // The name must be on the disk too: a backup that a power cut can undo is none.
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = std::fs::File::open(folder).map_err(|error| unavailable("backup", error))?;
        folder.sync_all().map_err(|error| unavailable("backup", error))
    })();
    if copied.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    copied
}

fn unavailable(operation: &'static str, source: impl Into<crate::BoxError>) -> LedgerError {
    LedgerError::Unavailable { store: SQLITE, operation, source: source.into() }
}

/// The transaction itself failed, with everything in it.
fn not_written(operation: &'static str, error: SqlError) -> LedgerError {
    match error {
        SqlError::Broken(detail) => LedgerError::Broken { store: SQLITE, detail },
        SqlError::Unexpected(detail) => LedgerError::Corrupt { store: SQLITE, detail },
        other => unavailable(operation, other),
    }
}

/// Sorts SQLite's complaints by what the caller must do.
fn failure(operation: &'static str, error: rusqlite::Error) -> LedgerError {
    use rusqlite::ErrorCode::{
        ConstraintViolation, DatabaseCorrupt, NotADatabase, SystemIoFailure, TypeMismatch, Unknown,
    };
    let detail = format!("{operation}: {error}");
    match error.sqlite_error_code() {
        Some(SystemIoFailure) => LedgerError::Broken { store: SQLITE, detail },
        Some(DatabaseCorrupt | NotADatabase) => LedgerError::Corrupt { store: SQLITE, detail },
        // Our statements are always the same ones. If one of them is wrong now, or a value is not what
        // it was written as, the file has changed, and asking again does not help.
        Some(ConstraintViolation | TypeMismatch) | None => LedgerError::Corrupt { store: SQLITE, detail },
        Some(Unknown) if matches!(operation, "read" | "write" | "migrate") => {
            LedgerError::Corrupt { store: SQLITE, detail }
        }
        _ => LedgerError::Unavailable { store: SQLITE, operation, source: error.into() },
    }
}
