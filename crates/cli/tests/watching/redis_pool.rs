//! A Redis list with those who take from it and a filler, as an application without Keymill has it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use keymill_engines::redis::{FORGETFUL, Redis};

pub(crate) const KEY: &str = "links";
/// Keys that the filler keeps there.
pub(crate) const CAPACITY: u64 = 10_000;
const TICK: Duration = Duration::from_millis(20);

/// Who takes and who fills, at rates that a test may change.
#[derive(Debug)]
pub(crate) struct Pool {
    pub redis: Redis,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Keys a tick.
    takes: AtomicU64,
    fills: AtomicU64,
    /// Keys that somebody takes at once, once.
    burst: AtomicU64,
    failed: AtomicU64,
    over: AtomicBool,
}

impl Pool {
    /// A full list, a filler that keeps it full, and nobody who takes.
    pub(crate) fn start() -> Self {
        let redis = Redis::start(FORGETFUL).unwrap();
        let shared = Arc::new(Shared { fills: AtomicU64::new(500), ..Shared::default() });
        push(&mut connect(redis.port()).unwrap(), CAPACITY).unwrap();
        let thread = thread::spawn({
            let (shared, port) = (shared.clone(), redis.port());
            move || live(&shared, port)
        });
        Self { redis, shared, thread: Some(thread) }
    }

    pub(crate) fn target(&self) -> String {
        format!("redis://127.0.0.1:{}/0?key={KEY}", self.redis.port())
    }

    pub(crate) fn takes(&self, keys_a_tick: u64) {
        self.shared.takes.store(keys_a_tick, Ordering::Relaxed);
    }

    /// Somebody takes so many at once.
    pub(crate) fn burst(&self, keys: u64) {
        self.shared.burst.store(keys, Ordering::Relaxed);
    }

    /// 0: the filler is dead.
    pub(crate) fn fills(&self, keys_a_tick: u64) {
        self.shared.fills.store(keys_a_tick, Ordering::Relaxed);
    }

    /// Pushes that Redis refused.
    pub(crate) fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }

    pub(crate) fn level(&self) -> u64 {
        self.redis.cli(&["llen", KEY]).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn connect(port: u16) -> redis::RedisResult<redis::Connection> {
    redis::Client::open(("127.0.0.1", port))?.get_connection_with_timeout(Duration::from_secs(1))
}

fn push(connection: &mut redis::Connection, keys: u64) -> redis::RedisResult<()> {
    let keys: Vec<String> = (0..keys).map(|key| format!("key{key:04}")).collect();
    redis::cmd("RPUSH").arg(KEY).arg(keys).query(connection)
}

fn live(shared: &Shared, port: u16) {
    let mut connection = None;
    while !shared.over.load(Ordering::Relaxed) {
        thread::sleep(TICK);
        connection = connection.or_else(|| connect(port).ok());
        let Some(open) = &mut connection else { continue };
        let (takes, fills) = (shared.takes.load(Ordering::Relaxed), shared.fills.load(Ordering::Relaxed));
        let takes = takes.max(1) + shared.burst.swap(0, Ordering::Relaxed);
        let taken: redis::RedisResult<redis::Value> = redis::cmd("LPOP").arg(KEY).arg(takes).query(open);
        let level: redis::RedisResult<u64> = redis::cmd("LLEN").arg(KEY).query(open);
        let Ok(level) = level else {
            connection = None;
            continue;
        };
        let lacks = CAPACITY.saturating_sub(level).min(fills);
        if taken.is_ok() && lacks > 0 && push(open, lacks).is_err() {
            shared.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
