//! Chance, for pauses that should differ. Nothing unique or secret is made of it.

use std::sync::atomic::{AtomicU64, Ordering};

/// SplitMix64 over a shared counter.
#[derive(Debug)]
pub(crate) struct Dice(AtomicU64);

impl Dice {
    /// Without entropy pauses are merely less different.
    pub(crate) fn new() -> Self {
        let mut seed = [0; 8];
        let _ = getrandom::fill(&mut seed);
        Self(AtomicU64::new(u64::from_ne_bytes(seed)))
    }

    pub(crate) fn roll(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// In `0.0..1.0`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub(crate) fn chance(&self) -> f64 {
        (self.roll() >> 11) as f64 / (1u64 << 53) as f64
    }
}
