//! A keyed bijection on `[0, a · b)`: an additive Feistel network with AES as its round function.
//!
//! A value `x` is split into `left = x / b` and `right = x mod b`. Rounds alternate
//! `left ← left + F(right) mod a` and `right ← right + F(left) mod b`. Each round is undone by subtracting
//! what was added, so the whole is a bijection whatever F is. Luby and Rackoff (1988) show that it is a
//! pseudo-random permutation when F is a pseudo-random function; the additive form over unequal halves is
//! the generalised Feistel cipher of Black and Rogaway, "Ciphers with Arbitrary Finite Domains" (CT-RSA 2002).
//!
//! F is AES-128 of (half, round), its 128-bit output scaled into the modulus; a modulus has 32 bits, so
//! the bias of the scaling is below 2^−96.
//!
//! All rounds run inside one closure of the cipher's backend. Calling the cipher round by round would
//! spread its keys over the vector registers every time, which takes longer than the encryption.

use aes::{
    Aes128Enc, Block,
    cipher::{
        BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, InOutBuf, KeyInit,
        consts::U16,
    },
};

use crate::reciprocal::{Reciprocal, multiply_high};

/// Values that go through the rounds side by side. A block takes the processor about 40 cycles, but it could
/// begin another one every few: only independent blocks fill the gap. 64 blocks are one step of the widest
/// vector unit, and a kilobyte.
const LANES: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Feistel {
    cipher: Aes128Enc,
    /// The modulus of the left half, a.
    left: u64,
    /// The modulus of the right half, b.
    right: Reciprocal,
    rounds: u32,
}

#[derive(Copy, Clone)]
enum Direction {
    Forward,
    Backward,
}

impl Feistel {
    /// `rounds` is even, one for each half; `left` is at least 1 and `right` at least 2.
    pub(crate) fn new(key: [u8; 16], left: u64, right: u64, rounds: u32) -> Self {
        assert!(rounds.is_multiple_of(2), "rounds come in pairs");
        // What makes scaling, adding and joining free of overflow.
        assert!((1..1 << 32).contains(&left) && (2..1 << 32).contains(&right), "a half has 32 bits");
        Self { cipher: Aes128Enc::new(&key.into()), left, right: Reciprocal::new(right), rounds }
    }

    /// Where a value below a · b goes.
    pub(crate) fn forward(&self, value: u64) -> u64 {
        let mut value = value;
        self.cipher.encrypt_with_backend(One {
            feistel: self,
            value: &mut value,
            direction: Direction::Forward,
        });
        value
    }

    /// Where a value below a · b came from.
    pub(crate) fn backward(&self, value: u64) -> u64 {
        let mut value = value;
        self.cipher.encrypt_with_backend(One {
            feistel: self,
            value: &mut value,
            direction: Direction::Backward,
        });
        value
    }

    /// [`forward`](Self::forward) for each value in place, for values up to 2^63−1.
    pub(crate) fn forward_many(&self, values: &mut [u64]) {
        self.cipher.encrypt_with_backend(Many { feistel: self, values });
    }

    /// Below a · b, and so below 2^64.
    #[inline]
    fn join(&self, left: u64, right: u64) -> u64 {
        left * self.right.divisor() + right
    }
}

/// What a round encrypts. No two rounds share an input, so one key serves all.
#[inline]
fn input(half: u64, round: u32) -> Block {
    (u128::from(round) << 64 | u128::from(half)).to_le_bytes().into()
}

/// A cipher block scaled into `[0, modulus)`: ⌊block · modulus / 2^128⌋.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both casts take one half of the block")]
fn output(block: &Block, modulus: u64) -> u64 {
    let block = u128::from_le_bytes((*block).into());
    let (high, low) = ((block >> 64) as u64, block as u64);
    // Wrapping here and below, because checks cost time and there is nothing to check: moduli have 32 bits.
    let carry = u128::from(multiply_high(low, modulus));
    (u128::from(high).wrapping_mul(u128::from(modulus)).wrapping_add(carry) >> 64) as u64
}

/// The sum of two values below the modulus. The smaller of sum and sum − modulus is the right one, because
/// the difference wraps to something huge where it must not be taken.
#[inline]
fn add(a: u64, b: u64, modulus: u64) -> u64 {
    let sum = a.wrapping_add(b);
    sum.min(sum.wrapping_sub(modulus))
}

