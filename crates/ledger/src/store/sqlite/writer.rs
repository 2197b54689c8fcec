//! One thread writes. Whatever waits while it commits goes into the next commit together.

use std::thread;

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::{SQLITE, failure};
use crate::LedgerError;

/// Operations that may wait for the writer before callers are held back.
const QUEUE_MAX: usize = 4096;
/// Operations in one commit. More: fewer syncs. Fewer: the first of them waits less.
const COMMIT_MAX: usize = 1024;

/// An operation and the caller who waits for it.
pub(super) trait Job: Send {
    /// Inside the transaction. `Some`: the disk failed, and nothing after it may be trusted.
    fn run(&mut self, connection: &mut Connection) -> Option<String>;
    /// Once the transaction's fate is known, whether or not `run` was called.
    fn settle(self: Box<Self>, committed: Result<(), LedgerError>);
}

#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let thread = thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || write(connection, jobs))
            .expect("a process that cannot start a thread cannot keep a ledger");
        Self { queue: Some(queue), thread: Some(thread) }
    }

    pub(super) async fn submit(&self, job: Box<dyn Job>) -> Result<(), LedgerError> {
        let queue = self.queue.as_ref().expect("only drop takes the queue away");
        queue.send(job).await.map_err(|_| stopped())
    }
}

impl Drop for Writer {
    /// Lets the thread finish and close the file, so that the lock is released after it.
    fn drop(&mut self) {
        self.queue.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The writer is gone: an assertion failed in it, or the store is being dropped.
pub(super) fn stopped() -> LedgerError {
    LedgerError::Broken { store: SQLITE, detail: "its writer stopped".to_owned() }
}

fn write(mut connection: Connection, mut jobs: mpsc::Receiver<Box<dyn Job>>) {
    let mut broken: Option<String> = None;
    while let Some(first) = jobs.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < COMMIT_MAX {
            let Ok(job) = jobs.try_recv() else { break };
            batch.push(job);
        }
        let committed = match &broken {
            Some(detail) => Err(LedgerError::Broken { store: SQLITE, detail: detail.clone() }),
            None => commit(&mut connection, &mut batch),
        };
        if let Err(LedgerError::Broken { detail, .. }) = &committed
            && broken.is_none()
        {
            tracing::error!(detail, "the ledger's disk failed; nothing more will be written");
            broken = Some(detail.clone());
        }
        for job in batch {
            job.settle(committed.as_ref().map(|_| ()).map_err(again));
        }
    }
}

fn commit(connection: &mut Connection, batch: &mut [Box<dyn Job>]) -> Result<(), LedgerError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| failure("begin", error))?;
    let mut broken = None;
    for job in batch.iter_mut() {
        broken = job.run(connection);
        // SQLite may end the transaction by itself, when the disk is full for one. What comes after
        // would then be committed alone, and what came before is gone.
        if broken.is_some() || connection.is_autocommit() {
            break;
        }
    }
    let committed = match broken {
        Some(detail) => Err(LedgerError::Broken { store: SQLITE, detail }),
        None => connection.execute_batch("COMMIT").map_err(|error| failure("commit", error)),
    };
    // Nothing of a failed commit may linger for the next one to commit.
    if committed.is_err() && !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err() {
        let detail = "a failed commit could not be rolled back".to_owned();
        return Err(LedgerError::Broken { store: SQLITE, detail });
    }
    committed
}

/// The same error for each caller of a batch.
fn again(error: &LedgerError) -> LedgerError {
    match error {
        LedgerError::Broken { store, detail } => LedgerError::Broken { store, detail: detail.clone() },
        LedgerError::Corrupt { store, detail } => LedgerError::Corrupt { store, detail: detail.clone() },
        other => {
            LedgerError::Unavailable { store: SQLITE, operation: "commit", source: other.to_string().into() }
        }
    }
}

/// Runs `body` so that its failure undoes its own writes and nobody else's.
pub(super) fn in_savepoint<A>(
    connection: &mut Connection,
    body: impl FnOnce(&mut Connection) -> Result<A, LedgerError>,
) -> Result<A, LedgerError> {
    connection.execute_batch("SAVEPOINT op").map_err(|error| failure("savepoint", error))?;
    let outcome = body(connection);
    let keep = outcome.as_ref().map_or_else(LedgerError::commits, |_| true);
    let end = if keep { "RELEASE op" } else { "ROLLBACK TO op; RELEASE op" };
    match connection.execute_batch(end) {
        Ok(()) => outcome,
        // The whole transaction went, the savepoint with it; what the body says tells more.
        Err(error) if connection.is_autocommit() => outcome.and_then(|_| Err(failure("savepoint", error))),
        // Half of an operation may be in the transaction, and must not be committed with the rest.
        Err(error) => Err(LedgerError::Broken { store: SQLITE, detail: format!("savepoint: {error}") }),
    }
}
