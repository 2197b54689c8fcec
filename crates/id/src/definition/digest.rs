//! What keys made from content are: which content is the same, and how its key is spelled.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    error::{DefinitionError, invalid},
    spelled::{resolve_alphabet, resolve_blocklist, resolve_check, resolve_prefix},
};
use crate::{
    alphabet::Alphabet,
    blocklist::BlocklistChoice,
    digest::symbols_of,
    stated::{Canonical, Dedupe, HashFunction, Scheme, Stated},
};

const ALPHABET: &str = "base62";
const LENGTH: u32 = 8;
/// 190 bits in base62: longer keys would tell nothing more apart.
const LENGTH_MAX: u32 = 32;
const SALT_LENGTH_MAX: usize = 128;

/// A key is the beginning of a spelled hash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DigestDefinition {
    root: bool,
    alphabet: Alphabet,
    length: u32,
    prefix: String,
    check: bool,
    blocklist: BlocklistChoice,
    hash: HashFunction,
    salt: String,
    dedupe: Dedupe,
    canonical: Canonical,
}

impl DigestDefinition {
    pub(super) fn resolve(stated: &Stated) -> Result<Self, DefinitionError> {
        let alphabet = resolve_alphabet(stated, ALPHABET)?;
        let hash = stated.hash.unwrap_or(HashFunction::Sha256);
        let length = stated.length.unwrap_or(LENGTH);
        let longest = symbols_of(hash, &alphabet).min(LENGTH_MAX);
        if !(1..=longest).contains(&length) {
            let reason = format!("a key from {hash} in {alphabet} has 1 to {longest} symbols");
            return Err(invalid("length", reason));
        }
        let salt = stated.salt.as_deref().unwrap_or_default();
        if salt.len() > SALT_LENGTH_MAX {
            let reason = format!("it has {} bytes and may have {SALT_LENGTH_MAX}", salt.len());
            return Err(invalid("salt", reason));
        }
        let prefix = resolve_prefix(stated)?;
        Ok(Self {
            root: stated.root.unwrap_or(false),
            check: resolve_check(stated, &alphabet)?,
            alphabet,
            length,
            blocklist: resolve_blocklist(stated, &prefix)?,
            prefix,
            hash,
            salt: salt.to_owned(),
            dedupe: stated.dedupe.unwrap_or(Dedupe::Global),
            canonical: stated.canonical.unwrap_or(Canonical::Url),
        })
    }

    pub(super) fn fields(&self) -> BTreeMap<&'static str, Value> {
        BTreeMap::from([
            ("scheme", Scheme::Digest.as_str().into()),
            ("root", self.root.into()),
            ("alphabet", self.alphabet.as_str().into()),
            ("length", self.length.into()),
            ("prefix", self.prefix.as_str().into()),
            ("check", self.check.into()),
            ("blocklist", serde_json::to_value(&self.blocklist).expect("plain words serialise")),
            ("hash", self.hash.as_str().into()),
            ("salt", self.salt.as_str().into()),
            ("dedupe", self.dedupe.as_str().into()),
            ("canonical", self.canonical.as_str().into()),
        ])
    }

    /// Whether it is the keyspace that answers `GET /{key}`.
    pub fn root(&self) -> bool {
        self.root
    }

    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// Symbols without prefix and check symbol.
    pub fn length(&self) -> u32 {
        self.length
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

    /// What spells the key. It does not tell contents apart: that is SHA-256's alone.
    pub fn hash(&self) -> HashFunction {
        self.hash
    }

    /// What is hashed before the content, so that two keyspaces spell the same content differently.
    pub fn salt(&self) -> &str {
        &self.salt
    }

    pub fn dedupe(&self) -> Dedupe {
        self.dedupe
    }

    pub fn canonical(&self) -> Canonical {
        self.canonical
    }
}
