//! A keyspace compiled: numbers in, keys out, whatever the scheme.

use crate::{
    block::Block,
    definition::Definition,
    number::Number,
    pool::{Pool, Spelled},
    sequence::Sequence,
    slab::Slab,
};

/// Numbers that are shuffled and spelled together. More would not be faster, and 8 KiB stay in the
/// first-level cache.
const BATCH: u64 = 1024;

/// What makes the keys of one keyspace. Compiling takes microseconds; it is done once per keyspace.
#[derive(Clone, Debug)]
pub enum Mint {
    Pool(Pool),
    Sequence(Sequence),
}

/// Memory that spelling needs and a caller may keep, so that a refill allocates its slab and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    values: Vec<u64>,
}

impl Mint {
    /// # Panics
    /// For schemes whose keys are not made from the numbers of one track: they have no mint.
    pub fn compile(definition: &Definition) -> Self {
        match definition {
            Definition::Pool(pool) => Self::Pool(Pool::compile(pool)),
            Definition::Sequence(sequence) => Self::Sequence(Sequence::compile(sequence)),
            Definition::Snowflake(_) | Definition::Free(_) | Definition::Digest(_) => {
                panic!("a {} keyspace has no mint", definition.scheme())
            }
        }
    }

    /// How many numbers the keyspace has: valid ones are below.
    pub fn size(&self) -> u64 {
        match self {
            Self::Pool(pool) => pool.size(),
            Self::Sequence(sequence) => sequence.size(),
        }
    }

    /// Whether keys must leave a node in the order of their numbers.
    pub fn ordered(&self) -> bool {
        match self {
            Self::Pool(pool) => pool.ordered(),
            Self::Sequence(_) => true,
        }
    }

    /// The first number after this one that is spelled with another width, or the size. At or above the
    /// size: the size.
    pub fn segment_end(&self, number: Number) -> Number {
        match self {
            Self::Pool(pool) => pool.segment_end(number),
            Self::Sequence(sequence) => sequence.segment_end(number),
        }
    }

    /// How long the key of a number below the size is, in bytes.
    pub fn width(&self, number: Number) -> usize {
        match self {
            Self::Pool(pool) => pool.width(number),
            Self::Sequence(sequence) => sequence.width(number),
        }
    }

    /// The number a text spells, if it spells one. A text has one length, so it is at most one.
    pub fn number_of(&self, text: &str) -> Option<Number> {
        match self {
            Self::Pool(pool) => pool.number_of(text),
            Self::Sequence(sequence) => sequence.number_of(text),
        }
    }

    /// Whether a key may be typed in more than one way, so that two texts are one key.
    pub fn is_lenient(&self) -> bool {
        match self {
            Self::Pool(pool) => pool.is_lenient(),
            Self::Sequence(sequence) => sequence.is_lenient(),
        }
    }

    /// The one spelling of whatever spells a number, blocked or not: a blocked key is never issued, but it may be a name
    /// that someone chooses.
    pub fn canonical(&self, text: &str) -> Option<String> {
        let number = self.number_of(text)?;
        let mut key = Vec::new();
        match self {
            Self::Pool(pool) => pool.spell_even_blocked(number, &mut key),
            Self::Sequence(sequence) => sequence.spell(number, &mut key),
        }
        Some(String::from_utf8(key).expect("keys are ASCII"))
    }

    /// The key of a number below the size; `None` if it is blocked.
    pub fn spell_one(&self, number: Number) -> Option<String> {
        let mut key = Vec::new();
        match self {
            Self::Pool(pool) => {
                if pool.spell(number, &mut key) == Spelled::Blocked {
                    return None;
                }
            }
            Self::Sequence(sequence) => sequence.spell(number, &mut key),
        }
        Some(String::from_utf8(key).expect("keys are ASCII"))
    }

    /// Spells all numbers of a block but the holes (sorted; those outside the block do not matter) and
    /// those whose keys are blocked.
    ///
    /// # Panics
    /// When the block reaches beyond [`segment_end`](Self::segment_end) of its start, or has 2^32 numbers.
    pub fn spell_block(&self, block: Block, holes: &[Number], scratch: &mut Scratch) -> Slab {
        match self {
            Self::Pool(pool) => pool.spell_block(block, holes, scratch),
            Self::Sequence(sequence) => sequence.spell_block(block, holes, scratch),
        }
    }
}

impl Scratch {
    /// Hands the numbers of a block, but not its holes, to `write` batch by batch, and makes a slab of
    /// what it wrote. `write` may overwrite the numbers and answers how many bytes it filled.
    pub(crate) fn spell(
        &mut self,
        block: Block,
        holes: &[Number],
        stride: usize,
        mut write: impl FnMut(&mut [u64], &mut [u8]) -> usize,
    ) -> Slab {
        assert!(holes.is_sorted(), "holes come sorted");
        let count = u32::try_from(block.count()).expect("a slab holds at most 2^32−1 keys");
        let mut bytes = vec![0; count as usize * stride];
        let mut filled = 0;
        let mut rest = Some(block);
        while let Some(block) = rest {
            let (batch, after) = block.split_at(BATCH);
            rest = after;
            let holes = &holes[holes.partition_point(|hole| *hole < batch.start())..];
            let holes = &holes[..holes.partition_point(|hole| *hole < batch.end())];
            self.values.clear();
            self.values.extend(batch.start().get()..batch.end().get());
            if !holes.is_empty() {
                self.values.retain(|value| holes.binary_search_by_key(value, |hole| hole.get()).is_err());
            }
            filled += write(&mut self.values, &mut bytes[filled..]);
        }
        bytes.truncate(filled);
        Slab::new(bytes.into_boxed_slice(), stride, block)
    }
}
