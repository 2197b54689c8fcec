//! Rows looked up by their key, on the thread that asks.
//!
//! A row that is in memory is read in less time than it takes to wake another thread. But a read may wait for the
//! disk, and with it everything that the thread serves: so after a few in a row that took long all go to the readers'
//! threads for a while, which leaves a disk that is slow, or a file that is not in memory yet, one such wait a second.
//!
//! A thread comes back to the connection that it had before: what that one read is still in its processor's cache. Between
//! two commits all of its reads share a snapshot, which costs as much as a read to take and to let go. A snapshot keeps
//! the log from being emptied, so the writer ends those that nobody is using before it writes.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{Sqlite, say};
use crate::{Access, Dialect, SqlError};

/// Connections, for as many threads as may read at once. Who finds none goes to the readers.
const CONNECTIONS_MAX: usize = 4;
/// What takes longer waited for the disk, or for its turn on a busy processor…
const LONG: Duration = Duration::from_millis(1);
/// … which does not happen so often in a row.
const LONG_ONES: u32 = 3;
const AWAY_FOR: Duration = Duration::from_secs(1);

pub(super) struct Near {
    path: PathBuf,
    /// Opened when they are first needed.
    readers: [Mutex<Option<Reader>>; CONNECTIONS_MAX],
    /// Commits so far. A snapshot that was taken before the last one is not read from.
    commits: AtomicU64,
    since: Instant,
    /// Reads that took long since the last that did not.
    long_ones: AtomicU32,
    /// Nobody reads here until then, in milliseconds after `since`.
    away_until_ms: AtomicU64,
}

impl Near {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            readers: Default::default(),
            commits: AtomicU64::new(0),
            since: Instant::now(),
            long_ones: AtomicU32::new(0),
            away_until_ms: AtomicU64::new(0),
        }
    }

    /// Runs `job` here and now. `None`: it was not read here, or failed, and is to be read elsewhere.
    pub(super) fn read<A>(&self, job: impl FnOnce(&mut Connection) -> Result<A, SqlError>) -> Option<A> {
        let begun = self.since.elapsed();
        if ms(begun) < self.away_until_ms.load(Ordering::Relaxed) {
            return None;
        }
        let read = self.on_a_connection(job)?;
        let ended = self.since.elapsed();
        if ended - begun <= LONG {
            // Written seldom: every thread reads what lies beside it.
            if self.long_ones.load(Ordering::Relaxed) > 0 {
                self.long_ones.store(0, Ordering::Relaxed);
            }
        } else if self.long_ones.fetch_add(1, Ordering::Relaxed) + 1 >= LONG_ONES {
            self.away_until_ms.store(ms(ended + AWAY_FOR), Ordering::Relaxed);
        }
        read.ok()
    }

    /// On this thread's own, or on the next that nobody uses.
    fn on_a_connection<A>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<A, SqlError>,
    ) -> Option<Result<A, SqlError>> {
        let (before, mine_and_behind) = self.readers.split_at(THIS_THREAD.get() % CONNECTIONS_MAX);
        let mut slot = mine_and_behind.iter().chain(before).find_map(unless_in_use)?;
        let mut reader = match slot.take() {
            Some(reader) => reader,
            None => Reader { connection: Sqlite::connect_to_read(&self.path).ok()?, as_of: None },
        };
        // Counted before the snapshot is taken, which may then be newer, and never older.
        reader.see(self.commits.load(Ordering::Acquire)).ok()?;
        let read = job(&mut reader.connection);
        // One that failed is not asked again.
        if read.is_ok() {
            *slot = Some(reader);
        }
        Some(read)
    }

    /// Something was committed, and nobody has heard of it yet: whoever does reads it.
    pub(super) fn committed(&self) {
        self.commits.fetch_add(1, Ordering::Release);
    }

    /// Nobody reads any more.
    pub(super) fn close(&self) {
        for slot in &self.readers {
            slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Ends the snapshots that nobody is reading from.
    pub(super) fn let_go(&self) {
        for mut slot in self.readers.iter().filter_map(unless_in_use) {
            slot.take_if(|reader| reader.let_go().is_err());
        }
    }
}

fn unless_in_use(slot: &Mutex<Option<Reader>>) -> Option<MutexGuard<'_, Option<Reader>>> {
    match slot.try_lock() {
        Ok(slot) => Some(slot),
        Err(TryLockError::Poisoned(slot)) => Some(slot.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

struct Reader {
    connection: Connection,
    /// How many commits its snapshot is known to show.
    as_of: Option<u64>,
}

impl Reader {
    /// Keeps the snapshot if it shows that many commits, or takes another.
    fn see(&mut self, commits: u64) -> rusqlite::Result<()> {
        if self.as_of == Some(commits) {
            return Ok(());
        }
        self.let_go()?;
        say(&self.connection, Dialect::Sqlite.begin(Access::Read))?;
        self.as_of = Some(commits);
        Ok(())
    }

    fn let_go(&mut self) -> rusqlite::Result<()> {
        if self.as_of.take().is_some() {
            say(&self.connection, "ROLLBACK")?;
        }
        Ok(())
    }
}

thread_local! {
    /// Threads are counted as they come.
    static THIS_THREAD: Cell<usize> = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        Cell::new(THREADS.fetch_add(1, Ordering::Relaxed))
    };
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_reads_that_took_long_all_go_elsewhere_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.db");
        let _writer = Sqlite::connect(&path).unwrap();
        let near = Near::new(&path);
        assert_eq!(near.read(|_| Ok(1)), Some(1));
        let failed = near.read(|_| Err::<(), _>(SqlError::Unavailable("no".to_owned())));
        assert_eq!(failed, None, "what fails is read elsewhere");
        for _ in 0..LONG_ONES {
            let slow = near.read(|_| {
                std::thread::sleep(2 * LONG);
                Ok(2)
            });
            assert_eq!(slow, Some(2), "it was read all the same");
        }
        assert_eq!(near.read(|_| Ok(3)), None);
        let opened = near.readers.iter().filter(|slot| slot.lock().unwrap().is_some()).count();
        assert_eq!(opened, 1, "one after another they share a connection");
    }

    #[test]
    fn reads_between_two_commits_share_a_snapshot_and_none_is_older_than_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.db");
        let writer = Sqlite::connect(&path).unwrap();
        writer.execute_batch("CREATE TABLE t (v); INSERT INTO t VALUES (1)").unwrap();
        let near = Near::new(&path);
        let count = || {
            let count = |connection: &mut Connection| {
                connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
            };
            near.read(|connection| Ok(count(connection).unwrap()))
        };
        assert_eq!(count(), Some(1));
        writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        assert_eq!(count(), Some(1), "they share it: nobody has heard of the second");
        near.committed();
        assert_eq!(count(), Some(2));

        let emptied = || {
            let busy = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
            writer.execute_batch("PRAGMA busy_timeout = 1; INSERT INTO t VALUES (3)").unwrap();
            writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], busy).unwrap() == 0
        };
        assert!(!emptied(), "the snapshot is in the way");
        near.let_go();
        assert!(emptied());
        near.committed();
        assert_eq!(count(), Some(4));
    }
}
