//! A ledger that does not answer is not asked by everyone: after a few failures in a row one write at a time
//! goes to see, after a pause, and all others are told at once.
//!
//! Without it every keyspace would wait its turn for its own time-out, and an engine that comes back would be
//! met by all of them together. It decides and never waits; time and chance come in.

use std::time::Duration;

use crate::refill::pause_after;

/// Failures in a row that may be anything: a deadlock, a restarted connection.
const FAILURES_TO_OPEN: u32 = 3;

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    failures: u32,
    /// Nobody asks before this.
    open_until: Duration,
}

impl Breaker {
    /// Whether a write may be sent now; else how long it had better wait. Writes go one at a time, so that
    /// the first one after the pause is the only probe.
    pub(crate) fn admits(&self, now: Duration) -> Result<(), Duration> {
        match self.open_until.checked_sub(now) {
            Some(left) if !left.is_zero() => Err(left),
            _ => Ok(()),
        }
    }

    /// The ledger answered, whatever it said.
    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }

    /// The ledger did not answer.
    pub(crate) fn failed(&mut self, now: Duration, random: u32) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_TO_OPEN {
            self.open_until = now + pause_after(self.failures, random);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_few_failures_stop_nobody() {
        let mut breaker = Breaker::default();
        for _ in 1..FAILURES_TO_OPEN {
            breaker.failed(SECOND, 0);
            assert_eq!(breaker.admits(SECOND), Ok(()));
        }
    }

    #[test]
    fn it_opens_lets_one_probe_through_after_a_pause_and_closes_with_an_answer() {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES_TO_OPEN {
            breaker.failed(SECOND, u32::MAX);
        }
        let left = breaker.admits(SECOND).unwrap_err();
        assert_eq!(breaker.admits(SECOND + left), Ok(()), "the probe");
        breaker.failed(SECOND + left, u32::MAX);
        assert!(breaker.admits(SECOND + left).unwrap_err() >= left, "and a longer pause if it fails");
        breaker.answered();
        assert_eq!(breaker.admits(SECOND), Ok(()));
    }
}
