//! What the ledger counts.
//!
//! A [`Number`] is an index into a keyspace or the n-th ticket: whatever a track's cursor runs over. It
//! never wraps; arithmetic that would leave the range answers `None`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The largest number, 2^63−1.
pub const NUMBER_MAX: u64 = i64::MAX as u64;

// A cursor must fit the signed 64-bit column of any database, and PostgreSQL has no other kind.
const _: () = assert!(NUMBER_MAX == (1 << 63) - 1);

/// A number of a track, at most [`NUMBER_MAX`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Number(u64);

impl Number {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(NUMBER_MAX);

    /// `None` above [`NUMBER_MAX`].
    pub const fn new(number: u64) -> Option<Self> {
        if number <= NUMBER_MAX { Some(Self(number)) } else { None }
    }

    /// The number as a plain integer.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `None` when the sum would pass [`NUMBER_MAX`].
    pub const fn checked_add(self, count: u64) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(sum) => Self::new(sum),
            None => None,
        }
    }

    /// For sums and bounds that this crate has already shown to be in range.
    pub(crate) const fn proven(number: u64) -> Self {
        assert!(number <= NUMBER_MAX, "a number left its range");
        Self(number)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Number> for u64 {
    fn from(number: Number) -> Self {
        number.0
    }
}

impl TryFrom<u64> for Number {
    type Error = &'static str;

    fn try_from(number: u64) -> Result<Self, Self::Error> {
        Self::new(number).ok_or("a number is at most 2^63−1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_fits_a_signed_column() {
        assert_eq!(Number::new(NUMBER_MAX), Some(Number::MAX));
        assert_eq!(Number::new(NUMBER_MAX + 1), None);
        assert_eq!(Number::MAX.checked_add(1), None);
        assert_eq!(Number::MAX.checked_add(u64::MAX), None);
        assert_eq!(Number::ZERO.checked_add(NUMBER_MAX), Some(Number::MAX));
    }

    #[test]
    fn a_number_is_a_plain_integer_on_the_wire_and_checked_when_read() {
        assert_eq!(serde_json::to_string(&Number::MAX).unwrap(), "9223372036854775807");
        assert_eq!(serde_json::from_str::<Number>("9223372036854775807").unwrap(), Number::MAX);
        assert!(serde_json::from_str::<Number>("9223372036854775808").is_err());
    }
}
