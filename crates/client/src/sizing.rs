//! How many keys a cache should hold: so many seconds' worth, at the rate they are taken.
//!
//! It decides and never does; time comes in.

use std::time::Duration;

/// How much a cache may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// How long it should last while no server answers.
    pub hold: Duration,
    pub min: u32,
    pub max: u32,
}

#[derive(Debug)]
pub(crate) struct Sizing {
    bounds: Bounds,
    /// Keys a second.
    rate: f64,
    target: u64,
    /// How many had been taken when we last looked, and when that was.
    taken: u64,
    looked_at: Duration,
}

impl Sizing {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, rate: 0.0, target: bounds.min.into(), taken: 0, looked_at: Duration::ZERO }
    }

    /// When no more than this is left, it is time to ask for more.
    pub(crate) fn low(&self) -> u64 {
        self.target / 2
    }

    /// How many keys to ask for, given how many were taken so far, how many are left, and whether somebody
    /// found none.
    pub(crate) fn wish(&mut self, now: Duration, taken: u64, left: u64, starved: bool) -> u64 {
        if left > self.low() && !starved {
            return 0;
        }
        self.observe(now, taken);
        let worth = clamp(self.rate * self.bounds.hold.as_secs_f64());
        // Somebody waits: the rate is what we could fetch, not what is wanted.
        let wanted = if starved { worth.max(self.target.saturating_mul(2)) } else { worth };
        self.target = wanted.clamp(self.bounds.min.into(), self.bounds.max.into());
        self.target.saturating_sub(left)
    }

    /// A first-order average over the time that the cache should last.
    #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    fn observe(&mut self, now: Duration, taken: u64) {
        let seconds = now.saturating_sub(self.looked_at).as_secs_f64().max(1e-6);
        let rate = taken.saturating_sub(self.taken) as f64 / seconds;
        let weight = 1.0 - (-seconds / self.bounds.hold.as_secs_f64().max(1e-3)).exp();
        self.rate += (rate - self.rate) * weight;
        (self.taken, self.looked_at) = (taken, now);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an `as` cast saturates, and NaN is 0"
)]
fn clamp(keys: f64) -> u64 {
    keys as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { hold: Duration::from_secs(1), min: 64, max: 100_000 };

    /// A caller that takes `rate` keys a second for `seconds`, and a server that answers after `delay`.
    fn live(sizing: &mut Sizing, rate: u64, seconds: u64, delay: u64) -> (u64, u64) {
        let (mut left, mut taken, mut under_way) = (0u64, 0u64, None);
        let (mut asked, mut missed) = (0, 0);
        for millis in 0..seconds * 1000 {
            let now = Duration::from_millis(millis);
            if under_way.is_some_and(|(_, at)| at <= millis) {
                left += under_way.take().map_or(0, |(keys, _)| keys);
            }
            let wanted = rate * (millis + 1) / 1000 - rate * millis / 1000;
            let served = wanted.min(left);
            (left, taken) = (left - served, taken + served);
            missed += if seconds > 2 && millis > 2000 { wanted - served } else { 0 };
            if under_way.is_none() {
                let wish = sizing.wish(now, taken, left, served < wanted);
                if wish > 0 {
                    asked += 1;
                    under_way = Some((wish, millis + delay));
                }
            }
        }
        (asked, missed)
    }

    #[test]
    fn a_steady_caller_is_never_kept_waiting_and_asks_about_twice_a_second() {
        for rate in [100, 1_000, 20_000] {
            let mut sizing = Sizing::new(BOUNDS);
            let (asked, missed) = live(&mut sizing, rate, 12, 5);
            assert_eq!(missed, 0, "at {rate} keys a second");
            assert!(asked < 60, "{asked} refills at {rate} keys a second");
            let worth = rate.clamp(64, 100_000);
            assert!((worth / 2..=worth * 2).contains(&sizing.target), "{rate}: {}", sizing.target);
        }
    }

    #[test]
    fn a_caller_that_calms_down_holds_less_again() {
        let mut sizing = Sizing::new(BOUNDS);
        live(&mut sizing, 20_000, 5, 5);
        assert!(sizing.target > 10_000);
        sizing.wish(Duration::from_secs(60), sizing.taken + 10, 0, false);
        assert_eq!(sizing.target, 64);
    }

    #[test]
    fn what_is_enough_is_left_alone() {
        let mut sizing = Sizing::new(BOUNDS);
        assert_eq!(sizing.wish(Duration::ZERO, 0, 0, false), 64);
        assert_eq!(sizing.wish(Duration::from_secs(1), 31, 33, false), 0);
        assert_eq!(sizing.wish(Duration::from_secs(1), 32, 32, false), 32);
    }

    proptest! {
        #[test]
        fn a_cache_never_holds_more_than_its_most_nor_is_filled_to_less_than_its_least(
            looks in prop::collection::vec((0u64..10_000, 0u64..1_000_000, 0u64..200_000, any::<bool>()), 1..100),
            min in 1u32..1000, more in 0u32..100_000,
        ) {
            let bounds = Bounds { min, max: min + more, ..BOUNDS };
            let mut sizing = Sizing::new(bounds);
            let (mut now, mut taken) = (Duration::ZERO, 0);
            for (millis, count, left, starved) in looks {
                now += Duration::from_millis(millis);
                taken += count;
                let wish = sizing.wish(now, taken, left, starved);
                prop_assert!(wish == 0 || left + wish >= u64::from(bounds.min));
                prop_assert!(wish == 0 || left + wish <= u64::from(bounds.max));
            }
        }
    }
}
