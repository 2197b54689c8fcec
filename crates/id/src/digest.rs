//! Keys made from content: the same content, the same key.
//!
//! Two things are computed from content, and they must not be confused. Its [`Identity`] says whether two
//! contents are the same and is SHA-256, always. The hash of the definition only *spells*: it proposes keys,
//! and where a proposal is taken by other content the next one follows. So an MD5 collision, which anybody
//! can make, costs a second proposal and hijacks nothing.
//!
//! **How a hash is spelled.** The message is the salt, the canonical content, and where [`Dedupe`] says so a
//! zero byte and the owner, or a zero byte and the nonce in lower-case hexadecimal. Its hash of `b` bits,
//! read as a big-endian number `h`, has the `n` symbols of `⌊h · radixⁿ / 2ᵇ⌋`: the digits of the fraction
//! `h / 2ᵇ`. In an alphabet of 64 symbols that is base64 as in RFC 4648, in one of 16 hexadecimal; in the
//! others, unlike in the plain number, the first symbol is as evenly distributed as the rest. The first
//! `length` symbols are the first proposal and the next `length` the second, as far as the hash reaches.
//! After that another hash follows, of the same message with a zero byte and the count `1` in decimal
//! appended, then `2`, and so on. Proposals with a blocked word, and in the root keyspace route words, are
//! left out.

use std::fmt;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::{
    alphabet::Alphabet,
    blocklist::Blocklist,
    definition::DigestDefinition,
    form::Form,
    hex,
    name::ROUTE_WORDS,
    stated::{Dedupe, HashFunction},
};

/// How many random bytes tell equal contents apart where each is to have a key of its own.
pub const NONCE_LENGTH: usize = 16;

/// Hashes after which a content has no more proposals. Whoever meets a taken key so often has a space that
/// is full, or a blocklist that blocks everything.
const ROUNDS_MAX: u32 = 1024;

/// A digest definition made ready for use.
#[derive(Clone, Debug)]
pub struct Digest {
    form: Form,
    blocklist: Blocklist,
    root: bool,
    length: usize,
    hash: HashFunction,
    /// As many symbols as are proposed from one hash.
    symbols: usize,
    salt: Box<str>,
    dedupe: Dedupe,
}

/// Canonical content, with what sets it apart from equal content.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    digest: &'a Digest,
    content: &'a [u8],
    apart: Apart<'a>,
}

#[derive(Clone, Debug)]
enum Apart<'a> {
    Nothing,
    Owner(&'a str),
    Nonce(&'a [u8; NONCE_LENGTH]),
}

/// Equal for equal content of one keyspace, and for nothing else.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Identity([u8; 32]);

/// The keyspace keeps owners apart: say whose content it is.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
#[error("`owner` is required: this keyspace gives every owner a key of its own for the same content")]
pub struct OwnerMissing;

/// The keys a content may have, in the order in which they are tried. Always the same for the same content.
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    subject: Subject<'a>,
    round: u32,
    /// The symbols of this round's hash, and how many were proposed.
    spelled: Vec<u8>,
    proposed: usize,
}

impl Digest {
    pub fn compile(definition: &DigestDefinition) -> Self {
        let length = definition.length() as usize;
        let symbols = symbols_of(definition.hash(), definition.alphabet()) as usize;
        Self {
            form: Form::new(definition.prefix(), definition.alphabet(), definition.check()),
            blocklist: Blocklist::new(definition.blocklist()).expect("a definition is valid"),
            root: definition.root(),
            length,
            hash: definition.hash(),
            symbols: symbols / length * length,
            salt: definition.salt().into(),
            dedupe: definition.dedupe(),
        }
    }

    /// How many keys it can spell; `None` above 2^63−1.
    pub fn size(&self) -> Option<u64> {
        self.form.spelling().space(self.length)
    }

    /// The key that a text is read as, spelled as it would be proposed; `None` if it is read as none.
    pub fn key_of(&self, text: &str) -> Option<String> {
        let alphabet = self.form.spelling().alphabet();
        let symbols = self.form.symbols(text.as_bytes()).filter(|symbols| symbols.len() == self.length)?;
        let symbols: Option<Vec<u8>> =
            symbols.iter().map(|byte| alphabet.value(*byte).map(|value| alphabet.symbol(value))).collect();
        Some(self.form.dress(&symbols?))
    }

    /// Whether some texts are read as a key though they are spelled otherwise.
    pub fn is_lenient(&self) -> bool {
        self.form.spelling().alphabet().is_lenient()
    }