/// The other way round, by the same trick.
#[inline]
fn subtract(a: u64, b: u64, modulus: u64) -> u64 {
    let difference = a.wrapping_sub(b);
    difference.min(difference.wrapping_add(modulus))
}

/// All rounds for one value.
struct One<'a> {
    feistel: &'a Feistel,
    value: &'a mut u64,
    direction: Direction,
}

impl BlockSizeUser for One<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for One<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Feistel { left: a, right, rounds, .. } = self.feistel;
        let (a, b) = (*a, right.divisor());
        let function = |half, round, modulus| {
            let mut block = input(half, round);
            backend.encrypt_block_inplace(&mut block);
            output(&block, modulus)
        };
        // By hardware division: a · b may exceed 2^63−1, above which the reciprocal is not exact.
        let (mut left, mut right) = (*self.value / b, *self.value % b);
        match self.direction {
            Direction::Forward => {
                for round in (0..*rounds).step_by(2) {
                    left = add(left, function(right, round, a), a);
                    right = add(right, function(left, round + 1, b), b);
                }
            }
            Direction::Backward => {
                for round in (0..*rounds).step_by(2).rev() {
                    right = subtract(right, function(left, round + 1, b), b);
                    left = subtract(left, function(right, round, a), a);
                }
            }
        }
        *self.value = self.feistel.join(left, right);
    }
}

/// All rounds for many values, [`LANES`] at a time.
struct Many<'a> {
    feistel: &'a Feistel,
    values: &'a mut [u64],
}

impl BlockSizeUser for Many<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Many<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Feistel { left: a, right: by_b, rounds, .. } = self.feistel;
        let (a, b) = (*a, by_b.divisor());
        let mut left = [0; LANES];
        let mut right = [0; LANES];
        for values in self.values.chunks_mut(LANES) {
            // In the last chunk some lanes have no value of their own; what they compute is dropped.
            for ((left, right), value) in left.iter_mut().zip(&mut right).zip(&*values) {
                (*left, *right) = by_b.divide(*value);
            }
            for pair in (0..*rounds).step_by(2) {
                round(backend, &right, &mut left, pair, a);
                round(backend, &left, &mut right, pair + 1, b);
            }
            for ((left, right), value) in left.iter().zip(&right).zip(values) {
                *value = self.feistel.join(*left, *right);
            }
        }
    }
}

/// Adds to each of `to` what the round makes of its `from`.
#[inline(always)]
fn round<B: BlockCipherEncBackend<BlockSize = U16>>(
    backend: &B,
    from: &[u64; LANES],
    to: &mut [u64; LANES],
    round: u32,
    modulus: u64,
) {
    let mut blocks = from.map(|half| input(half, round));
    let (steps, rest) = InOutBuf::from(&mut blocks[..]).into_chunks::<B::ParBlocksSize>();
    for step in steps {
        backend.encrypt_par_blocks(step);
    }
    backend.encrypt_tail_blocks(rest);
    for (to, block) in to.iter_mut().zip(&blocks) {
        *to = add(*to, output(block, modulus), modulus);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn moduli_are_met_and_never_passed() {
        for modulus in [1, 2, 3, 1000, (1 << 32) - 1] {
            assert_eq!(output(&[0; 16].into(), modulus), 0);
            assert_eq!(output(&[0xff; 16].into(), modulus), modulus - 1);
            for a in [0, modulus / 2, modulus - 1] {
                for b in [0, modulus / 3, modulus - 1] {
                    assert_eq!(add(a, b, modulus), (a + b) % modulus);
                    assert_eq!(subtract(add(a, b, modulus), b, modulus), a);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn an_output_is_the_upper_part_of_the_exact_product(block: [u8; 16], modulus in 1..1_u64 << 32) {
            // In two steps, since the exact product has 160 bits.
            let number = u128::from_le_bytes(block);
            let (high, low) = (number >> 32, number & 0xffff_ffff);
            let exact = (high * u128::from(modulus) + ((low * u128::from(modulus)) >> 32)) >> 96;
            prop_assert_eq!(u128::from(output(&block.into(), modulus)), exact);
        }
    }
}
