//! How a value is written as a key: prefix, symbols, check symbol.
//!
//! Pools and sequences differ in which value a number has; the text around it is the same for both and
//! lives here. The check symbol covers the symbols and not the prefix, which may use other characters.

use crate::{
    alphabet::Alphabet,
    check::{check_symbol, verify_check},
    spelling::Spelling,
};

/// Fills `bytes` with copies of its first `length` bytes, in steps that double.
fn repeat(bytes: &mut [u8], length: usize) {
    let mut filled = length;
    while filled < bytes.len() {
        let more = filled.min(bytes.len() - filled);
        bytes.copy_within(..more, filled);
        filled += more;
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Form {
    prefix: Box<[u8]>,
    spelling: Spelling,
    check: bool,
}

impl Form {
    pub(crate) fn new(prefix: &str, alphabet: &Alphabet, check: bool) -> Self {
        Self { prefix: prefix.as_bytes().into(), spelling: Spelling::new(alphabet.clone()), check }
    }

    pub(crate) fn spelling(&self) -> &Spelling {
        &self.spelling
    }

    /// The length of a key with `width` symbols.
    pub(crate) fn stride(&self, width: usize) -> usize {
        self.prefix.len() + width + usize::from(self.check)
    }

    /// Fills `out`, which is as long as a whole key, with the key of `value`.
    #[inline]
    pub(crate) fn write(&self, value: u64, out: &mut [u8]) {
        let (prefix, body) = out.split_at_mut(self.prefix.len());
        prefix.copy_from_slice(&self.prefix);
        if self.check {
            let (check, symbols) = body.split_last_mut().expect("a key has room for its check symbol");
            self.spelling.spell(value, symbols);
            *check = check_symbol(self.spelling.alphabet(), symbols).expect("spelled from the alphabet");
        } else {
            self.spelling.spell(value, body);
        }
    }

    /// Fills `out` with the keys of rising values, `stride` bytes each. Neighbours differ in their last two
    /// symbols only, so a whole run is laid out by copying and those two are written over.
    pub(crate) fn write_rising(&self, values: &[u64], stride: usize, out: &mut [u8]) {
        let last_two = stride - 2 * usize::from(!self.check && stride >= self.prefix.len() + 2);
        let mut rest = values;
        let mut out = &mut out[..values.len() * stride];
        while let Some(first) = rest.first() {
            let run_end = if last_two < stride { self.spelling.run_end(*first) } else { first + 1 };
            let (run, after) = rest.split_at(rest.partition_point(|value| *value < run_end));
            let (keys, further) = out.split_at_mut(run.len() * stride);
            self.write(*first, &mut keys[..stride]);
            repeat(keys, stride);
            for (value, key) in run.iter().zip(keys.chunks_exact_mut(stride)).skip(1) {
                self.spelling.spell_last_two(*value, run_end, &mut key[last_two..]);
            }
            (rest, out) = (after, further);
        }
    }

    /// The key of symbols that are spelled already.
    pub(crate) fn dress(&self, symbols: &[u8]) -> String {
        let mut key = Vec::with_capacity(self.stride(symbols.len()));
        key.extend_from_slice(&self.prefix);
        key.extend_from_slice(symbols);
        if self.check {
            key.push(check_symbol(self.spelling.alphabet(), symbols).expect("spelled from the alphabet"));
        }
        String::from_utf8(key).expect("keys are ASCII")
    }

    /// The symbols between prefix and check symbol, if both are right.
    pub(crate) fn symbols<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let body = text.strip_prefix(&*self.prefix)?;
        if !self.check {
            return Some(body);
        }
        verify_check(self.spelling.alphabet(), body).then(|| &body[..body.len() - 1])
    }
}
