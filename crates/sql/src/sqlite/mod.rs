//! The embedded engine: one SQLite file, one thread that writes it, many jobs to a commit.
//!
//! `WAL` and `synchronous=FULL`: a commit is on the disk before anyone hears of it. Whoever writes the file in
//! this process does so through one [`Sqlite`], so that nobody waits for SQLite's file lock, and whatever waits
//! for the disk waits together. A disk that fails to sync is not asked a second time: the kernel may have
//! dropped the pages, and the retry would "succeed".

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    thread,
};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Semaphore, oneshot};

use crate::SqlError;

mod embedded;
mod failure;
mod log;
mod near;
mod readers;
mod rows;
mod writer;

use failure::{failure, reading};
use log::Log;
use near::Near;
use readers::Readers;
pub(crate) use rows::SqliteRow;
use writer::Writer;

/// How long SQLite waits for somebody else's lock on the file: another program's, never ours.
const BUSY_TIMEOUT_MS: u32 = 2_000;
/// Prepared statements that a connection keeps.
const STATEMENTS_KEPT: usize = 256;
/// What the writer keeps of the file in memory, and each reader.
const WRITER_CACHE_KIB: u32 = 65_536;
const READER_CACHE_KIB: u32 = 8_192;
/// Pages in the log after which they are written into the file: 8 MiB. More: a page that changes often is written less
/// often. Fewer: the disk holds less twice.
const LOG_PAGES: u32 = 2_000;

/// A handle to one file; clones share its writer. The file is closed when the last of them is dropped.
#[derive(Clone)]
pub struct Sqlite {
    inner: Arc<Inner>,
}

/// Fields drop in order: whoever closes the file last tidies it up, which only the writer can.
struct Inner {
    path: PathBuf,
    near: Arc<Near>,
    readers: OnceLock<Readers>,
    writer: Writer,
    works: Arc<Semaphore>,
}

/// What becomes of a job's own writes once it has run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Keep,
    Undo,
    /// The disk failed, and nothing after it may be trusted.
    Broken(String),
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Sqlite {
    /// Opens the file, or makes it. There must be no other handle to it, in this process or another.
    pub fn open(path: &Path) -> Result<Self, SqlError> {
        let connection = Self::connect(path).map_err(|error| failure("open", error))?;
        Ok(Self::start(path, connection, ()))
    }

    /// A connection as the writer has it. What it would need to undo one job of many it keeps in memory: on the disk
    /// that would be a copy of every page a job changes. For whoever prepares the file before it is [started](Self::start).
    pub fn connect(path: &Path) -> rusqlite::Result<Connection> {
        let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA cache_size = -{WRITER_CACHE_KIB};
             PRAGMA wal_autocheckpoint = {LOG_PAGES};
             PRAGMA temp_store = MEMORY;"
        ))?;
        Ok(connection)
    }

    /// A connection that only reads, to a file that is there.
    pub fn connect_to_read(path: &Path) -> rusqlite::Result<Connection> {
        let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.execute_batch(&format!("PRAGMA cache_size = -{READER_CACHE_KIB};"))?;
        Ok(connection)
    }

    /// Starts the writer on a connection to `path`. `keep` is let go of once the file is closed.
    pub fn start(path: &Path, connection: Connection, keep: impl Send + 'static) -> Self {
        let near = Arc::new(Near::new(path));
        let writer = Writer::start(connection, Log::of(path), near.clone(), keep);
        let works = Arc::new(Semaphore::new(embedded::WORKS_MAX));
        let path = path.to_owned();
        Self { inner: Arc::new(Inner { path, near, readers: OnceLock::new(), writer, works }) }
    }

    /// Runs `job` inside a transaction that others share, and answers once that is on the disk. What the job
    /// wrote is kept or undone as it says, whatever becomes of the others. [`SqlError::Broken`] can have taken
    /// effect; no other error has.
    pub async fn write<A, J>(&self, job: J) -> Result<A, SqlError>
    where
        A: Send + 'static,
        J: FnOnce(&mut Connection) -> (Fate, A) + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.inner.writer.submit(job, reply).await?;
        answer.await.map_err(|_| writer::stopped())?
    }

    /// Runs `job` on a connection that only reads, and sees everything that was committed before this call.
    pub(crate) async fn read<A, J>(&self, job: J) -> Result<A, SqlError>
    where
        A: Send + 'static,
        J: FnOnce(&mut Connection) -> Result<A, SqlError> + Send + 'static,
    {
        self.inner.writer.check()?;
        let readers = self.inner.readers.get_or_init(|| Readers::start(&self.inner.path));
        readers.read(job).await
    }
}

/// What a thread says between the statements of its jobs.
fn say(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Waits until a thread has closed the file. Whose job held the last handle does not wait for itself.
fn join(thread: thread::JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}

fn open(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    // A connection stays on one thread at a time, so SQLite need not lock it.
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.execute_batch(&format!("PRAGMA busy_timeout = {BUSY_TIMEOUT_MS};"))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(connection)
}
