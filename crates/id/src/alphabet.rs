//! The symbols keys are made of.
//!
//! An alphabet maps digits to symbols and symbols back to digits. Two presets made for people are read
//! in either case; all others are read exactly, because `aB` and `Ab` are two keys there.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

const CUSTOM: &str = "custom:";

/// Presets by name. All but base64url, which keeps the order of RFC 4648, are in ASCII order, so that
/// sequential keys of one length sort as text.
const PRESETS: &[(&str, &str, Reading)] = &[
    ("base62", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", Reading::Exact),
    // Bitcoin's: without 0 O I l.
    ("base58", "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", Reading::Exact),
    // Without anything that looks alike: 0 O o 1 I l.
    ("base56", "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz", Reading::Exact),
    ("base36", "0123456789abcdefghijklmnopqrstuvwxyz", Reading::EitherCase),
    ("crockford32", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", Reading::Crockford),
    ("base64url", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", Reading::Exact),
    ("decimal", "0123456789", Reading::Exact),
];

#[derive(Copy, Clone, PartialEq, Eq)]
enum Reading {
    Exact,
    EitherCase,
    /// Either case, and I L are read as 1, O as 0 (<https://www.crockford.com/base32.html>).
    Crockford,
}

/// In the table of values: this byte is no symbol.
const NO_SYMBOL: u8 = u8::MAX;

/// 2 to 64 distinct symbols in a fixed order.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Alphabet {
    text: String,
    symbols: Box<[u8]>,
    values: Box<[u8; 256]>,
    reading: Reading,
}

/// Name a preset or spell out a valid custom alphabet.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AlphabetError {
    #[error(
        "no alphabet is called `{}`: choose base62, base58, base56, base36, crockford32, base64url, \
         decimal or custom:SYMBOLS", text.escape_debug()
    )]
    Unknown { text: String },
    #[error("a custom alphabet has 2 to 64 symbols, this one has {count}")]
    Size { count: usize },
    #[error("a custom alphabet is made of `A-Z`, `a-z`, `0-9`, `_` and `-`; `{}` is none of them", symbol.escape_debug())]
    Symbol { symbol: char },
    #[error("the symbols of an alphabet are distinct; `{symbol}` comes twice")]
    Twice { symbol: char },
}

impl Alphabet {
    /// A preset's name, or `custom:` and the symbols in order.
    pub fn parse(text: &str) -> Result<Self, AlphabetError> {
        if let Some((name, symbols, reading)) = PRESETS.iter().find(|(name, ..)| *name == text) {
            return Ok(Self::build(name, symbols.as_bytes(), *reading));
        }
        let Some(symbols) = text.strip_prefix(CUSTOM) else {
            let text = text.chars().take(80).collect();
            return Err(AlphabetError::Unknown { text });
        };
        if let Some(symbol) = symbols.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))
        {
            return Err(AlphabetError::Symbol { symbol });
        }
        if !(2..=64).contains(&symbols.len()) {
            return Err(AlphabetError::Size { count: symbols.len() });
        }
        if let Some((_, symbol)) = symbols.char_indices().find(|(at, c)| symbols[..*at].contains(*c)) {
            return Err(AlphabetError::Twice { symbol });
        }
        Ok(Self::build(text, symbols.as_bytes(), Reading::Exact))
    }

    fn build(text: &str, symbols: &[u8], reading: Reading) -> Self {
        let mut values = Box::new([NO_SYMBOL; 256]);
        for (value, symbol) in (0_u8..).zip(symbols) {
            values[usize::from(*symbol)] = value;
            if reading != Reading::Exact {
                values[usize::from(symbol.to_ascii_lowercase())] = value;
                values[usize::from(symbol.to_ascii_uppercase())] = value;
            }
        }
        if reading == Reading::Crockford {
            for (alike, value) in [(b'I', 1), (b'i', 1), (b'L', 1), (b'l', 1), (b'O', 0), (b'o', 0)] {
                values[usize::from(alike)] = value;
            }
        }
        Self { text: text.to_owned(), symbols: symbols.into(), values, reading }
    }

    /// How many symbols, 2 to 64.
    pub fn radix(&self) -> u32 {
        u32::try_from(self.symbols.len()).expect("an alphabet has at most 64 symbols")
    }

    /// The symbol of a digit below [`radix`](Self::radix).
    pub fn symbol(&self, value: u32) -> u8 {
        self.symbols[value as usize]
    }

    /// The digit a byte is read as; `None` if it is no symbol.
    #[inline]
    pub fn value(&self, byte: u8) -> Option<u32> {
        let value = self.values[usize::from(byte)];
        (value != NO_SYMBOL).then_some(u32::from(value))
    }

    /// Whether a key may be typed in more than one way.
    pub fn is_lenient(&self) -> bool {
        self.reading != Reading::Exact
    }

    /// What [`parse`](Self::parse) was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Alphabet {
    /// By text: a custom alphabet that lists a preset's symbols is still read exactly.
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Alphabet {}

