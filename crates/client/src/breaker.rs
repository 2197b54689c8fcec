//! An endpoint that does not answer is left alone: after a few failures in a row nobody asks it, and after a
//! pause one call goes to see.
//!
//! A [`Breaker`] decides and never waits; time and chance come in. Whether a failure says something about the
//! endpoint is decided in `failure`.

use std::time::Duration;

/// Failures in a row that may be anything: a restarted connection, a lost packet.
const FAILURES_TO_OPEN: u32 = 3;
/// The first pause; it doubles with every probe that fails, up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(2);

/// What a breaker does with calls at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Lets every call through.
    Closed,
    /// Lets none through.
    Open,
    /// Has let one through, and waits for what becomes of it.
    HalfOpen,
}

/// That the endpoint was given up, or is trusted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Opened,
    Closed,
}

#[derive(Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration, pauses: u32 },
    HalfOpen { patience_until: Duration, pauses: u32 },
}

#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    /// How long a probe may take. One that was cancelled says nothing, and must not keep the others out.
    probe_patience: Duration,
}

impl Breaker {
    pub(crate) fn new(probe_patience: Duration) -> Self {
        Self { state: State::Closed { failures: 0 }, probe_patience }
    }

    /// Whether a call may be sent now; else how long it had better wait. After a pause the first that asks is
    /// the probe.
    pub(crate) fn admit(&mut self, now: Duration) -> Result<(), Duration> {
        let (until, pauses) = match self.state {
            State::Closed { .. } => return Ok(()),
            State::Open { until, pauses } => (until, pauses),
            State::HalfOpen { patience_until, pauses } => (patience_until, pauses),
        };
        if now < until {
            return Err(until - now);
        }
        self.state = State::HalfOpen { patience_until: now + self.probe_patience, pauses };
        Ok(())
    }

    /// The endpoint answered, whatever it said.
    pub(crate) fn answered(&mut self) -> Option<Change> {
        let before = std::mem::replace(&mut self.state, State::Closed { failures: 0 });
        (!matches!(before, State::Closed { .. })).then_some(Change::Closed)
    }

    /// The endpoint did not answer, or said that it is unwell. `chance` is in `0.0..1.0`.
    pub(crate) fn failed(&mut self, now: Duration, chance: f64) -> Option<Change> {
        let (pauses, change) = match self.state {
            State::Closed { failures } if failures + 1 < FAILURES_TO_OPEN => {
                self.state = State::Closed { failures: failures + 1 };
                return None;
            }
            State::Closed { .. } => (0, Some(Change::Opened)),
            State::HalfOpen { pauses, .. } => (pauses + 1, None),
            // A call that was under way when it opened tells nothing new.
            State::Open { .. } => return None,
        };
        self.state = State::Open { until: now + pause(pauses, chance), pauses };
        change
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }
}

/// At least half of it, so that an endpoint is left alone; the rest by chance, so that clients which lost it
/// together do not come back together.
fn pause(pauses: u32, chance: f64) -> Duration {
    let longest = PAUSE_FIRST.saturating_mul(1 << pauses.min(16)).min(PAUSE_LONGEST);
    longest.mul_f64(0.5 + chance / 2.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROBE: Duration = Duration::from_secs(1);

    fn opened(now: Duration) -> Breaker {
        let mut breaker = Breaker::new(PROBE);
        for _ in 1..FAILURES_TO_OPEN {
            assert_eq!(breaker.failed(now, 0.0), None);
            assert_eq!(breaker.admit(now), Ok(()), "a few failures stop nobody");
        }
        assert_eq!(breaker.failed(now, 0.0), Some(Change::Opened));
        breaker
    }

    #[test]
    fn opens_lets_one_probe_through_after_a_pause_and_closes_with_an_answer() {
        let mut breaker = opened(Duration::ZERO);
        let left = breaker.admit(Duration::ZERO).unwrap_err();
        assert_eq!(breaker.admit(left), Ok(()), "the probe");
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.admit(left), Err(PROBE), "and nobody else");
        assert_eq!(breaker.answered(), Some(Change::Closed));
        assert_eq!(breaker.admit(left), Ok(()));
        assert_eq!(breaker.answered(), None, "an answer is nothing new");
    }

    #[test]
    fn a_probe_that_fails_makes_the_next_pause_longer_and_is_no_second_opening() {
        let mut breaker = opened(Duration::ZERO);
        let first = breaker.admit(Duration::ZERO).unwrap_err();
        breaker.admit(first).unwrap();
        assert_eq!(breaker.failed(first, 0.0), None);
        assert_eq!(breaker.admit(first), Err(2 * first));
    }

    #[test]
    fn a_probe_that_was_cancelled_does_not_keep_the_others_out() {
        let mut breaker = opened(Duration::ZERO);
        let left = breaker.admit(Duration::ZERO).unwrap_err();
        breaker.admit(left).unwrap();
        assert_eq!(breaker.admit(left + PROBE), Ok(()));
    }

    #[test]
    fn answers_between_failures_keep_it_closed() {
        let mut breaker = Breaker::new(PROBE);
        for _ in 0..10 * FAILURES_TO_OPEN {
            breaker.failed(Duration::ZERO, 0.5);
            breaker.answered();
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[derive(Debug, Clone, Copy)]
    enum Event {
        Admit,
        Answered,
        Failed,
    }

    proptest! {
        #[test]
        fn whatever_happens_it_opens_and_closes_in_turn_and_admits_again_within_the_longest_pause(
            events in prop::collection::vec((0u64..500, 0.0..1.0, 0u8..3), 1..200),
        ) {
            let mut breaker = Breaker::new(PROBE);
            let (mut now, mut open) = (Duration::ZERO, false);
            for (millis, chance, event) in events {
                now += Duration::from_millis(millis);
                let event = [Event::Admit, Event::Answered, Event::Failed][usize::from(event)];
                let change = match event {
                    Event::Admit => {
                        if let Err(wait) = breaker.admit(now) {
                            prop_assert!(open && wait <= PAUSE_LONGEST.max(PROBE));
                        }
                        None
                    }
                    Event::Answered => breaker.answered(),
                    Event::Failed => breaker.failed(now, chance),
                };
                if let Some(change) = change {
                    prop_assert_eq!(change, if open { Change::Closed } else { Change::Opened });
                    open = !open;
                }
                prop_assert_eq!(breaker.state() == BreakerState::Closed, !open);
            }
        }
    }
}
