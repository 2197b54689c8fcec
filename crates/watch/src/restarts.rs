//! When a filler may be started anew: with growing pauses, a few times, and then no more.

use std::{collections::VecDeque, time::Duration};

/// Restarts within [`WINDOW`] that did not help; the next step is a human.
pub(crate) const CAP: usize = 3;
const WINDOW: Duration = Duration::from_secs(600);

/// Restarts that have not helped yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Restarts {
    at: VecDeque<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Do it; it is the so-manieth.
    Now(usize),
    /// The last one has not had its time yet.
    Wait,
    /// They did not help.
    Spent,
}

impl Restarts {
    /// What to do about a filler that does not fill; `pause` is what the first restart gets to show something.
    /// `Now` is counted as done.
    pub(crate) fn next(&mut self, now: Duration, pause: Duration) -> Next {
        while self.at.front().is_some_and(|at| now.saturating_sub(*at) >= WINDOW) {
            self.at.pop_front();
        }
        let tried = self.at.len();
        let patience = pause * (1 << tried.saturating_sub(1));
        if self.at.back().is_some_and(|last| now.saturating_sub(*last) < patience) {
            return Next::Wait;
        }
        if tried == CAP {
            return Next::Spent;
        }
        self.at.push_back(now);
        Next::Now(tried + 1)
    }

    pub(crate) fn tried(&self) -> usize {
        self.at.len()
    }

    /// The level is back: they helped.
    pub(crate) fn helped(&mut self) {
        self.at.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(15);

    #[test]
    fn three_restarts_with_growing_pauses_and_then_no_more() {
        let mut restarts = Restarts::default();
        let mut done = Vec::new();
        let mut spent = None;
        for second in 0..600 {
            match restarts.next(Duration::from_secs(second), PAUSE) {
                Next::Now(_) => done.push(second),
                Next::Wait => assert_eq!(spent, None),
                Next::Spent => drop(spent.get_or_insert(second)),
            }
        }
        assert_eq!((done, spent), (vec![0, 15, 45], Some(105)));
        assert_eq!(restarts.next(WINDOW, PAUSE), Next::Now(3), "the first one no longer counts");
    }

    #[test]
    fn those_that_helped_are_forgotten() {
        let mut restarts = Restarts::default();
        for kill in 0..20 {
            assert_eq!(restarts.next(Duration::from_secs(kill), PAUSE), Next::Now(1));
            restarts.helped();
        }
    }

    proptest! {
        #[test]
        fn no_ten_minutes_ever_see_more_than_the_cap(gaps in prop::collection::vec(0..200u64, 1..300)) {
            let (mut restarts, mut now, mut done) = (Restarts::default(), Duration::ZERO, Vec::new());
            for gap in gaps {
                now += Duration::from_secs(gap);
                if let Next::Now(_) = restarts.next(now, PAUSE) {
                    done.push(now);
                }
            }
            for window in done.windows(CAP + 1) {
                prop_assert!(window[CAP] - window[0] >= WINDOW);
            }
        }
    }
}
