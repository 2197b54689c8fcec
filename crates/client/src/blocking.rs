//! The same for programs without async: a runtime of our own, on a thread of its own, carries connections and
//! refills.
//!
//! Takes from a cache that holds keys, and IDs, do not touch the runtime. Not for use inside another runtime:
//! calls that would have to wait panic there, as everything that blocks does in tokio.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::runtime::{Builder, Runtime};

use crate::{
    builder::ClientBuilder,
    error::Error,
    keyspace::{as_text, text},
    stats::Stats,
};

/// A [`Client`](crate::Client) whose calls block.
#[derive(Debug, Clone)]
pub struct Client {
    inner: crate::Client,
    thread: Arc<Thread>,
}

/// A [`Keyspace`](crate::Keyspace) whose calls block.
#[derive(Debug, Clone)]
pub struct Keyspace {
    inner: crate::Keyspace,
    thread: Arc<Thread>,
}

/// A [`Snowflake`](crate::Snowflake) whose calls block.
#[derive(Debug, Clone)]
pub struct Snowflake {
    inner: crate::Snowflake,
    thread: Arc<Thread>,
}

/// Where background work is done.
#[derive(Debug)]
struct Thread(Option<Runtime>);

impl Thread {
    fn start() -> Result<Self, Error> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("keymill").enable_all().build();
        let failed = |error| Error::Settings { setting: "build", detail: format!("needs a thread: {error}") };
        runtime.map(|runtime| Self(Some(runtime))).map_err(failed)
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("it is there until it is dropped").block_on(work)
    }
}

impl Drop for Thread {
    /// Does not wait for anything: whoever drops us may be inside another runtime.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl ClientBuilder {
    /// Builds a client whose calls block, with a thread of its own.
    pub fn build_blocking(self) -> Result<Client, Error> {
        let thread = Arc::new(Thread::start()?);
        let inner = thread.run(async { self.build() })?;
        Ok(Client { inner, thread })
    }
}

impl Client {
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// See [`Client::keyspace`](crate::Client::keyspace).
    pub fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        Ok(Keyspace { inner: self.inner.keyspace(name)?, thread: self.thread.clone() })
    }

    /// See [`Client::snowflake`](crate::Client::snowflake).
    pub fn snowflake(&self, name: &str) -> Result<Snowflake, Error> {
        let inner = self.thread.run(self.inner.snowflake(name))?;
        Ok(Snowflake { inner, thread: self.thread.clone() })
    }

    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// See [`Client::close`](crate::Client::close).
    pub fn close(&self) -> Result<(), Error> {
        self.thread.run(self.inner.close())
    }
}

impl Keyspace {
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// One key. Waits until the deadline where the cache is empty.
    pub fn take(&self) -> Result<String, Error> {
        self.with_key(text)
    }

    /// Appends one key to `out`, which spares an allocation.
    pub fn take_into(&self, out: &mut String) -> Result<(), Error> {
        self.with_key(|key| out.push_str(as_text(key)))
    }

    /// Hands one key, which is ASCII, to `use_it`: the shortest way there is.
    #[inline]
    pub fn with_key<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        match self.inner.try_with_key(use_it) {
            Ok(used) => Ok(used),
            Err(use_it) => self.thread.run(self.inner.with_key(use_it)),
        }
    }

    /// See [`Keyspace::take_number`](crate::Keyspace::take_number).
    pub fn take_number(&self) -> Result<u64, Error> {
        match self.inner.try_take_number() {
            Some(number) => Ok(number),
            None => self.thread.run(self.inner.take_number()),
        }
    }

    /// See [`Keyspace::take_many`](crate::Keyspace::take_many).
    pub fn take_many(&self, count: u32) -> Result<Vec<String>, Error> {
        self.thread.run(self.inner.take_many(count))
    }

    /// Keys in the cache: what is burned if the process ends now.
    pub fn ready(&self) -> u64 {
        self.inner.ready()
    }

    /// See [`Keyspace::close`](crate::Keyspace::close).
    pub fn close(&self) -> u64 {
        self.inner.close()
    }
}

impl Snowflake {
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// See [`Snowflake::next_id`](crate::Snowflake::next_id).
    #[inline]
    pub fn next_id(&self) -> Result<u64, Error> {
        match self.inner.try_next_id() {
            Ok(id) => Ok(id),
            Err(_) => self.thread.run(self.inner.next_id()),
        }
    }

    /// See [`Snowflake::next_ids`](crate::Snowflake::next_ids).
    pub fn next_ids(&self, count: u32) -> Result<Vec<u64>, Error> {
        self.thread.run(self.inner.next_ids(count))
    }

    /// Which worker makes the IDs at the moment.
    pub fn worker(&self) -> Option<u32> {
        self.inner.worker()
    }

    /// How long IDs can be made without a word from a server.
    pub fn window_left(&self) -> Duration {
        self.inner.window_left()
    }

    /// Makes no more IDs, and gives the worker back to the server.
    pub fn close(&self) -> Result<(), Error> {
        self.thread.run(self.inner.close())
    }
}
