//! The one place that reads time.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use keymill_ledger::Timestamp;
use rustix::time::{ClockId, clock_gettime};

pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// What people call the time. It may jump either way; nothing unique is derived from it alone.
    fn wall(&self) -> Timestamp;
    /// Time that only goes forward, from an arbitrary start, while the machine sleeps too.
    fn elapsed(&self) -> Duration;
}

#[derive(Debug)]
pub struct SystemClock {
    start: Duration,
}

/// Not `Instant`, which stands still while the machine is suspended: what is late would not look late.
fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

impl SystemClock {
    #[expect(clippy::new_without_default, reason = "a clock is started, not defaulted")]
    pub fn new() -> Self {
        Self { start: since_boot() }
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn elapsed(&self) -> Duration {
        since_boot().saturating_sub(self.start)
    }
}
