//! What a pool is: its keys, and where the unused ones are kept.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    error::{DefinitionError, invalid},
    rows::Rows,
    spelled::{resolve_alphabet, resolve_blocklist, resolve_check, resolve_prefix},
};
use crate::{
    alphabet::Alphabet,
    blocklist::BlocklistChoice,
    secret::Secret,
    spelling::Spelling,
    stated::{Order, Scheme, Stated, Store},
};

const ALPHABET: &str = "base62";
const LENGTH: u32 = 7;

/// All texts of a length over an alphabet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolDefinition {
    root: bool,
    alphabet: Alphabet,
    length: u32,
    prefix: String,
    check: bool,
    blocklist: BlocklistChoice,
    grow: bool,
    /// `None`: unused keys are nowhere, they are computed.
    rows: Option<Rows>,
    /// Present if and only if the order is shuffled.
    secret: Option<Secret>,
}

impl PoolDefinition {
    pub(super) fn resolve(stated: &Stated, secret: Secret) -> Result<Self, DefinitionError> {
        let alphabet = resolve_alphabet(stated, ALPHABET)?;
        let length = stated.length.unwrap_or(LENGTH);
        let longest = longest(&alphabet);
        if length == 0 {
            return Err(invalid("length", "a key has at least one symbol"));
        }
        if length > longest {
            let radix = alphabet.radix();
            return Err(invalid(
                "length",
                format!("{radix}^{length} exceeds 2^63−1; the longest {alphabet} key is {longest}"),
            ));
        }
        let prefix = resolve_prefix(stated)?;
        Ok(Self {
            root: stated.root.unwrap_or(false),
            check: resolve_check(stated, &alphabet)?,
            alphabet,
            length,
            blocklist: resolve_blocklist(stated, &prefix)?,
            prefix,
            grow: stated.grow.unwrap_or(false),
            rows: Rows::resolve(stated)?,
            secret: match stated.order.unwrap_or(Order::Shuffled) {
                Order::Shuffled => Some(secret),
                Order::Sequential => None,
            },
        })
    }

    pub(super) fn fields(&self) -> BTreeMap<&'static str, Value> {
        let mut fields = BTreeMap::from([
            ("scheme", Scheme::Pool.as_str().into()),
            ("root", self.root.into()),
            ("alphabet", self.alphabet.as_str().into()),
            ("length", self.length.into()),
            ("order", self.order().as_str().into()),
            ("prefix", self.prefix.as_str().into()),
            ("check", self.check.into()),
            ("blocklist", serde_json::to_value(&self.blocklist).expect("plain words serialise")),
            ("grow", self.grow.into()),
            ("store", self.store().as_str().into()),
        ]);
        fields.extend(self.rows.iter().flat_map(Rows::fields));
        fields
    }

    /// Whether it is the keyspace that answers `GET /{key}`.
    pub fn root(&self) -> bool {
        self.root
    }

    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// Symbols without prefix and check symbol; the first length, if the pool grows.
    pub fn length(&self) -> u32 {
        self.length
    }

    pub fn order(&self) -> Order {
        if self.secret.is_some() { Order::Shuffled } else { Order::Sequential }
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn check(&self) -> bool {
        self.check
    }

    pub fn blocklist(&self) -> &BlocklistChoice {
        &self.blocklist
    }

    /// Whether the next length follows when one is used up.
    pub fn grow(&self) -> bool {
        self.grow
    }

    /// Where unused keys are kept.
    pub fn store(&self) -> Store {
        self.rows.as_ref().map_or(Store::Virtual, Rows::store)
    }

    /// The rows that hold unused keys; `None` if the pool is virtual.
    pub fn rows(&self) -> Option<&Rows> {
        self.rows.as_ref()
    }

    pub(crate) fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }
}

/// The longest key whose space has at most 2^63−1 values.
fn longest(alphabet: &Alphabet) -> u32 {
    let spelling = Spelling::new(alphabet.clone());
    (1..).take_while(|length| spelling.space(*length as usize).is_some()).last().unwrap_or(0)
}
