//! The embedded store: one SQLite file, one writer thread, many operations to a commit.
//!
//! `WAL` and `synchronous=FULL`: a commit is on the disk before anyone hears of it. Rows that carry
//! promises (all but claims) carry a CRC too, so that a rotten sector is an error and not a smaller
//! cursor. A disk that fails to sync is not asked a second time: the kernel may have
//! dropped the pages, and the retry would "succeed".

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use super::{Store, first_head, run_now};
use crate::{Grade, Halt, Ledger, LedgerError, LedgerId, Rows, Timestamp, lock::FileLock, ops::Operation};

#[cfg(test)]
mod full_disk;
mod rows;
mod schema;
mod verify;
mod writer;

use rows::SqliteRows;
use writer::{Job, Writer};

/// How errors call this store.
const SQLITE: &str = "sqlite";

#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    writer: Writer,
    /// Released last: fields drop in order, and the writer closes the file before.
    _lock: FileLock,
}

impl SqliteStore {
    /// Opens the ledger at `path`, or creates it with `id`. Says whether it was created.
    pub fn open(path: &Path, holder: &str, id: LedgerId, at: Timestamp) -> Result<(Self, bool), LedgerError> {
        let lock = Self::lock(path, holder)?;
        let (connection, created) = Self::prepare(path, id, at)?;
        let writer = Writer::start(connection);
        Ok((Self { path: path.to_owned(), writer, _lock: lock }, created))
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
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
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

fn connect(path: &Path, extra: OpenFlags) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | extra;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| failure("open", error))?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA busy_timeout = 2000;
             PRAGMA cache_size = -16384;
             PRAGMA wal_autocheckpoint = 1000;",
        )
        .map_err(|error| failure("open", error))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
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
        let (reply, answer) = oneshot::channel();
        self.writer.submit(Box::new(Waiting { op, outcome: None, reply })).await?;
        answer.await.map_err(|_| writer::stopped())?
    }

    async fn backup(&self, to: &Path, at: Timestamp) -> Result<(), LedgerError> {
        let (from, to) = (self.path.clone(), to.to_owned());
        let copied = tokio::task::spawn_blocking(move || copy_and_stamp(&from, &to, at));
        copied.await.map_err(|error| unavailable("backup", error))?
    }
}

/// An operation on its way through the writer.
struct Waiting<O: Operation> {
    op: O,
    outcome: Option<Result<O::Answer, LedgerError>>,
    reply: oneshot::Sender<Result<O::Answer, LedgerError>>,
}

impl<O: Operation> Job for Waiting<O> {
    fn run(&mut self, connection: &mut Connection) -> Option<String> {
        let op = &self.op;
        let outcome =
            writer::in_savepoint(connection, |connection| run_now(op.run(&mut SqliteRows { connection })));
        let broken = match &outcome {
            Err(LedgerError::Broken { detail, .. }) => Some(detail.clone()),
            _ => None,
        };
        self.outcome = Some(outcome);
        broken
    }

    fn settle(self: Box<Self>, committed: Result<(), LedgerError>) {
        let Self { outcome, reply, .. } = *self;
        let outcome = committed.and_then(|()| outcome.unwrap_or_else(|| Err(writer::stopped())));
        // The caller may have given up waiting; then its block is burned.
        let _ = reply.send(outcome);
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
        let source = connect(from, OpenFlags::empty())?;
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
