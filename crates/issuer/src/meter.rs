//! How many keys a second may leave: the generic cell rate algorithm, counted in keys.
//!
//! A [`Meter`] remembers one moment: when everything it let through so far will have been paid for at its
//! rate. What is owed until then is never more than a second's worth, so an idle meter lets a second's worth
//! through at once and then the rate; there is no window whose edge could be used twice. A request for more than
//! that is let through when nothing is owed, and then everyone waits until it is paid for. So any span of T
//! seconds sees at most rate × T keys, and a second's worth or one such request besides. Time comes in. Each node
//! counts by itself.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The highest rate: a key a nanosecond.
pub const RATE_MAX: u64 = NANOS;
const NANOS: u64 = 1_000_000_000;
/// What a key costs is rounded up to a nanosecond. Over a second's worth that adds up, and as much is let pass,
/// so that three keys a second are three keys at once; but never more than a millisecond.
const ROUNDING_MAX: u64 = 1_000_000;

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
    /// Keys that would be let through now; at most `rate`.
    pub left: u64,
    /// Until this request would be let through, if nobody else asks.
    pub wait: Duration,
    /// Until nothing is owed, and a whole second's worth or any larger request would be let through.
    pub whole_in: Duration,
}

impl Meter {
    pub fn new(rate: Option<u64>) -> Self {
        let meter = Self::default();
        meter.set_rate(rate);
        meter
    }

