//! The ticks a worker may embed.
//!
//! A [`Window`] is a block that was reserved on the worker's track, and no other process holds any of its
//! ticks: this, and not the clock, is why two processes that both believe to be worker 17 cannot make the
//! same ID.

use std::fmt;

use crate::{block::Block, layout::Tick, number::Number};

/// The ticks `start..end`, at least one.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    start: Tick,
    end: Tick,
}

impl Window {
    /// `None` unless `start < end`.
    pub fn new(start: Tick, end: Tick) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// The first tick.
    pub fn start(self) -> Tick {
        self.start
    }

    /// The tick after the last.
    pub fn end(self) -> Tick {
        self.end
    }

    /// How many ticks, at least one.
    pub fn ticks(self) -> u64 {
        self.end - self.start
    }

    #[inline]
    pub fn contains(self, tick: Tick) -> bool {
        self.start <= tick && tick < self.end
    }

    /// Both as one where `later` begins at this one's end; else `later` alone, and the rest of this one is
    /// burned: a generator that kept both could not say so simply where it is.
    ///
    /// # Panics
    /// When `later` begins below the end of this one: one tick would be held twice.
    #[must_use]
    pub fn followed_by(self, later: Self) -> Self {
        assert!(later.start >= self.end, "window {later} reaches back into {self}");
        if later.start == self.end { Self { start: self.start, end: later.end } } else { later }
    }
}

impl From<Block> for Window {
    fn from(block: Block) -> Self {
        Self { start: block.start().get(), end: block.end().get() }
    }
}

impl TryFrom<Window> for Block {
    type Error = &'static str;

    fn try_from(window: Window) -> Result<Self, Self::Error> {
        let (start, end) = (Number::try_from(window.start)?, Number::try_from(window.end)?);
        Self::new(start, end).ok_or("a block ends above its start")
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: u64, end: u64) -> Window {
        Window::new(start, end).unwrap()
    }

    #[test]
    fn a_window_is_the_block_that_was_reserved() {
        let block = Block::new(Number::new(5).unwrap(), Number::new(9).unwrap()).unwrap();
        assert_eq!(Window::from(block), window(5, 9));
        assert_eq!(Block::try_from(window(5, 9)), Ok(block));
        assert!(Block::try_from(window(5, u64::MAX)).is_err());
        assert_eq!(Window::new(5, 5), None);
    }

    #[test]
    fn neighbours_join_and_a_gap_burns_the_rest() {
        assert_eq!(window(5, 9).followed_by(window(9, 12)), window(5, 12));
        assert_eq!(window(5, 9).followed_by(window(10, 12)), window(10, 12));
    }

    #[test]
    #[should_panic = "reaches back"]
    fn a_window_that_overlaps_is_refused() {
        let _ = window(5, 9).followed_by(window(8, 12));
    }
}
