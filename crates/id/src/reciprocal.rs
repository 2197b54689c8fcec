//! Division by a divisor that is known early and used often, as one multiplication.
//!
//! A hardware division costs several times a multiplication, and both the shuffle and the spelling do
//! little but divide. Numbers have 63 bits, and for 63-bit dividends the rounded-up reciprocal always
//! fits 64 bits (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994,
//! theorem 4.2 with N = 63), so no case needs a correction step.

use crate::number::NUMBER_MAX;

/// Divides by `divisor` ≥ 2. Exact for every dividend up to [`NUMBER_MAX`].
#[derive(Clone, Debug)]
pub(crate) struct Reciprocal {
    divisor: u64,
    multiplier: u64,
    shift: u32,
}

impl Reciprocal {
    pub(crate) fn new(divisor: u64) -> Self {
        assert!((2..=NUMBER_MAX).contains(&divisor), "no reciprocal of {divisor}");
        let log2_up = u64::BITS - (divisor - 1).leading_zeros();
        let multiplier = (1_u128 << (63 + log2_up)).div_ceil(u128::from(divisor));
        Self {
            divisor,
            multiplier: u64::try_from(multiplier).expect("the theorem bounds it by 2^64"),
            shift: log2_up - 1,
        }
    }

    pub(crate) fn divisor(&self) -> u64 {
        self.divisor
    }

    /// Quotient and remainder.
    #[inline]
    pub(crate) fn divide(&self, dividend: u64) -> (u64, u64) {
        debug_assert!(dividend <= NUMBER_MAX);
        let quotient = multiply_high(dividend, self.multiplier) >> self.shift;
        // Wrapping, because an overflow check costs as much as the multiplication, and the theorem has
        // no room for one.
        (quotient, dividend.wrapping_sub(quotient.wrapping_mul(self.divisor)))
    }
}

/// The upper half of a 128-bit product.
#[inline]
pub(crate) fn multiply_high(a: u64, b: u64) -> u64 {
    (u128::from(a).wrapping_mul(u128::from(b)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_divisors_and_powers_of_two_divide_exactly_at_the_edges() {
        let powers = (1..63).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 1]);
        for divisor in (2..5000).chain(powers).chain([NUMBER_MAX]).filter(|d| *d >= 2) {
            let reciprocal = Reciprocal::new(divisor);
            let most = NUMBER_MAX / divisor * divisor;
            for dividend in [0, 1, divisor - 1, divisor, most - 1, most, NUMBER_MAX] {
                assert_eq!(reciprocal.divide(dividend), (dividend / divisor, dividend % divisor));
            }
        }
    }

    proptest! {
        #[test]
        fn any_divisor_divides_exactly(divisor in 2..=NUMBER_MAX, dividend in 0..=NUMBER_MAX, shift in 0..62_u32) {
            let divisor = (divisor >> shift).max(2);
            prop_assert_eq!(Reciprocal::new(divisor).divide(dividend), (dividend / divisor, dividend % divisor));
        }
    }
}
