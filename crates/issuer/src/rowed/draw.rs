//! The last resort of a pool whose rows are gone: draw a number, withhold it, draw again if it was taken.
//!
//! What is granted is granted by the ledger alone, by a hole that this very call made; so a draw needs the ledger,
//! and repeats nothing. Its price rises with the fill of the space, 1 / (1 − fill) attempts a key, and is counted.

use std::sync::atomic::{AtomicU64, Ordering};

use keymill_id::Number;
use keymill_ledger::{HoleKind, TrackRow, ops::Withheld};

use super::Rowed;
use crate::error::IssueError;

/// Draws for one key before it is given up: beyond, a space is as good as full.
pub(super) const ATTEMPTS_MAX: u32 = 64;
/// Numbers withheld by one write.
pub(super) const DRAWN_AT_ONCE: u32 = 256;

#[derive(Debug, Default)]
pub(super) struct Draws {
    attempts: AtomicU64,
    made: AtomicU64,
}

/// What random draws cost this process, next to what they should.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawGlance {
    pub draws: u64,
    /// Draws of numbers that were taken.
    pub collisions: u64,
    /// Draws a key; `None` before the first.
    pub observed_attempts: Option<f64>,
    /// 1 / (1 − fill); `None` once nothing is left.
    pub predicted_attempts: Option<f64>,
}

impl Draws {
    /// Attempts, and how many of them met a number that was taken.
    pub(super) fn counts(&self) -> (u64, u64) {
        // Made first: it is counted last, so that it never exceeds the attempts.
        let made = self.made.load(Ordering::Acquire);
        let attempts = self.attempts.load(Ordering::Acquire);
        (attempts, attempts - made)
    }
}

impl Rowed {
    /// Draws so many numbers, and lays the keys of those that were free on the tray.
    pub(super) async fn draw(&self, count: u32) -> Result<(), IssueError> {
        let node = self.node.upgrade().ok_or(IssueError::Draining)?;
        node.refuse_unless_serving()?;
        let mut drawn = Vec::with_capacity(count as usize);
        for _ in 0..count {
            drawn.push(uniform(self.ceiling(), entropy)?);
        }
        let withheld = node.pen.withhold(&self.track, drawn.clone(), HoleKind::Drawn).await;
        let withheld = withheld.map_err(|error| {
            node.note(&error, "withhold");
            IssueError::from_ledger(&error)
        })?;
        let made: Vec<Number> =
            drawn.into_iter().zip(withheld.outcomes).filter(is_ours).map(|(number, _)| number).collect();
        self.draws.attempts.fetch_add(count.into(), Ordering::Relaxed);
        self.draws.made.fetch_add(made.len() as u64, Ordering::Release);
        // A blocked word is withheld now, and spelled by no one.
        let keys: Vec<String> = made.into_iter().filter_map(|number| self.mint.spell_one(number)).collect();
        let pool = self.pool().map_err(|error| IssueError::from(&error))?;
        let keys = pool.log(keys).await.map_err(|error| IssueError::from(&error))?;
        self.lay(&keys.into_iter().map(String::into_bytes).collect::<Vec<_>>());
        Ok(())
    }

    /// What draws cost, with the track as it is.
    #[expect(clippy::cast_precision_loss, reason = "a share is an estimate")]
    pub(crate) fn draw_glance(&self, track: &TrackRow) -> DrawGlance {
        let (draws, collisions) = self.draws.counts();
        let made = draws - collisions;
        // Holes that the cursor has passed meanwhile count twice: a little too much rather than too little.
        let taken = track.cursor.get().saturating_add(track.holes);
        let free = self.mint.size().saturating_sub(taken);
        DrawGlance {
            draws,
            collisions,
            observed_attempts: (made > 0).then(|| draws as f64 / made as f64),
            predicted_attempts: (free > 0).then(|| self.mint.size() as f64 / free as f64),
        }
    }
}

/// Only the call that made the hole may hand out its key.
fn is_ours((_, outcome): &(Number, Withheld)) -> bool {
    *outcome == Withheld::Made
}

fn entropy() -> Result<u64, IssueError> {
    getrandom::u64().map_err(|_| IssueError::Internal)
}

/// A number below `ceiling`, each as likely as any other.
fn uniform<E>(ceiling: Number, mut random: impl FnMut() -> Result<u64, E>) -> Result<Number, E> {
    let mask = ceiling.get().next_power_of_two() - 1;
    loop {
        // Drawn again rather than folded: folding would prefer small numbers.
        let number = random()? & mask;
        if number < ceiling.get() {
            return Ok(Number::new(number).expect("it is below another number"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_drawn_as_often_as_any_other() {
        let mut next = 0_u64;
        let mut random = || {
            next += 1;
            Ok::<_, ()>(next)
        };
        let mut seen = [0; 10];
        for _ in 0..1000 {
            let drawn = uniform(Number::new(10).unwrap(), &mut random).unwrap();
            seen[usize::try_from(drawn.get()).unwrap()] += 1;
        }
        assert_eq!(seen, [100; 10]);
        assert_eq!(uniform(Number::new(1).unwrap(), &mut random), Ok(Number::ZERO));
    }
}
