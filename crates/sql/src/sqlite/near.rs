//! Rows looked up by their key, on the thread that asks.
//!
//! A row that is in memory is read in less time than it takes to wake another thread. But a read may wait for the
//! disk, and with it everything that the thread serves: so after a few in a row that took long all go to the readers'
//! threads for a while, which leaves a disk that is slow, or a file that is not in memory yet, one such wait a second.
//!
//! A thread comes back to the connection that it had before: what that one read is still in its processor's cache.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    sync::{
        Mutex, TryLockError,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::Sqlite;
use crate::SqlError;

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
    connections: [Mutex<Option<Connection>>; CONNECTIONS_MAX],
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
            connections: Default::default(),
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
    fn on_a_connection<A>(&self, job: impl FnOnce(&mut Connection) -> A) -> Option<A> {
        let (before, mine_and_behind) = self.connections.split_at(THIS_THREAD.get() % CONNECTIONS_MAX);
        let mut slot = mine_and_behind.iter().chain(before).find_map(|slot| match slot.try_lock() {
            Ok(slot) => Some(slot),
            Err(TryLockError::Poisoned(slot)) => Some(slot.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })?;
        if slot.is_none() {
            *slot = Some(Sqlite::connect_to_read(&self.path).ok()?);
        }
        slot.as_mut().map(job)
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
        let opened = near.connections.iter().filter(|slot| slot.lock().unwrap().is_some()).count();
        assert_eq!(opened, 1, "one after another they share a connection");
    }
}
