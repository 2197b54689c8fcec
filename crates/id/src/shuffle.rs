//! A keyed bijection on exactly `[0, n)`, so that consecutive numbers become keys nobody can guess.
//!
//! **Construction.** A Feistel network (see `feistel`) permutes a domain of `a · b ≥ n` values, and *cycle
//! walking* (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002) restricts it to `[0, n)`: a
//! result outside is sent through again until it falls inside.
//!
//! **Walks are rare.** With `b = ⌈√n⌉` and `a = ⌈n / b⌉` fewer than `b` values lie outside, so an evaluation
//! takes `a · b / n < 1 + b / n` passes on average: at most 1.0000006 for base62 × 7, where halves of whole bits
//! would take 1.25. Only spaces of a few keys walk noticeably.
//!
//! **Key.** SHA-256 over a label, the keyspace's secret, the length of its keys and n, so each length of a
//! growing pool has a shuffle of its own.
//!
//! **Rounds.** Ten, as in FF1 (NIST SP 800-38G). The best generic attacks look for pairs of values that agree in
//! one half, and measure by how much later halves agree more often than chance (Patarin, "Generic Attacks on
//! Feistel Schemes", 2001; Bellare, Hoang and Tessaro, "Message-Recovery Attacks on Feistel-Based Format
//! Preserving Encryption", 2016). After r rounds the excess is about `√n^(1 − r/2)`. At n = 2^20 that is 2^−40,
//! and the whole space has but 2^29 such pairs: far below the noise. To rise above it the attacks collect pairs from
//! many permutations under one key; here a key makes one. Below 2^20 the halves are so short that the margin
//! melts (FF1 refuses such domains), and 24 rounds restore it. What no number of rounds can help: who has seen
//! all keys of a small space but one knows the last.

use sha2::{Digest, Sha256};

use crate::{feistel::Feistel, number::NUMBER_MAX, secret::Secret};

/// Sets this use of a secret apart from any other, and this construction from any later one.
const LABEL: &[u8] = b"keymill shuffle 1: aes-128 additive feistel";

const ROUNDS: u32 = 10;
const ROUNDS_SMALL: u32 = 24;
/// Spaces below this size are small.
const SMALL: u64 = 1 << 20;

/// A permutation of `[0, n)`.
#[derive(Clone, Debug)]
pub struct Shuffle {
    feistel: Feistel,
    size: u64,
}

impl Shuffle {
    /// The shuffle of `size` values that belongs to a secret and a key length.
    ///
    /// # Panics
    /// Unless `1 ≤ size ≤ 2^63−1`.
    pub fn new(secret: &Secret, length: u32, size: u64) -> Self {
        assert!((1..=NUMBER_MAX).contains(&size), "cannot shuffle {size} values");
        // Every part but the label has a fixed length, so no two inputs run into each other.
        let digest: [u8; 32] = Sha256::new()
            .chain_update(LABEL)
            .chain_update(secret.bytes())
            .chain_update(length.to_le_bytes())
            .chain_update(size.to_le_bytes())
            .finalize()
            .into();
        let key = *digest.first_chunk().expect("16 of 32 bytes");
        let root = size.isqrt();
        // At least 2, which the network asks for; spaces of one or two keys do not mind.
        let right = (root + u64::from(root * root < size)).max(2);
        let left = size.div_ceil(right);
        assert!(
            u128::from(left) * u128::from(right) - u128::from(size) < u128::from(right),
            "a tight domain"
        );
        let rounds = if size < SMALL { ROUNDS_SMALL } else { ROUNDS };
        Self { feistel: Feistel::new(key, left, right, rounds), size }
    }

    /// How many values are shuffled.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where `value` goes.
    ///
    /// # Panics
    /// When `value` is not below [`size`](Self::size).
    pub fn forward(&self, value: u64) -> u64 {
        self.assert_inside(value);
        self.walk(value)
    }

    /// Where `value` came from: `backward(forward(x)) == x`.
    ///
    /// # Panics
    /// When `value` is not below [`size`](Self::size).
    pub fn backward(&self, value: u64) -> u64 {
        self.assert_inside(value);
        let mut value = value;
        loop {
            value = self.feistel.backward(value);
            if value < self.size {
                return value;
            }
        }
    }

    /// [`forward`](Self::forward) for each value in place, many times as fast.
    ///
    /// # Panics
    /// When a value is not below [`size`](Self::size).
    pub fn forward_many(&self, values: &mut [u64]) {
        for value in &*values {
            self.assert_inside(*value);
        }
        self.feistel.forward_many(values);
        for value in values {
            if *value >= self.size {
                *value = self.walk(*value);
            }
            self.assert_inside(*value);
        }
    }

    /// Passes until the value is inside. It ends: the cycle of a value from inside leads back there, at the
    /// latest to the value itself.
    fn walk(&self, value: u64) -> u64 {
        let mut value = value;
        loop {
            value = self.feistel.forward(value);
            if value < self.size {
                return value;
            }
        }
    }

    /// On in release too: a value outside would be some other number's key.
    #[inline]
    fn assert_inside(&self, value: u64) {
        assert!(value < self.size, "{value} is outside a shuffle of {}", self.size);
    }
}
