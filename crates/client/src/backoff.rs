//! How long to wait before a call is made again: exponential, with full jitter.

use std::time::Duration;

/// What the first pause is below; it doubles up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);

/// The pause after so many failures in a row. `chance` is in `0.0..1.0`: all of the pause is left to it,
/// because clients that failed together must not come back together.
pub(crate) fn pause(failures: u32, chance: f64) -> Duration {
    let longest = PAUSE_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(PAUSE_LONGEST);
    longest.mul_f64(chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_differ_and_have_an_end() {
        assert_eq!(pause(3, 0.0), Duration::ZERO);
        assert_eq!(pause(1, 0.5), PAUSE_FIRST / 2);
        assert_eq!(pause(2, 0.5), PAUSE_FIRST);
        assert_eq!(pause(u32::MAX, 1.0), PAUSE_LONGEST);
    }
}
