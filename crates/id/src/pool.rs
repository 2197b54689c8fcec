//! Keys from a space of all texts of a length: `alphabet(shuffle(number))`.
//!
//! A pool that grows has one segment per length; numbers run on through them. A text has one length, so
//! it belongs to one segment and spells at most one number: an alias is withheld once, not once a length.

use crate::{
    block::Block,
    blocklist::Blocklist,
    definition::PoolDefinition,
    form::Form,
    number::{NUMBER_MAX, Number},
    scheme::Scratch,
    shuffle::Shuffle,
    slab::Slab,
};

/// A pool definition made ready for speed.
#[derive(Clone, Debug)]
pub struct Pool {
    form: Form,
    blocklist: Blocklist,
    /// By width, without gaps, at least one.
    segments: Vec<Segment>,
    ordered: bool,
}

/// The numbers spelled with one width.
#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    size: u64,
    width: usize,
    /// `None` when the order is sequential.
    shuffle: Option<Shuffle>,
}

/// What became of a number.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Spelled {
    /// Its key was appended.
    Key,
    /// Its key would contain a blocked word: nothing was appended, and the number is to be burned.
    Blocked,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.size
    }
}

impl Pool {
    pub fn compile(definition: &PoolDefinition) -> Self {
        let form = Form::new(definition.prefix(), definition.alphabet(), definition.check());
        let mut segments: Vec<Segment> = Vec::new();
        let mut start = 0;
        for length in definition.length().. {
            let width = length as usize;
            // Numbers run on through the lengths, so it is their sum that must stay in range.
            let Some(size) = form.spelling().space(width).filter(|size| *size <= NUMBER_MAX - start) else {
                break;
            };
            let shuffle = definition.secret().map(|secret| Shuffle::new(secret, length, size));
            segments.push(Segment { start, size, width, shuffle });
            start += size;
            if !definition.grow() {
                break;
            }
        }
        assert!(!segments.is_empty(), "a definition is valid, so its first length fits");
        let blocklist = Blocklist::new(definition.blocklist()).expect("a definition is valid");
        Self { form, blocklist, segments, ordered: definition.secret().is_none() }
    }

    /// How many numbers it has, over all lengths. Every one of them spells a key, blocked or not.
    pub fn size(&self) -> u64 {
        self.segments.last().map_or(0, Segment::end)
    }

    /// Whether keys must leave in the order of their numbers: only where the definition says
    /// `sequential`, and a reader of the keys could tell.
    pub fn ordered(&self) -> bool {
        self.ordered
    }

    /// Appends the key of a number, unless it is blocked.
    ///
    /// # Panics
    /// When the number is not below [`size`](Self::size).
    pub fn spell(&self, number: Number, out: &mut Vec<u8>) -> Spelled {
        let at = out.len();
        self.spell_even_blocked(number, out);
        if self.blocklist.blocks(&out[at..]) {
            out.truncate(at);
            return Spelled::Blocked;
        }
        Spelled::Key
    }

    pub(crate) fn spell_even_blocked(&self, number: Number, out: &mut Vec<u8>) {
        let segment = self.segment(number);
        let index = number.get() - segment.start;
        let value = segment.shuffle.as_ref().map_or(index, |shuffle| shuffle.forward(index));
        let at = out.len();
        out.resize(at + self.form.stride(segment.width), 0);
        self.form.write(value, &mut out[at..]);
    }

    /// As [`Mint::is_lenient`](crate::Mint::is_lenient).
    pub fn is_lenient(&self) -> bool {
        self.form.spelling().alphabet().is_lenient()
    }

    /// The number a text spells, at any length the pool may grow to. Prefix and check symbol must be
    /// right, case is as lenient as the alphabet. A blocked key has its number too; it is never issued.
    pub fn number_of(&self, text: &str) -> Option<Number> {
        let symbols = self.form.symbols(text.as_bytes())?;
        let first = self.segments.first()?;
        let segment = self.segments.get(symbols.len().checked_sub(first.width)?)?;
        debug_assert_eq!(segment.width, symbols.len());
        let value = self.form.spelling().read(symbols)?;
        let index = segment.shuffle.as_ref().map_or(value, |shuffle| shuffle.backward(value));
        Some(Number::proven(segment.start + index))
    }

    /// The first number after this one that is spelled with another width, or the size. At or above the
    /// size: the size.
    pub fn segment_end(&self, number: Number) -> Number {
        let end = self.find(number).map_or(self.size(), Segment::end);
        Number::proven(end)
    }

    /// How long the key of a number is, prefix and check symbol included.
    ///
    /// # Panics
    /// When the number is not below [`size`](Self::size).
    pub fn width(&self, number: Number) -> usize {
        self.form.stride(self.segment(number).width)
    }

    /// Spells a block of one segment, without the numbers of `holes` (sorted) and without blocked words.
    pub(crate) fn spell_block(&self, block: Block, holes: &[Number], scratch: &mut Scratch) -> Slab {
        let segment = self.segment(block.start());
        assert!(block.end().get() <= segment.end(), "{block} reaches beyond its segment");
        let stride = self.form.stride(segment.width);
        scratch.spell(block, holes, stride, |values, out| {
            for value in &mut *values {
                *value -= segment.start;
            }
            match &segment.shuffle {
                Some(shuffle) => shuffle.forward_many(values),
                None if self.blocklist.is_empty() => {
                    self.form.write_rising(values, stride, out);
                    return values.len() * stride;
                }
                None => {}
            }
            let mut written = 0;
            for value in values {
                let key = &mut out[written..written + stride];
                self.form.write(*value, key);
                // The next key overwrites a blocked one.
                if !self.blocklist.blocks(key) {
                    written += stride;
                }
            }
            written
        })
    }

    fn find(&self, number: Number) -> Option<&Segment> {
        let at = self.segments.partition_point(|segment| segment.end() <= number.get());
        self.segments.get(at)
    }

    fn segment(&self, number: Number) -> &Segment {
        self.find(number).unwrap_or_else(|| panic!("{number} is outside a pool of {}", self.size()))
    }
}
