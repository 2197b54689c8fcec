//! The last few samples of a level: how fast it falls, how long it lasts, whether it rises.

use std::{collections::VecDeque, time::Duration};

use crate::sample::{Sample, Supply};

/// Samples that are kept. More: a steadier rate. Fewer: a change is seen sooner.
const KEPT: usize = 12;
/// Over how many looks a level has to have risen to count as rising.
const TREND_LOOKS: usize = 3;

#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    samples: VecDeque<(Duration, Sample)>,
}

/// Where a level stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    pub level: u64,
    pub supply: Supply,
    /// Keys a second; `None` until it can be known.
    pub rate: Option<f64>,
    /// Seconds that the level lasts; `None` where nobody takes keys.
    pub runway: Option<f64>,
}

impl History {
    pub(crate) fn push(&mut self, at: Duration, sample: Sample) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back((at, sample));
    }

    pub(crate) fn latest(&self) -> Option<&Sample> {
        self.samples.back().map(|(_, sample)| sample)
    }

    #[expect(clippy::cast_precision_loss, reason = "a runway is an estimate")]
    pub(crate) fn standing(&self) -> Option<Standing> {
        let Sample { level, supply, .. } = *self.latest()?;
        let rate = self.rate();
        let runway = match supply {
            Supply::Epoch { left } => Some(left.as_secs_f64()),
            _ => rate.filter(|rate| *rate > 0.0).map(|rate| level as f64 / rate),
        };
        Some(Standing { level, supply, rate, runway })
    }

    /// As it was told; else what was counted; else by how much the level fell, which is the least that left:
    /// what was filled in between hides as much.
    #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    fn rate(&self) -> Option<f64> {
        let ((begun, first), (ended, last)) = (self.samples.front()?, self.samples.back()?);
        if last.rate.is_some() {
            return last.rate;
        }
        let seconds = (*ended - *begun).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let left = match (first.issued, last.issued) {
            (Some(first), Some(last)) => last.saturating_sub(first),
            _ => self.falls(),
        };
        Some(left as f64 / seconds)
    }

    /// What the level lost from look to look, whatever it gained in between.
    fn falls(&self) -> u64 {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        let falls = pairs.map(|((_, before), (_, after))| before.level.saturating_sub(after.level));
        falls.fold(0, u64::saturating_add)
    }

    /// Whether there is more than some looks ago. This, and not whether a filler runs, says that it fills.
    pub(crate) fn is_rising(&self) -> bool {
        let before = self.samples.iter().rev().take(TREND_LOOKS + 1).next_back();
        before.zip(self.samples.back()).is_some_and(|((_, before), (_, now))| now.level > before.level)
    }

    /// Nothing is at hand although something is left, and nothing left since the look before.
    pub(crate) fn is_dry(&self) -> bool {
        let mut latest = self.samples.iter().rev().map(|(_, sample)| sample);
        let Some((now, before)) = latest.next().zip(latest.next()) else { return false };
        now.level > 0 && now.stock == Some(0) && before.stock == Some(0) && now.issued == before.issued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(levels: &[u64]) -> History {
        let mut history = History::default();
        for (second, level) in (0..).zip(levels) {
            let sample =
                Sample { level: *level, supply: Supply::Pool, rate: None, issued: None, stock: None };
            history.push(Duration::from_secs(second), sample);
        }
        history
    }

    #[test]
    fn a_rate_is_what_the_level_loses() {
        assert_eq!(history(&[100]).standing().unwrap().rate, None, "one look says nothing of it");
        let standing = history(&[100, 90, 80, 70]).standing().unwrap();
        assert_eq!((standing.rate, standing.runway), (Some(10.0), Some(7.0)));
        let filled = history(&[100, 90, 120, 110]).standing().unwrap();
        assert!(filled.rate.unwrap() > 6.0, "a filling does not hide what left before and after: {filled:?}");
        assert_eq!(history(&[5, 5]).standing().unwrap().runway, None, "nobody takes keys");
    }

    #[test]
    fn what_is_counted_is_believed_over_the_level() {
        let mut history = History::default();
        for second in 0..4 {
            let issued = Some(second * 50);
            let sample = Sample { level: 100, supply: Supply::Pool, rate: None, issued, stock: None };
            history.push(Duration::from_secs(second), sample);
        }
        assert_eq!(history.standing().unwrap().rate, Some(50.0));
    }

    #[test]
    fn the_end_of_time_does_not_depend_on_a_rate() {
        let mut history = History::default();
        let supply = Supply::Epoch { left: Duration::from_secs(60) };
        history.push(Duration::ZERO, Sample { level: 9, supply, rate: None, issued: None, stock: None });
        assert_eq!(history.standing().unwrap().runway, Some(60.0));
    }

    #[test]
    fn rising_is_judged_over_some_looks() {
        assert!(!history(&[7]).is_rising());
        assert!(history(&[7, 8]).is_rising());
        assert!(!history(&[9, 8, 7]).is_rising());
        assert!(history(&[5, 9, 6, 8]).is_rising(), "noise on the way up");
        assert!(!history(&[9, 5, 7, 8]).is_rising(), "not back to where it was");
    }

    #[test]
    fn memory_is_bounded() {
        assert_eq!(history(&[1; 100]).samples.len(), KEPT);
    }
}