    /// `None`: nothing is limited. A new rate begins anew: what was owed at the old one, which may have been far
    /// too low, is forgotten.
    pub fn set_rate(&self, rate: Option<u64>) {
        let rate = rate.unwrap_or(0);
        if self.rate.swap(rate, Ordering::Relaxed) != rate {
            self.paid_at.store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// Lets `count` keys through, or says when it would. None are always let through.
    pub fn charge(&self, count: u32, now: Duration) -> Result<(), Exceeded> {
        let Some(rate) = self.rate().filter(|_| count > 0) else { return Ok(()) };
        let now = nanos(now);
        let mut paid_at = self.paid_at.load(Ordering::Relaxed);
        loop {
            let next = decide(paid_at, now, count, rate)?;
            match self.paid_at.compare_exchange_weak(paid_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(newer) => paid_at = newer,
            }
        }
    }

    /// Takes a charge back: the keys did not leave.
    pub fn refund(&self, count: u32) {
        if let Some(rate) = self.rate() {
            let worth = worth(count, rate);
            let _ = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid_at| {
                Some(paid_at.saturating_sub(worth))
            });
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How long `count` keys take at `rate`. Longer than a century at the lowest rates, and still no overflow.
fn worth(count: u32, rate: u64) -> u64 {
    (u64::from(count) * NANOS).div_ceil(rate)
}

// The product above: a count has 32 bits, a second 30.
const _: () = assert!((u32::MAX as u64).checked_mul(NANOS).is_some());

/// When everything will be paid for, this request included.
fn decide(paid_at: u64, now: u64, count: u32, rate: u64) -> Result<u64, Exceeded> {
    let (owed, cost) = (paid_at.saturating_sub(now), worth(count, rate));
    let most = NANOS + rate.min(ROUNDING_MAX);
    let after = owed.saturating_add(cost.min(NANOS));
    if after <= most {
        return Ok(paid_at.max(now).saturating_add(cost));
    }
    let left = u128::from(most.saturating_sub(owed)) * u128::from(rate) / u128::from(NANOS);
    Err(Exceeded {
        rate,
        left: u64::try_from(left).unwrap_or(rate).min(rate),
        wait: Duration::from_nanos(after - most),
        whole_in: Duration::from_nanos(owed),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_seconds_worth_goes_through_at_once_and_then_the_rate() {
        let meter = Meter::new(Some(10));
        assert_eq!(meter.charge(10, SECOND), Ok(()));
        let exceeded = meter.charge(1, SECOND).unwrap_err();
        assert_eq!((exceeded.rate, exceeded.left, exceeded.whole_in), (10, 0, SECOND));
        assert_eq!(meter.charge(1, SECOND + exceeded.wait), Ok(()), "it kept its word");
        assert!(meter.charge(1, SECOND + exceeded.wait).is_err());
        let let_through =
            (0..1000).filter(|tick| meter.charge(1, 10 * SECOND + *tick * SECOND / 100).is_ok());
        assert_eq!(let_through.count(), 10 + 99, "a second's worth, and ten a second for ten seconds");
    }

    #[test]
    fn a_larger_request_is_let_through_when_nothing_is_owed_and_then_everyone_waits() {
        let meter = Meter::new(Some(5));
        assert_eq!(meter.charge(10_000, SECOND), Ok(()));
        let debt = 2000 * SECOND;
        let exceeded = meter.charge(1, SECOND).unwrap_err();
        assert_eq!((exceeded.left, exceeded.whole_in), (0, debt));
        assert!(exceeded.wait > debt - SECOND && exceeded.wait < debt, "{exceeded:?}");
        assert_eq!(meter.charge(1, SECOND + exceeded.wait), Ok(()));

        let larger = meter.charge(6, SECOND + debt).unwrap_err();
        assert_eq!(larger.left, 4, "one key is still owed for");
        assert_eq!(meter.charge(6, SECOND + debt + larger.wait), Ok(()));
    }

    #[test]
    fn none_are_always_let_through() {
        let meter = Meter::new(Some(1));
        assert_eq!(meter.charge(1000, SECOND), Ok(()));
        assert_eq!(meter.charge(0, SECOND), Ok(()));
    }

    #[test]
    fn what_did_not_leave_is_not_paid_for() {
        let meter = Meter::new(Some(5));
        assert_eq!(meter.charge(500, SECOND), Ok(()));
        meter.refund(500);
        assert_eq!(meter.charge(5, SECOND), Ok(()));
    }

    #[test]
    fn a_new_rate_forgets_what_was_owed_and_the_same_does_not() {
        let meter = Meter::new(Some(1));
        assert_eq!(meter.charge(10_000, SECOND), Ok(()));
        meter.set_rate(Some(1));
        assert!(meter.charge(1, SECOND).is_err());
        meter.set_rate(Some(1000));
        assert_eq!(meter.charge(1, SECOND), Ok(()));
    }

    #[test]
    fn without_a_rate_everything_goes_through_and_no_sum_overflows() {
        let meter = Meter::new(None);
        assert!((0..100).all(|_| meter.charge(u32::MAX, Duration::ZERO).is_ok()));
        for rate in [1, RATE_MAX] {
            let meter = Meter::new(Some(rate));
            assert!(meter.charge(u32::MAX, Duration::ZERO).is_ok());
            assert!(meter.charge(u32::MAX, Duration::MAX).is_ok());
            assert!(meter.charge(u32::MAX, Duration::ZERO).is_err());
        }
    }

    fn copy(meter: &Meter) -> Meter {
        let same = |of: &AtomicU64| AtomicU64::new(of.load(Ordering::Relaxed));
        Meter { rate: same(&meter.rate), paid_at: same(&meter.paid_at) }
    }

    /// Most keys that `span` may see: its own, and a second's worth or one larger request besides.
    fn bound(rate: u64, span: Duration, largest: u32) -> u128 {
        let rounding = u128::from(NANOS + ROUNDING_MAX);
        let own = u128::from(rate) * (span.as_nanos() + rounding) / u128::from(NANOS) - u128::from(rate);
        own + u128::from(rate.max(largest.into())) + 1
    }

    proptest! {
        #[test]
        fn over_any_schedule_no_span_sees_more_than_its_rate_and_one_burst(
            rate in 1..3000u64,
            requests in prop::collection::vec((0..2500u64, prop_oneof![1..10u32, 1..10_000u32]), 1..120),
        ) {
            let meter = Meter::new(Some(rate));
            let largest = requests.iter().map(|(_, count)| *count).max().unwrap_or(0);
            let (mut now, mut let_through) = (Duration::ZERO, Vec::new());
            for (millis, count) in requests {
                now += Duration::from_millis(millis);
                match meter.charge(count, now) {
                    Ok(()) => let_through.push((now, u128::from(count))),
                    Err(exceeded) => {
                        let left = u32::try_from(exceeded.left).unwrap();
                        prop_assert!(copy(&meter).charge(left, now).is_ok(), "{exceeded:?} of {count}");
                        prop_assert!(copy(&meter).charge(left + 1, now).is_err(), "{exceeded:?} of {count}");
                        prop_assert!(copy(&meter).charge(count, now + exceeded.wait).is_ok());
                        let just_before = now + exceeded.wait - Duration::from_nanos(1);
                        prop_assert!(copy(&meter).charge(count, just_before).is_err(), "{exceeded:?}");
                        prop_assert!(copy(&meter).charge(u32::MAX, now + exceeded.whole_in).is_ok());
                    }
                }
            }
            for (first, (begun, _)) in let_through.iter().enumerate() {
                let mut sum = 0;
                for (at, count) in &let_through[first..] {
                    sum += count;
                    let most = bound(rate, *at - *begun, largest);
                    prop_assert!(sum <= most, "{sum} keys from {begun:?} to {at:?}, and not {most}");
                }
            }
        }

        #[test]
        fn whoever_waits_as_told_is_let_through_and_gets_the_rate(
            rate in 1..3000u64,
            counts in prop::collection::vec(1..10_000u32, 1..60),
        ) {
            let meter = Meter::new(Some(rate));
            let (mut now, mut sum) = (Duration::ZERO, 0);
            for count in counts {
                if let Err(exceeded) = meter.charge(count, now) {
                    now += exceeded.wait;
                    prop_assert!(meter.charge(count, now).is_ok(), "{exceeded:?} of {count}");
                }
                prop_assert!(u128::from(rate) * now.as_nanos() / u128::from(NANOS) <= sum, "slower than its rate");
                sum += u128::from(count);
            }
        }
    }
}
