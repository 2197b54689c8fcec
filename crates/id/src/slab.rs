//! A run of spelled keys, side by side.
//!
//! Keys of one block and one width lie in one allocation without separators, so that handing out a
//! thousand of them is one copy.

use crate::block::Block;

/// Keys of one width, in the order of their numbers.
///
/// There may be fewer keys than numbers in the block, and even none: holes and blocked words leave no
/// trace. Which number a key has, the mint that spelled it can say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slab {
    bytes: Box<[u8]>,
    stride: usize,
    keys: u32,
    block: Block,
}

impl Slab {
    /// `bytes` holds whole keys of `stride` bytes each.
    pub(crate) fn new(bytes: Box<[u8]>, stride: usize, block: Block) -> Self {
        assert!(bytes.len().is_multiple_of(stride), "a slab holds whole keys");
        let keys = bytes.len() / stride;
        assert!(keys as u64 <= block.count(), "a slab has more keys than numbers");
        let keys = u32::try_from(keys).expect("a slab holds at most 2^32−1 keys");
        Self { bytes, stride, keys, block }
    }

    /// How many keys.
    pub fn len(&self) -> u32 {
        self.keys
    }

    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// The length of every key, in bytes.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The numbers it was spelled from.
    pub fn block(&self) -> Block {
        self.block
    }

    /// The `index`-th key.
    ///
    /// # Panics
    /// Unless `index < len`.
    #[inline]
    pub fn key(&self, index: u32) -> &[u8] {
        let start = index as usize * self.stride;
        &self.bytes[start..start + self.stride]
    }

    /// The keys `from..to` without anything between them.
    ///
    /// # Panics
    /// Unless `from ≤ to ≤ len`.
    #[inline]
    pub fn joined(&self, from: u32, to: u32) -> &[u8] {
        &self.bytes[from as usize * self.stride..to as usize * self.stride]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;

    fn block(end: u64) -> Block {
        Block::new(Number::ZERO, Number::new(end).unwrap()).unwrap()
    }

    #[test]
    fn keys_lie_side_by_side() {
        let slab = Slab::new(Box::from(*b"aabbcc"), 2, block(4));
        assert_eq!((slab.len(), slab.stride(), slab.block()), (3, 2, block(4)));
        assert_eq!(slab.key(2), b"cc");
        assert_eq!(slab.joined(1, 3), b"bbcc");
        assert_eq!(slab.joined(3, 3), b"");
    }

    #[test]
    fn a_slab_may_have_no_keys_at_all() {
        assert!(Slab::new(Box::default(), 2, block(4)).is_empty());
    }

    #[test]
    #[should_panic(expected = "more keys than numbers")]
    fn a_slab_never_has_more_keys_than_numbers() {
        Slab::new(Box::from(*b"aabbcc"), 2, block(2));
    }
}
