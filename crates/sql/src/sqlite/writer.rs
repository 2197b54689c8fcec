//! One thread writes. Whatever waits while it commits goes into the next commit together.

use std::{
    sync::{Arc, OnceLock},
    thread,
};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{Fate, failure, join, log::Log, near::Near, say};
use crate::{Access, Dialect, SqlError};

/// Jobs that may wait for the writer before callers are held back.
const QUEUE_MAX: usize = 4096;
/// Jobs in one commit. More: fewer syncs. Fewer: the first of them waits less.
const COMMIT_MAX: usize = 1024;

/// Something to do in a transaction, and the caller who waits for it.
trait Job: Send {
    /// Inside the transaction. An error: nothing of the transaction may be committed.
    fn run(&mut self, connection: &mut Connection) -> Result<(), SqlError>;
    /// Once the transaction's fate is known, whether or not `run` was called.
    fn settle(self: Box<Self>, committed: Result<(), SqlError>);
}

pub(super) struct Writer {
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<thread::JoinHandle<()>>,
    /// How the disk failed, once it has.
    broken: Arc<OnceLock<String>>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        log: Log,
        near: Arc<Near>,
        keep: impl Send + 'static,
    ) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let broken = Arc::new(OnceLock::new());
        let told = broken.clone();
        let thread = thread::Builder::new()
            .name("sqlite".to_owned())
            .spawn(move || {
                write(connection, log, &near, jobs, &told);
                drop(keep);
            })
            .expect("a process that cannot start a thread cannot keep a ledger");
        Self { queue: Some(queue), thread: Some(thread), broken }
    }

    /// Refuses on behalf of a writer that is broken.
    pub(super) fn check(&self) -> Result<(), SqlError> {
        self.broken.get().map_or(Ok(()), |detail| Err(SqlError::Broken(detail.clone())))
    }

    pub(super) async fn submit<A, B>(
        &self,
        body: B,
        reply: oneshot::Sender<Result<A, SqlError>>,
    ) -> Result<(), SqlError>
    where
        A: Send + 'static,
        B: FnOnce(&mut Connection) -> (Fate, A) + Send + 'static,
    {
        let job = Box::new(Waiting { body: Some(body), outcome: None, reply });
        let queue = self.queue.as_ref().expect("only drop takes the queue away");
        queue.send(job).await.map_err(|_| stopped())
    }
}

impl Drop for Writer {
    /// Lets the thread finish and close the file.
    fn drop(&mut self) {
        self.queue.take();
        self.thread.take().into_iter().for_each(join);
    }
}

/// The writer is gone: an assertion failed in it.
pub(super) fn stopped() -> SqlError {
    SqlError::Broken("its writer stopped".to_owned())
}

fn undone() -> SqlError {
    SqlError::Unavailable("SQLite undid the transaction, as it does when the disk is full".to_owned())
}

struct Waiting<A, B> {
    body: Option<B>,
    outcome: Option<Result<A, SqlError>>,
    reply: oneshot::Sender<Result<A, SqlError>>,
}

impl<A, B> Job for Waiting<A, B>
where
    A: Send,
    B: FnOnce(&mut Connection) -> (Fate, A) + Send,
{
    fn run(&mut self, connection: &mut Connection) -> Result<(), SqlError> {
        let Some(body) = self.body.take() else { return Ok(()) };
        match in_savepoint(connection, body) {
            Err(broken @ SqlError::Broken(_)) => Err(broken),
            outcome => {
                self.outcome = Some(outcome);
                Ok(())
            }
        }
    }

    fn settle(self: Box<Self>, committed: Result<(), SqlError>) {
        let Self { outcome, reply, .. } = *self;
        let outcome = committed.and_then(|()| outcome.unwrap_or_else(|| Err(stopped())));
        // The caller may have given up waiting; what was committed stays.
        let _ = reply.send(outcome);
    }
}

fn write(
    mut connection: Connection,
    mut log: Log,
    near: &Near,
    mut jobs: mpsc::Receiver<Box<dyn Job>>,
    broken: &OnceLock<String>,
) {
    let break_down = |done: &Result<(), SqlError>| {
        if let Err(SqlError::Broken(detail)) = done
            && broken.set(detail.clone()).is_ok()
        {
            tracing::error!(detail, "the disk of the database failed; nothing more will be written");
        }
    };
    while let Some(first) = jobs.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < COMMIT_MAX {
            let Ok(job) = jobs.try_recv() else { break };
            batch.push(job);
        }
        let committed = match broken.get() {
            Some(detail) => Err(SqlError::Broken(detail.clone())),
            None => {
                near.let_go();
                commit(&mut connection, &mut batch)
            }
        };
        near.committed();
        break_down(&committed);
        for job in batch {
            job.settle(committed.clone());
        }
        if broken.get().is_none() {
            near.let_go();
            break_down(&log.tend(&connection));
        }
    }
    // Whoever closes the file last tidies it up, and only we can.
    near.close();
}

fn commit(connection: &mut Connection, batch: &mut [Box<dyn Job>]) -> Result<(), SqlError> {
    let begin = Dialect::Sqlite.begin(Access::Write);
    say(connection, begin).map_err(|error| failure("begin", error))?;
    let ran = batch.iter_mut().try_for_each(|job| {
        job.run(connection)?;
        // SQLite may end the transaction by itself, when the disk is full for one. What comes after
        // would then be committed alone, and what came before is gone.
        if connection.is_autocommit() { Err(undone()) } else { Ok(()) }
    });
    let committed = ran.and_then(|()| say(connection, "COMMIT").map_err(|error| failure("commit", error)));
    // Nothing of a failed commit may linger for the next one to commit.
    if committed.is_err() && !connection.is_autocommit() && say(connection, "ROLLBACK").is_err() {
        return Err(SqlError::Broken("a failed commit could not be rolled back".to_owned()));
    }
    committed
}

/// Runs `body` so that its failure undoes its own writes and nobody else's.
fn in_savepoint<A>(
    connection: &mut Connection,
    body: impl FnOnce(&mut Connection) -> (Fate, A),
) -> Result<A, SqlError> {
    say(connection, "SAVEPOINT job").map_err(|error| failure("savepoint", error))?;
    let (fate, answer) = body(connection);
    let ended = match fate {
        Fate::Keep => say(connection, "RELEASE job"),
        Fate::Undo => say(connection, "ROLLBACK TO job").and_then(|()| say(connection, "RELEASE job")),
        Fate::Broken(detail) => return Err(SqlError::Broken(detail)),
    };
    match ended {
        Ok(()) => Ok(answer),
        // The whole transaction went, the savepoint with it, which is said to all.
        Err(_) if connection.is_autocommit() => Ok(answer),
        // Half of a job may be in the transaction, and must not be committed with the rest.
        Err(error) => Err(SqlError::Broken(format!("savepoint: {error}"))),
    }
}
