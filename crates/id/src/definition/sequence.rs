//! What a sequence is: where its tickets start, and how they are written.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    error::{DefinitionError, invalid},
    spelled::{resolve_alphabet, resolve_check, resolve_prefix},
};
use crate::{
    alphabet::Alphabet,
    number::NUMBER_MAX,
    stated::{Scheme, Stated},
};

const ALPHABET: &str = "decimal";
const LENGTH: u32 = 1;
/// Wide enough for 2^63−1 in any alphabet; padding beyond it says nothing.
const LENGTH_MAX: u32 = 64;

/// `offset`, `offset + step`, `offset + 2 · step`, …
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceDefinition {
    alphabet: Alphabet,
    length: u32,
    prefix: String,
    check: bool,
    offset: u64,
    step: u64,
}

impl SequenceDefinition {
    pub(super) fn resolve(stated: &Stated) -> Result<Self, DefinitionError> {
        let alphabet = resolve_alphabet(stated, ALPHABET)?;
        let length = stated.length.unwrap_or(LENGTH);
        if !(1..=LENGTH_MAX).contains(&length) {
            return Err(invalid("length", format!("the least width is 1 to {LENGTH_MAX}")));
        }
        let offset = stated.offset.unwrap_or(1);
        if offset > NUMBER_MAX {
            return Err(invalid("offset", "the first key is at most 2^63−1"));
        }
        let step = stated.step.unwrap_or(1);
        if !(1..=NUMBER_MAX).contains(&step) {
            return Err(invalid("step", "keys are 1 to 2^63−1 apart"));
        }
        Ok(Self {
            check: resolve_check(stated, &alphabet)?,
            alphabet,
            length,
            prefix: resolve_prefix(stated)?,
            offset,
            step,
        })
    }

    pub(super) fn fields(&self) -> BTreeMap<&'static str, Value> {
        BTreeMap::from([
            ("scheme", Scheme::Sequence.as_str().into()),
            ("alphabet", self.alphabet.as_str().into()),
            ("length", self.length.into()),
            ("prefix", self.prefix.as_str().into()),
            ("check", self.check.into()),
            ("offset", self.offset.to_string().into()),
            ("step", self.step.to_string().into()),
        ])
    }

    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// The least width, zero-padded, without prefix and check symbol.
    pub fn length(&self) -> u32 {
        self.length
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn check(&self) -> bool {
        self.check
    }

    /// The first key.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn step(&self) -> u64 {
        self.step
    }
}
