//! A run of reserved numbers.
//!
//! A [`Block`] is half open, `[start, end)`, and never empty: what holds no number is no block.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::number::Number;

/// The numbers `start..end`, at least one. Written down as a pair.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "(Number, Number)", into = "(Number, Number)")]
pub struct Block {
    start: Number,
    end: Number,
}

impl TryFrom<(Number, Number)> for Block {
    type Error = &'static str;

    fn try_from((start, end): (Number, Number)) -> Result<Self, Self::Error> {
        Self::new(start, end).ok_or("a block ends above its start")
    }
}

impl From<Block> for (Number, Number) {
    fn from(block: Block) -> Self {
        (block.start, block.end)
    }
}

impl Block {
    /// `None` unless `start < end`.
    pub fn new(start: Number, end: Number) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// The first number.
    pub fn start(self) -> Number {
        self.start
    }

    /// The number after the last.
    pub fn end(self) -> Number {
        self.end
    }

    /// How many numbers, at least one.
    pub fn count(self) -> u64 {
        self.end.get() - self.start.get()
    }

    pub fn contains(self, number: Number) -> bool {
        self.start <= number && number < self.end
    }

    /// Every number, in order.
    pub fn numbers(self) -> impl Iterator<Item = Number> {
        (self.start.get()..self.end.get()).map(Number::proven)
    }

    /// The first `count` numbers and the rest, if any is left. Nothing is lost in between.
    ///
    /// # Panics
    /// When `count` is zero: the first part would hold no number.
    pub fn split_at(self, count: u64) -> (Self, Option<Self>) {
        assert!(count > 0, "a block holds at least one number");
        match self.start.checked_add(count) {
            Some(middle) if middle < self.end => {
                (Self { end: middle, ..self }, Some(Self { start: middle, ..self }))
            }
            _ => (self, None),
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u64, end: u64) -> Option<Block> {
        Block::new(Number::new(start).unwrap(), Number::new(end).unwrap())
    }

    #[test]
    fn a_block_holds_its_start_and_not_its_end() {
        let five = block(5, 10).unwrap();
        assert_eq!(five.count(), 5);
        assert_eq!(five.numbers().map(Number::get).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
        assert!(five.contains(five.start()));
        assert!(!five.contains(five.end()));
        assert_eq!(five.to_string(), "[5, 10)");
    }

    #[test]
    fn what_holds_no_number_is_no_block() {
        assert_eq!(block(5, 5), None);
        assert_eq!(block(6, 5), None);
    }

    #[test]
    fn a_split_loses_nothing() {
        let five = block(5, 10).unwrap();
        assert_eq!(five.split_at(2), (block(5, 7).unwrap(), block(7, 10)));
        assert_eq!(five.split_at(5), (five, None));
        assert_eq!(five.split_at(u64::MAX), (five, None));
    }

    #[test]
    fn a_block_may_end_at_the_largest_number() {
        let last = Block::new(Number::new(Number::MAX.get() - 1).unwrap(), Number::MAX).unwrap();
        assert_eq!(last.count(), 1);
        assert_eq!(last.split_at(1), (last, None));
    }
}
