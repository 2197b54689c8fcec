//! Values as symbols: positional notation of a fixed width, most significant symbol first.
//!
//! A value and a width have exactly one spelling, and a spelling has exactly one value. Two symbols are
//! looked up at a time, which halves the divisions; the table costs at most 8 KiB per keyspace and stays
//! in the first-level cache.

use crate::{alphabet::Alphabet, number::NUMBER_MAX, reciprocal::Reciprocal};

/// An alphabet made ready for speed.
#[derive(Clone, Debug)]
pub struct Spelling {
    alphabet: Alphabet,
    /// Divides by radix².
    by_pair: Reciprocal,
    /// The two symbols of every value below radix².
    pairs: Box<[[u8; 2]]>,
    /// radix^0, radix^1, … as far as numbers reach.
    powers: Box<[u64]>,
}

impl Spelling {
    pub fn new(alphabet: Alphabet) -> Self {
        let radix = alphabet.radix();
        let pairs = (0..radix)
            .flat_map(|high| (0..radix).map(move |low| (high, low)))
            .map(|(high, low)| [alphabet.symbol(high), alphabet.symbol(low)])
            .collect();
        let radix = u64::from(radix);
        let powers =
            std::iter::successors(Some(1_u64), |power| power.checked_mul(radix).filter(|p| *p <= NUMBER_MAX))
                .collect();
        Self { alphabet, by_pair: Reciprocal::new(radix * radix), pairs, powers }
    }

    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// radix^width, or `None` above [`NUMBER_MAX`].
    pub fn space(&self, width: usize) -> Option<u64> {
        self.powers.get(width).copied()
    }

    /// The fewest symbols that spell a value.
    pub fn width(&self, value: u64) -> usize {
        self.powers.partition_point(|power| *power <= value).max(1)
    }

    /// Fills `out` with the spelling of `value`, padded with the alphabet's first symbol.
    ///
    /// # Panics
    /// When the value does not fit: a clipped key would be another number's.
    #[inline]
    pub fn spell(&self, value: u64, out: &mut [u8]) {
        assert!(value <= NUMBER_MAX, "a value has 63 bits");
        let mut left = value;
        let (head, body) = out.split_at_mut(out.len() % 2);
        for slot in body.as_chunks_mut::<2>().0.iter_mut().rev() {
            let (quotient, pair) = self.by_pair.divide(left);
            *slot = self.pair(pair);
            left = quotient;
        }
        if let [symbol] = head {
            assert!(left < u64::from(self.alphabet.radix()), "the value is wider than its key");
            *symbol = self.pair(left)[1];
        } else {
            assert!(left == 0, "the value is wider than its key");
        }
    }

    /// The first value above this one that differs from it in more than the last two symbols.
    #[inline]
    pub(crate) fn run_end(&self, value: u64) -> u64 {
        let (quotient, _) = self.by_pair.divide(value);
        (quotient + 1) * self.pairs.len() as u64
    }

    /// Writes the last two symbols of a value into `out`. `run_end` is what [`run_end`](Self::run_end) says of it.
    #[inline]
    pub(crate) fn spell_last_two(&self, value: u64, run_end: u64, out: &mut [u8]) {
        // The table has an entry for every value of the run, and for no other.
        out.copy_from_slice(&self.pair(value + self.pairs.len() as u64 - run_end));
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a pair is below 64²")]
    fn pair(&self, value: u64) -> [u8; 2] {
        self.pairs[value as usize]
    }

    /// The value of a spelling, leading zeros and all; `None` if a byte is no symbol or the value would
    /// pass [`NUMBER_MAX`]. Whether the width is the right one is for the caller to say.
    pub fn read(&self, symbols: &[u8]) -> Option<u64> {
        if symbols.is_empty() {
            return None;
        }
        let radix = u64::from(self.alphabet.radix());
        let value = symbols.iter().try_fold(0_u64, |value, byte| {
            value.checked_mul(radix)?.checked_add(u64::from(self.alphabet.value(*byte)?))
        })?;
        (value <= NUMBER_MAX).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spelling(alphabet: &str) -> Spelling {
        Spelling::new(Alphabet::parse(alphabet).unwrap())
    }

    fn spelled(spelling: &Spelling, value: u64, width: usize) -> String {
        let mut out = vec![b'!'; width];
        spelling.spell(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimal_is_what_everyone_knows() {
        let decimal = spelling("decimal");
        assert_eq!(spelled(&decimal, 0, 1), "0");
        assert_eq!(spelled(&decimal, 42, 5), "00042");
        assert_eq!(spelled(&decimal, 1234, 4), "1234");
        assert_eq!(spelled(&decimal, NUMBER_MAX, 19), NUMBER_MAX.to_string());
        assert_eq!(decimal.read(b"9223372036854775807"), Some(NUMBER_MAX));
        assert_eq!(decimal.read(b"9223372036854775808"), None);
        assert_eq!(decimal.read(b"18446744073709551616"), None);
        assert_eq!(decimal.read(b""), None);
        assert_eq!(decimal.read(b"1 2"), None);
    }

    #[test]
    fn widths_change_at_powers_of_the_radix() {
        let base62 = spelling("base62");
        for (value, width) in [(0, 1), (1, 1), (61, 1), (62, 2), (3843, 2), (3844, 3), (NUMBER_MAX, 11)] {
            assert_eq!(base62.width(value), width, "{value}");
        }
        assert_eq!(base62.space(7), Some(3_521_614_606_208));
        assert_eq!(base62.space(10), Some(839_299_365_868_340_224));
        assert_eq!(base62.space(11), None);
        assert_eq!(spelling("custom:01").space(62), Some(1 << 62));
        assert_eq!(spelling("custom:01").space(63), None);
    }

    #[test]
    #[should_panic(expected = "wider")]
    fn a_value_one_too_large_for_an_even_width_is_not_clipped() {
        spelled(&spelling("base62"), 62 * 62, 2);
    }

    #[test]
    #[should_panic(expected = "wider")]
    fn a_value_one_too_large_for_an_odd_width_is_not_clipped() {
        spelled(&spelling("base62"), 62 * 62 * 62, 3);
    }

    proptest! {
        #[test]
        fn what_is_spelled_is_read_back(
            alphabet in prop::sample::select(vec![
                "base62", "base58", "base56", "base36", "crockford32", "base64url", "decimal", "custom:ab", "custom:_-Z",
            ]),
            value in 0..=NUMBER_MAX,
            shift in 0..63_u32,
            padding in 0..3_usize,
        ) {
            let spelling = spelling(alphabet);
            let value = value >> shift;
            let mut out = vec![b'!'; spelling.width(value) + padding];
            spelling.spell(value, &mut out);
            prop_assert_eq!(spelling.read(&out), Some(value));
        }

        #[test]
        fn two_values_never_share_a_spelling(a in 0..62_u64.pow(7), b in 0..62_u64.pow(7)) {
            let base62 = spelling("base62");
            prop_assert_eq!(spelled(&base62, a, 7) == spelled(&base62, b, 7), a == b);
        }
    }
}
