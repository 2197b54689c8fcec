//! The one place that reads time.

use std::{
    fmt,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use keymill_ledger::Timestamp;

pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// What people call the time. It may jump either way; nothing unique is derived from it alone.
    fn wall(&self) -> Timestamp;
    /// Time that only goes forward, from an arbitrary start.
    fn elapsed(&self) -> Duration;
}

#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    #[expect(clippy::new_without_default, reason = "a clock is started, not defaulted")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