    /// What keys are to be made from. `owner` and `nonce` count only where the definition says so; the
    /// nonce is fresh entropy.
    pub fn subject<'a>(
        &'a self,
        content: &'a [u8],
        owner: Option<&'a str>,
        nonce: &'a [u8; NONCE_LENGTH],
    ) -> Result<Subject<'a>, OwnerMissing> {
        let apart = match self.dedupe {
            Dedupe::Global => Apart::Nothing,
            Dedupe::Owner => Apart::Owner(owner.filter(|owner| !owner.is_empty()).ok_or(OwnerMissing)?),
            Dedupe::Never => Apart::Nonce(nonce),
        };
        Ok(Subject { digest: self, content, apart })
    }

    fn may_be_used(&self, key: &str) -> bool {
        let hides_a_route = self.root && ROUTE_WORDS.iter().any(|word| word.eq_ignore_ascii_case(key));
        !hides_a_route && !self.blocklist.blocks(key.as_bytes())
    }
}

impl<'a> Subject<'a> {
    /// SHA-256 over the parts, each behind its length in eight big-endian bytes, so that no two lists of
    /// parts read the same.
    pub fn identity(&self) -> Identity {
        let mut hasher = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        part(self.content);
        match self.apart {
            Apart::Nothing => {}
            Apart::Owner(owner) => {
                part(b"owner");
                part(owner.as_bytes());
            }
            Apart::Nonce(nonce) => {
                part(b"nonce");
                part(nonce);
            }
        }
        Identity(hasher.finalize().into())
    }

    /// The keys to try, first come first served.
    pub fn candidates(&self) -> Candidates<'a> {
        Candidates { subject: self.clone(), round: 0, spelled: Vec::new(), proposed: 0 }
    }

    fn message(&self, round: u32) -> Vec<u8> {
        let mut message = self.digest.salt.as_bytes().to_vec();
        message.extend_from_slice(self.content);
        let mut append = |text: &str| {
            message.push(0);
            message.extend_from_slice(text.as_bytes());
        };
        match self.apart {
            Apart::Nothing => {}
            Apart::Owner(owner) => append(owner),
            Apart::Nonce(nonce) => append(&hex::encode(nonce)),
        }
        if round > 0 {
            append(&round.to_string());
        }
        message
    }
}

impl Identity {
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Identity {
    /// 64 lower-case hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex::encode(&self.0))
    }
}

impl Iterator for Candidates<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let digest = self.subject.digest;
        loop {
            if self.proposed == self.spelled.len() {
                if self.round == ROUNDS_MAX {
                    return None;
                }
                let hash = hash(digest.hash, &self.subject.message(self.round));
                self.spelled = spell(&hash, digest.form.spelling().alphabet(), digest.symbols);
                self.proposed = 0;
                self.round += 1;
            }
            let slice = &self.spelled[self.proposed..self.proposed + digest.length];
            let key = digest.form.dress(slice);
            self.proposed += digest.length;
            if digest.may_be_used(&key) {
                return Some(key);
            }
        }
    }
}

/// How many symbols a hash is good for: each takes the bits of the next power of two, so that none is made
/// of less than a symbol's worth.
pub(crate) fn symbols_of(hash: HashFunction, alphabet: &Alphabet) -> u32 {
    let bits = match hash {
        HashFunction::Sha256 | HashFunction::Blake3 => 256,
        HashFunction::Md5 => 128,
    };
    bits / alphabet.radix().next_power_of_two().ilog2()
}

fn hash(function: HashFunction, message: &[u8]) -> Vec<u8> {
    match function {
        HashFunction::Sha256 => Sha256::digest(message).to_vec(),
        HashFunction::Md5 => md5::Md5::digest(message).to_vec(),
        HashFunction::Blake3 => blake3::hash(message).as_bytes().to_vec(),
    }
}

/// The first `count` digits of a fraction: multiplied by the radix, what is carried over its point is the
/// next one.
fn spell(fraction: &[u8], alphabet: &Alphabet, count: usize) -> Vec<u8> {
    let radix = alphabet.radix();
    let mut fraction = fraction.to_vec();
    let mut symbol = || {
        let carried = fraction.iter_mut().rev().fold(0, |carry, byte| {
            let product = u32::from(*byte) * radix + carry;
            *byte = product.to_le_bytes()[0];
            product >> 8
        });
        alphabet.symbol(carried)
    };
    (0..count).map(|_| symbol()).collect()
}
