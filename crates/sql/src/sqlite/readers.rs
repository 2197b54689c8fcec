//! A few threads read. None of them is a thread of the runtime, because a read may wait for the disk.
//!
//! Whatever is queued when a thread wakes up is shared out, and one snapshot serves a thread's whole share: it
//! is taken after all of these were asked for, so each sees everything that was committed before it. The thread that
//! fell asleep last is woken first: it has the most of the file in memory, and where one is enough one does it all.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    thread::{self, Thread},
};

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::{Sqlite, join, reading, say};
use crate::{Access, Dialect, SqlError};

const READERS: usize = 4;
/// Reads that may wait before callers are held back.
const QUEUE_MAX: usize = 4096;
/// Reads that one thread takes at a time. More: fewer snapshots. Fewer: less to wait for behind a slow one.
const SHARE_MAX: usize = 32;

type Job = Box<dyn FnOnce(Result<&mut Connection, SqlError>) + Send>;

pub(super) struct Readers {
    queue: Arc<Queue>,
    room: Arc<Semaphore>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    asleep: Vec<Thread>,
    closing: bool,
}

impl Readers {
    pub(super) fn start(path: &Path) -> Self {
        let queue = Arc::new(Queue::default());
        let threads = (0..READERS)
            .map(|_| {
                let (queue, path) = (queue.clone(), path.to_owned());
                thread::Builder::new()
                    .name("sqlite-reader".to_owned())
                    .spawn(move || Reader { path, connection: None }.serve(&queue))
                    .expect("a process that cannot start a thread cannot serve")
            })
            .collect();
        Self { queue, room: Arc::new(Semaphore::new(QUEUE_MAX)), threads }
    }

    pub(super) async fn read<A, J>(&self, job: J) -> Result<A, SqlError>
    where
        A: Send + 'static,
        J: FnOnce(&mut Connection) -> Result<A, SqlError> + Send + 'static,
    {
        let gone = || SqlError::Unavailable("the reader stopped".to_owned());
        let room = self.room.clone().acquire_owned().await.map_err(|_| gone())?;
        let (reply, answer) = oneshot::channel();
        self.queue.push(Box::new(move |connection| {
            drop(room);
            // The caller may have given up waiting.
            let _ = reply.send(connection.and_then(job));
        }));
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Readers {
    /// Lets the threads close the file, so that the writer is the last to.
    fn drop(&mut self) {
        self.queue.close();
        self.threads.drain(..).for_each(join);
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this")
    }

    fn push(&self, job: Job) {
        let mut state = self.state();
        state.jobs.push_back(job);
        let sleeper = state.asleep.pop();
        drop(state);
        if let Some(sleeper) = sleeper {
            sleeper.unpark();
        }
    }

    fn close(&self) {
        let mut state = self.state();
        state.closing = true;
        state.asleep.drain(..).for_each(|sleeper| sleeper.unpark());
    }

    /// Waits for reads and takes a share of them; nothing once the queue is closed and empty.
    fn take(&self, share: &mut Vec<Job>) -> bool {
        let mut state = self.state();
        while state.jobs.is_empty() {
            if state.closing {
                return false;
            }
            let this = thread::current();
            state.asleep.push(this.clone());
            drop(state);
            thread::park();
            state = self.state();
            // It may have woken up by itself, and nobody is to be sent to wake it again.
            state.asleep.retain(|sleeper| sleeper.id() != this.id());
        }
        let size = state.jobs.len().div_ceil(READERS).min(SHARE_MAX);
        share.extend(state.jobs.drain(..size));
        true
    }
}

struct Reader {
    path: PathBuf,
    /// Opened when it is first needed.
    connection: Option<Connection>,
}

impl Reader {
    fn serve(mut self, queue: &Queue) {
        let mut share = Vec::new();
        while queue.take(&mut share) {
            match self.begin() {
                Ok(connection) => share.drain(..).for_each(|job| job(Ok(connection))),
                Err(error) => share.drain(..).for_each(|job| job(Err(error.clone()))),
            }
            self.end();
        }
    }

    fn begin(&mut self) -> Result<&mut Connection, SqlError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => Sqlite::connect_to_read(&self.path).map_err(|error| reading("open", error))?,
        };
        say(&connection, Dialect::Sqlite.begin(Access::Read)).map_err(|error| reading("begin", error))?;
        Ok(self.connection.insert(connection))
    }

    /// A connection that cannot let go of its snapshot is closed: it would keep the log from being emptied.
    fn end(&mut self) {
        self.connection.take_if(|connection| say(connection, "ROLLBACK").is_err());
    }
}
