//! Dense tickets: the n-th key is `offset + n · step`.
//!
//! Two servers with step 2 and offsets 1 and 2 share a sequence without talking, as Flickr's ticket
//! servers did. Keys are padded to a least width and grow beyond it when they must.

use crate::{
    block::Block,
    definition::SequenceDefinition,
    form::Form,
    number::{NUMBER_MAX, Number},
    scheme::Scratch,
    slab::Slab,
};

/// A sequence definition made ready for speed.
#[derive(Clone, Debug)]
pub struct Sequence {
    form: Form,
    offset: u64,
    step: u64,
    width_min: usize,
    size: u64,
}

impl Sequence {
    pub fn compile(definition: &SequenceDefinition) -> Self {
        let (offset, step) = (definition.offset(), definition.step());
        // As many values as fit 63 bits. From 0 by 1 that is one number more than a cursor can pass.
        let size = ((NUMBER_MAX - offset) / step + 1).min(NUMBER_MAX);
        Self {
            form: Form::new(definition.prefix(), definition.alphabet(), definition.check()),
            offset,
            step,
            width_min: definition.length() as usize,
            size,
        }
    }

    /// How many numbers it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// `offset + number · step`.
    ///
    /// # Panics
    /// When the number is not below [`size`](Self::size).
    pub fn value_of(&self, number: Number) -> u64 {
        assert!(number.get() < self.size, "{number} is outside a sequence of {}", self.size);
        // In range, because the size was chosen so; overflow checks are on in release all the same.
        self.offset + number.get() * self.step
    }

    /// Appends the key of a number.
    ///
    /// # Panics
    /// When the number is not below [`size`](Self::size).
    pub fn spell(&self, number: Number, out: &mut Vec<u8>) {
        let value = self.value_of(number);
        let at = out.len();
        out.resize(at + self.stride(value), 0);
        self.form.write(value, &mut out[at..]);
    }

    /// As [`Mint::is_lenient`](crate::Mint::is_lenient).
    pub fn is_lenient(&self) -> bool {
        self.form.spelling().alphabet().is_lenient()
    }

    /// The number a text spells. Padding beyond the least width is refused: it is another text.
    pub fn number_of(&self, text: &str) -> Option<Number> {
        let symbols = self.form.symbols(text.as_bytes())?;
        let value = self.form.spelling().read(symbols)?;
        if symbols.len() != self.symbols(value) {
            return None;
        }
        let distance = value.checked_sub(self.offset)?;
        let number = distance / self.step;
        (distance.is_multiple_of(self.step) && number < self.size).then(|| Number::proven(number))
    }

    /// The first number after this one that is spelled with another width, or the size. At or above the
    /// size: the size.
    pub fn segment_end(&self, number: Number) -> Number {
        if number.get() >= self.size {
            return Number::proven(self.size);
        }
        let end =
            self.form.spelling().space(self.symbols(self.value_of(number))).map_or(self.size, |wider| {
                // The first number whose value is at least `wider`, which is above this number's.
                (wider - self.offset).div_ceil(self.step).min(self.size)
            });
        Number::proven(end)
    }

    /// How long the key of a number is, prefix and check symbol included.
    ///
    /// # Panics
    /// When the number is not below [`size`](Self::size).
    pub fn width(&self, number: Number) -> usize {
        self.stride(self.value_of(number))
    }

    /// Spells a block of one segment, without the numbers of `holes` (sorted).
    pub(crate) fn spell_block(&self, block: Block, holes: &[Number], scratch: &mut Scratch) -> Slab {
        assert!(block.end() <= self.segment_end(block.start()), "{block} reaches beyond its segment");
        let stride = self.width(block.start());
        scratch.spell(block, holes, stride, |values, out| {
            for number in &mut *values {
                *number = self.offset + *number * self.step;
            }
            self.form.write_rising(values, stride, out);
            values.len() * stride
        })
    }

    fn symbols(&self, value: u64) -> usize {
        self.form.spelling().width(value).max(self.width_min)
    }

    fn stride(&self, value: u64) -> usize {
        self.form.stride(self.symbols(value))
    }
}