impl FromStr for Alphabet {
    type Err = AlphabetError;

    fn from_str(text: &str) -> Result<Self, AlphabetError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Alphabet {
    type Error = AlphabetError;

    fn try_from(text: String) -> Result<Self, AlphabetError> {
        Self::parse(&text)
    }
}

impl From<Alphabet> for String {
    fn from(alphabet: Alphabet) -> Self {
        alphabet.text
    }
}

impl fmt::Display for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Alphabet({})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset(name: &str) -> Alphabet {
        Alphabet::parse(name).unwrap()
    }

    #[test]
    fn every_preset_has_the_size_its_name_says_and_reads_its_own_symbols() {
        let sizes = [
            ("base62", 62),
            ("base58", 58),
            ("base56", 56),
            ("base36", 36),
            ("crockford32", 32),
            ("base64url", 64),
            ("decimal", 10),
        ];
        for (name, size) in sizes {
            let alphabet = preset(name);
            assert_eq!(alphabet.radix(), size, "{name}");
            assert_eq!(alphabet.to_string(), name);
            for value in 0..size {
                assert_eq!(alphabet.value(alphabet.symbol(value)), Some(value), "{name}");
            }
        }
        assert_eq!(sizes.len(), PRESETS.len());
    }

    #[test]
    fn presets_are_in_ascii_order_but_for_base64url() {
        for (name, symbols, _) in PRESETS {
            assert_eq!(symbols.as_bytes().is_sorted(), *name != "base64url", "{name}");
        }
    }

    #[test]
    fn the_look_alike_free_preset_is_free_of_look_alikes() {
        for alike in *b"0Oo1Il" {
            assert_eq!(preset("base56").value(alike), None);
        }
    }

    #[test]
    fn base36_and_crockford32_are_read_in_either_case_and_the_others_exactly() {
        assert_eq!(preset("base36").value(b'Z'), Some(35));
        assert_eq!(preset("base36").value(b'z'), Some(35));
        assert_eq!(preset("crockford32").value(b'z'), Some(31));
        for (alike, value) in [(b'I', 1), (b'i', 1), (b'L', 1), (b'l', 1), (b'O', 0), (b'o', 0)] {
            assert_eq!(preset("crockford32").value(alike), Some(value));
        }
        assert_eq!(preset("crockford32").value(b'U'), None);
        assert_ne!(preset("base62").value(b'a'), preset("base62").value(b'A'));
        assert_eq!(preset("base58").value(b'l'), None);
        assert_eq!(preset("custom:abc").value(b'A'), None);
        let lenient = PRESETS.iter().map(|(name, ..)| *name).filter(|name| preset(name).is_lenient());
        assert_eq!(lenient.collect::<Vec<_>>(), ["base36", "crockford32"]);
    }

    #[test]
    fn a_custom_alphabet_reads_back_as_it_was_written() {
        let alphabet = preset("custom:zyx-_01");
        assert_eq!(alphabet.radix(), 7);
        assert_eq!(alphabet.symbol(3), b'-');
        assert_eq!(alphabet.to_string(), "custom:zyx-_01");
        let json = serde_json::to_string(&alphabet).unwrap();
        assert_eq!(serde_json::from_str::<Alphabet>(&json).unwrap(), alphabet);
    }

    #[test]
    fn a_wrong_alphabet_is_refused_with_its_reason() {
        let refused = |text: &str| Alphabet::parse(text).unwrap_err();
        assert_eq!(refused("base63"), AlphabetError::Unknown { text: "base63".into() });
        assert_eq!(refused("custom:"), AlphabetError::Size { count: 0 });
        assert_eq!(refused("custom:a"), AlphabetError::Size { count: 1 });
        assert_eq!(refused("custom:ab/"), AlphabetError::Symbol { symbol: '/' });
        assert_eq!(refused("custom:aé"), AlphabetError::Symbol { symbol: 'é' });
        assert_eq!(refused("custom:aba"), AlphabetError::Twice { symbol: 'a' });
        let all = format!("custom:{}a", PRESETS[5].1);
        assert_eq!(refused(&all), AlphabetError::Size { count: 65 });
    }
}
