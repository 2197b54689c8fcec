//! How many keys a second may leave: the generic cell rate algorithm, counted in keys.
//!
//! A [`Meter`] remembers one moment: when everything it let through so far will have been paid for at its
//! rate. A request is let through if paying for it as well ends no later than a burst's worth from now. So an
//! idle meter lets a burst through at once and then the rate; there is no window whose edge could be used
//! twice. Time comes in. Each node counts by itself.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The highest rate: a key a nanosecond.
pub const RATE_MAX: u64 = NANOS;
const NANOS: u64 = 1_000_000_000;

/// How a rate is kept; 0 keys a second stands for no limit at all.
#[derive(Debug, Default)]
pub struct Meter {
    rate: AtomicU64,
    /// Nanoseconds on the caller's clock.
    paid_at: AtomicU64,
}

/// Too many keys for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// Keys a second.
    pub rate: u64,
    /// Keys that would be let through now.
    pub left: u64,
    /// Until this request would be let through, if nobody else asks.
    pub wait: Duration,
    /// Until a whole burst would be.
    pub whole_in: Duration,
}

impl Meter {
    pub fn new(rate: Option<u64>) -> Self {
        let meter = Self::default();
        meter.set_rate(rate);
        meter
    }

    /// `None`: nothing is limited.
    pub fn set_rate(&self, rate: Option<u64>) {
        self.rate.store(rate.unwrap_or(0), Ordering::Relaxed);
    }

    #[inline]
    pub fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// Lets `count` keys through, or says when it would. A burst is a second's worth, and at least `burst_min`,
    /// so that whatever may be asked for at once can be had.
    pub fn charge(&self, count: u32, burst_min: u32, now: Duration) -> Result<(), Exceeded> {
        let Some(rate) = self.rate() else { return Ok(()) };
        let now = nanos(now);
        let mut paid_at = self.paid_at.load(Ordering::Relaxed);
        loop {
            let next = decide(paid_at, now, count, rate, rate.max(burst_min.into()))?;
            match self.paid_at.compare_exchange_weak(paid_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(newer) => paid_at = newer,
            }
        }
    }

    /// Takes a charge back: the keys did not leave.
    pub fn refund(&self, count: u32) {
        if let Some(rate) = self.rate() {
            let worth = worth(count.into(), rate);
            let _ = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid_at| {
                Some(paid_at.saturating_sub(worth))
            });
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How long `count` keys take at `rate`.
fn worth(count: u64, rate: u64) -> u64 {
    count.saturating_mul(NANOS).div_ceil(rate)
}

/// When everything will be paid for, this request included.
fn decide(paid_at: u64, now: u64, count: u32, rate: u64, burst: u64) -> Result<u64, Exceeded> {
    let next = paid_at.max(now).saturating_add(worth(count.into(), rate));
    // Whether it ends within a burst's worth, without the division: this is on the path of a take.
    if u128::from(next - now) * u128::from(rate) <= u128::from(burst) * u128::from(NANOS) {
        return Ok(next);
    }
    let latest = now.saturating_add(worth(burst, rate));
    let owed = paid_at.saturating_sub(now);
    let left = latest.saturating_sub(paid_at.max(now));
    Err(Exceeded {
        rate,
        left: u64::try_from(u128::from(left) * u128::from(rate) / u128::from(NANOS)).unwrap_or(u64::MAX),
        wait: Duration::from_nanos(next.saturating_sub(latest)),
        whole_in: Duration::from_nanos(owed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_goes_through_at_once_and_then_the_rate() {
        let meter = Meter::new(Some(10));
        assert_eq!(meter.charge(10, 1, SECOND), Ok(()));
        let exceeded = meter.charge(1, 1, SECOND).unwrap_err();
        assert_eq!((exceeded.left, exceeded.wait), (0, Duration::from_millis(100)));
        assert_eq!(exceeded.whole_in, SECOND);
        assert_eq!(meter.charge(1, 1, SECOND + exceeded.wait), Ok(()), "it kept its word");
        assert!(meter.charge(1, 1, SECOND + exceeded.wait).is_err());
        let let_through =
            (0..1000).filter(|tick| meter.charge(1, 1, 10 * SECOND + *tick * SECOND / 100).is_ok());
        assert_eq!(let_through.count(), 10 + 99, "a burst, and ten a second for ten seconds");
    }

    #[test]
    fn whatever_may_be_asked_for_at_once_can_be_had() {
        let meter = Meter::new(Some(1));
        assert_eq!(meter.charge(10_000, 10_000, SECOND), Ok(()));
        let exceeded = meter.charge(10_000, 10_000, 2 * SECOND).unwrap_err();
        assert_eq!((exceeded.left, exceeded.wait), (1, 9_999 * SECOND));
    }

    #[test]
    fn what_did_not_leave_is_not_paid_for() {
        let meter = Meter::new(Some(5));
        assert_eq!(meter.charge(5, 1, SECOND), Ok(()));
        meter.refund(5);
        assert_eq!(meter.charge(5, 1, SECOND), Ok(()));
    }

    #[test]
    fn without_a_rate_everything_goes_through() {
        let meter = Meter::new(None);
        assert!((0..100).all(|_| meter.charge(u32::MAX, 1, Duration::ZERO).is_ok()));
        meter.set_rate(Some(RATE_MAX));
        assert!(meter.charge(u32::MAX, u32::MAX, Duration::ZERO).is_ok(), "no sum overflows");
    }
}
