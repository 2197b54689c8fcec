//! How many retries a client may make: in a bad hour they must not become most of the load.
//!
//! A bucket of tokens. A retry takes one; every call puts a part of one in, and so does time, so that a client
//! that calls rarely may retry as well. Time comes in.

use std::time::Duration;

/// Retries that may follow one another at once.
const TOKENS_MAX: f64 = 20.0;
/// Retries that every call pays for: a fifth more load at most, in the long run.
const TOKENS_PER_CALL: f64 = 0.2;
/// Retries that are free.
const TOKENS_PER_SECOND: f64 = 2.0;

#[derive(Debug)]
pub(crate) struct Budget {
    tokens: f64,
    filled_at: Duration,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { tokens: TOKENS_MAX, filled_at: Duration::ZERO }
    }

    /// A call is made for the first time.
    pub(crate) fn deposit(&mut self) {
        self.tokens = (self.tokens + TOKENS_PER_CALL).min(TOKENS_MAX);
    }

    /// Whether a call may be made once more.
    pub(crate) fn withdraw(&mut self, now: Duration) -> bool {
        let since = now.saturating_sub(self.filled_at).as_secs_f64();
        self.filled_at = self.filled_at.max(now);
        self.tokens = (self.tokens + since * TOKENS_PER_SECOND).min(TOKENS_MAX);
        let affordable = self.tokens >= 1.0;
        if affordable {
            self.tokens -= 1.0;
        }
        affordable
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_spent_budget_is_earned_again_by_calls_and_by_time() {
        let mut budget = Budget::new();
        while budget.withdraw(Duration::ZERO) {}
        for _ in 0..5 {
            budget.deposit();
        }
        assert!(budget.withdraw(Duration::ZERO), "five calls pay for one");
        assert!(!budget.withdraw(Duration::ZERO));
        assert!(budget.withdraw(Duration::from_millis(500)), "half a second pays for one");
        assert!(!budget.withdraw(Duration::from_millis(500)));
    }

    proptest! {
        #[test]
        fn retries_stay_within_what_was_paid_for(
            steps in prop::collection::vec((any::<bool>(), 0u64..100), 1..500),
        ) {
            let mut budget = Budget::new();
            let (mut now, mut calls, mut retries) = (Duration::ZERO, 0u32, 0u32);
            for (is_call, millis) in steps {
                now += Duration::from_millis(millis);
                if is_call {
                    calls += 1;
                    budget.deposit();
                } else {
                    retries += u32::from(budget.withdraw(now));
                }
            }
            let paid = f64::from(calls) * TOKENS_PER_CALL + now.as_secs_f64() * TOKENS_PER_SECOND;
            prop_assert!(f64::from(retries) <= TOKENS_MAX + paid + 1e-6);
        }
    }
}
