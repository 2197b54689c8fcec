//! How long something took, counted the way Prometheus reads it: how often, in sum, and within which bounds.
//!
//! A thread counts in a stripe of its own, so that counting costs what adding to a number of one's own costs;
//! whoever reads adds the stripes up.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{padded::Padded, thread_lane};

/// The upper bounds, in microseconds. Answers out of memory lie at the lower end, waits for a ledger at the upper.
const BOUNDS_MICROS: [u64; 19] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];
/// Threads beyond these share.
const STRIPES: usize = 8;

#[derive(Debug, Default)]
pub struct Histogram {
    stripes: [Padded<Stripe>; STRIPES],
}

#[derive(Debug, Default)]
struct Stripe {
    nanos: AtomicU64,
    /// By bound; what is above all of them is last.
    counts: [AtomicU64; BOUNDS_MICROS.len() + 1],
}

/// What was counted until now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Durations {
    counts: [u64; BOUNDS_MICROS.len() + 1],
    pub seconds: f64,
}

impl Histogram {
    /// Something took that long.
    #[inline]
    pub fn record(&self, took: Duration) {
        self.record_many(1, took);
    }

    /// So many things took that long each.
    #[inline]
    pub fn record_many(&self, times: u64, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let Padded(stripe) = &self.stripes[thread_lane::of(STRIPES)];
        let within = BOUNDS_MICROS.iter().position(|micros| nanos <= micros * 1_000);
        stripe.counts[within.unwrap_or(BOUNDS_MICROS.len())].fetch_add(times, Ordering::Relaxed);
        stripe.nanos.fetch_add(nanos.saturating_mul(times), Ordering::Relaxed);
    }

    pub fn read(&self) -> Durations {
        let sum = |of: &dyn Fn(&Stripe) -> u64| -> u64 {
            self.stripes.iter().fold(0, |sum, Padded(stripe)| sum.wrapping_add(of(stripe)))
        };
        let counts = array::from_fn(|bound| sum(&|stripe| stripe.counts[bound].load(Ordering::Relaxed)));
        let nanos = sum(&|stripe| stripe.nanos.load(Ordering::Relaxed));
        #[expect(clippy::cast_precision_loss, reason = "a sum of times")]
        Durations { counts, seconds: nanos as f64 / 1e9 }
    }
}

impl Durations {
    /// The upper bounds in seconds, each with how often that was enough.
    #[expect(clippy::cast_precision_loss, reason = "the bounds are small")]
    pub fn within(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS_MICROS.iter().map(|micros| *micros as f64 / 1e6);
        bounds.zip(self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_duration_counts_within_its_bound_and_all_larger_ones() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_micros(10));
        histogram.record_many(3, Duration::from_micros(11));
        histogram.record(Duration::from_secs(60));
        let read = histogram.read();
        let within: Vec<_> = read.within().collect();
        assert_eq!(within[..2], [(0.000_01, 1), (0.000_025, 4)]);
        assert_eq!(within.last(), Some(&(10.0, 4)));
        assert_eq!(read.count(), 5);
        assert!((read.seconds - 60.000_043).abs() < 1e-9);
    }

    #[test]
    fn every_thread_is_counted() {
        let histogram = Histogram::default();
        thread::scope(|scope| {
            for _ in 0..3 * STRIPES {
                scope.spawn(|| (0..1000).for_each(|_| histogram.record(Duration::from_millis(1))));
            }
        });
        assert_eq!(histogram.read().count(), 3 * STRIPES as u64 * 1000);
    }

    #[test]
    fn bounds_rise() {
        assert!(BOUNDS_MICROS.is_sorted_by(|a, b| a < b));
    }
}
