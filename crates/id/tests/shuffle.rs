//! The shuffle is a bijection, for every size and secret, and looks like chance.

mod common;

use common::secret;
use keymill_id::{NUMBER_MAX, Secret, Shuffle};
use proptest::prelude::*;

/// Every value once, by whichever way, and back again.
fn assert_bijection(shuffle: &Shuffle) {
    let size = shuffle.size();
    let mut many: Vec<u64> = (0..size).collect();
    shuffle.forward_many(&mut many);
    let mut seen = vec![false; usize::try_from(size).unwrap()];
    for (value, shuffled) in (0..).zip(many) {
        assert_eq!(shuffle.forward(value), shuffled, "{value} of {size}");
        assert_eq!(shuffle.backward(shuffled), value, "{value} of {size}");
        assert!(!std::mem::replace(&mut seen[usize::try_from(shuffled).unwrap()], true), "{shuffled} twice");
    }
}

#[test]
fn every_small_space_is_permuted_exactly() {
    for size in 1..=300 {
        assert_bijection(&Shuffle::new(&secret(), 1, size));
    }
}

#[test]
fn spaces_around_squares_and_the_small_limit_are_permuted_exactly() {
    for size in [1296, 62 * 62 * 62, 400 * 400 - 1, 400 * 400, 400 * 400 + 1] {
        assert_bijection(&Shuffle::new(&secret(), 3, size));
    }
}

#[test]
fn a_space_just_above_the_small_limit_is_permuted_exactly_with_fewer_rounds() {
    let size = (1 << 20) + 3;
    let shuffle = Shuffle::new(&secret(), 4, size);
    let mut many: Vec<u64> = (0..size).collect();
    shuffle.forward_many(&mut many);
    many.sort_unstable();
    assert!(many.into_iter().eq(0..size));
}

#[test]
fn the_edges_of_large_spaces_come_back() {
    for size in [62_u64.pow(7), 62_u64.pow(10), 1 << 62, NUMBER_MAX - 1, NUMBER_MAX] {
        let shuffle = Shuffle::new(&secret(), 7, size);
        let root = size.isqrt();
        for value in [0, 1, root - 1, root, root + 1, size / 2, size - root, size - 2, size - 1] {
            let shuffled = shuffle.forward(value);
            assert!(shuffled < size);
            assert_eq!(shuffle.backward(shuffled), value, "{value} of {size}");
            assert_eq!(shuffle.forward(shuffle.backward(value)), value, "{value} of {size}");
        }
    }
}

#[test]
fn a_value_outside_is_refused_by_every_way_in() {
    let shuffle = Shuffle::new(&secret(), 2, 1296);
    let refused = |work: &dyn Fn()| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).expect_err("1296 is outside")
    };
    refused(&|| _ = shuffle.forward(1296));
    refused(&|| _ = shuffle.backward(1296));
    refused(&|| shuffle.forward_many(&mut [0, 1296]));
}

#[test]
fn secret_length_and_size_each_make_another_shuffle() {
    let other = Secret::from_bytes([1; 32]);
    let heads = [
        Shuffle::new(&secret(), 7, 1 << 40),
        Shuffle::new(&other, 7, 1 << 40),
        Shuffle::new(&secret(), 8, 1 << 40),
        Shuffle::new(&secret(), 7, (1 << 40) + 1),
    ]
    .map(|shuffle| [0, 1, 2, 3].map(|value| shuffle.forward(value)));
    for (at, head) in heads.iter().enumerate() {
        assert!(!heads[..at].contains(head), "shuffle {at} repeats an earlier one");
    }
}

/// Pearson's χ² of counts against equal shares.
fn chi_squared(counts: &[u64]) -> f64 {
    let share = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    counts.iter().map(|count| (*count as f64 - share).powi(2) / share).sum()
}

/// Wide enough that chance hardly ever fails, narrow enough that a network of two rounds does. That there
/// are ten is for the golden vectors to guard. Both tails: counts that are too even are no chance either.
fn assert_like_chance(counts: &[u64], what: &str) {
    let freedom = (counts.len() - 1) as f64;
    let deviation = (chi_squared(counts) - freedom) / (2.0 * freedom).sqrt();
    assert!(deviation.abs() < 6.0, "{what}: χ² is {deviation:.1} standard deviations off");
}

#[test]
fn consecutive_numbers_give_values_that_look_like_chance() {
    const SAMPLE: u64 = 1 << 17;
    for size in [62_u64.pow(4), 62_u64.pow(7), 62_u64.pow(10), NUMBER_MAX] {
        let shuffle = Shuffle::new(&secret(), 7, size);
        let mut values: Vec<u64> = (0..SAMPLE).collect();
        shuffle.forward_many(&mut values);
        let bucket = |value: u64| usize::try_from(u128::from(value) * 256 / u128::from(size)).unwrap();
        let mut low = vec![0; 61];
        let mut high = vec![0; 256];
        let mut steps = vec![0; 256];
        let mut flips = [0_u64; 20];
        for pair in values.windows(2) {
            low[usize::try_from(pair[0] % 61).unwrap()] += 1;
            high[bucket(pair[0])] += 1;
            let step = if pair[1] >= pair[0] { pair[1] - pair[0] } else { size - (pair[0] - pair[1]) };
            steps[bucket(step)] += 1;
            for (bit, flips) in flips.iter_mut().enumerate() {
                *flips += (pair[0] ^ pair[1]) >> bit & 1;
            }
        }
        assert_like_chance(&low, &format!("remainders of {size}"));
        assert_like_chance(&high, &format!("high parts of {size}"));
        assert_like_chance(&steps, &format!("steps of {size}"));
        for (bit, flips) in flips.into_iter().enumerate() {
            assert_like_chance(&[flips, SAMPLE - 1 - flips], &format!("bit {bit} of {size}"));
        }
    }
}

#[test]
fn all_orders_of_a_tiny_space_are_about_equally_likely() {
    // Four values have 24 orders. Few enough to count, and the hardest case for a Feistel network.
    let mut counts = vec![0; 256];
    for seed in 0..4800_u64 {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let shuffle = Shuffle::new(&Secret::from_bytes(bytes), 1, 4);
        let order = (0..4).fold(0, |order, value| order * 4 + shuffle.forward(value));
        counts[usize::try_from(order).unwrap()] += 1;
    }
    counts.retain(|count| *count > 0);
    assert_eq!(counts.len(), 24, "every order occurs");
    assert_like_chance(&counts, "orders of four");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_size_and_secret_make_a_bijection(size in 1..5000_u64, bytes: [u8; 32], length in 1..63_u32) {
        assert_bijection(&Shuffle::new(&Secret::from_bytes(bytes), length, size));
    }
}

proptest! {
    #[test]
    fn many_at_a_time_is_the_same_as_one_by_one_and_comes_back(
        size in 1..=NUMBER_MAX,
        shift in 0..63_u32,
        bytes: [u8; 32],
        draws in prop::collection::vec(any::<u64>(), 0..200),
    ) {
        let size = (size >> shift).max(1);
        let shuffle = Shuffle::new(&Secret::from_bytes(bytes), 7, size);
        let values: Vec<u64> = draws.into_iter().map(|draw| draw % size).collect();
        let mut many = values.clone();
        shuffle.forward_many(&mut many);
        for (value, shuffled) in values.into_iter().zip(many) {
            prop_assert!(shuffled < size);
            prop_assert_eq!(shuffle.forward(value), shuffled);
            prop_assert_eq!(shuffle.backward(shuffled), value);
        }
    }
}
