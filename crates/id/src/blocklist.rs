//! Words that no key may contain.
//!
//! A blocked number is skipped and burned, never remapped: remapping would need a memory of what was
//! remapped, and the whole point of a number is that none is needed. Words are matched anywhere in a key,
//! in any case, and through the digits people read as letters. An empty list costs one comparison.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::profanity::PROFANITY;

/// The shortest word. Two letters would block one key in a hundred, and offend nobody.
const WORD_LETTERS_MIN: usize = 3;

/// The letter each byte is read as: `a` is 1, `z` is 26, 0 is no letter.
const LETTER: [u8; 256] = {
    let mut table = [0; 256];
    let mut letter = 0;
    while letter < 26 {
        table[(b'a' + letter) as usize] = letter + 1;
        table[(b'A' + letter) as usize] = letter + 1;
        letter += 1;
    }
    let alike = [(b'0', b'o'), (b'1', b'i'), (b'3', b'e'), (b'4', b'a'), (b'5', b's'), (b'7', b't')];
    let mut at = 0;
    while at < alike.len() {
        table[alike[at].0 as usize] = alike[at].1 - b'a' + 1;
        at += 1;
    }
    table
};

/// What a definition says about blocked words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "`blocklist` is a list of words or \"default\"")]
pub enum BlocklistChoice {
    /// A list by name; there is one, `default`.
    Named(String),
    /// These words, in the order given.
    Words(Vec<String>),
}

impl Default for BlocklistChoice {
    /// No word is blocked.
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

/// Words made ready for matching.
#[derive(Clone, Debug, Default)]
pub struct Blocklist {
    /// As letters from 1, sorted, none twice.
    words: Box<[Box<[u8]>]>,
    /// A bit for every three letters that some word begins with: 4 KiB that let nearly every key pass
    /// at a load per symbol. `None` if there are no words.
    beginnings: Option<Box<Beginnings>>,
}

/// Three letters take 15 bits.
type Beginnings = [u64; (1 << 15) / 64];

/// Correct the list.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BlocklistError {
    #[error("no blocklist is called `{}`: give a list of words or \"default\"", name.escape_debug())]
    Unknown { name: String },
    #[error("a blocked word has at least {WORD_LETTERS_MIN} letters; `{word}` is shorter")]
    Short { word: String },
    #[error("a blocked word is made of letters (0 1 3 4 5 7 count as o i e a s t); `{}` is not", word.escape_debug())]
    NoWord { word: String },
}

impl Blocklist {
    pub fn new(choice: &BlocklistChoice) -> Result<Self, BlocklistError> {
        match choice {
            BlocklistChoice::Named(name) if name == "default" => Self::from_words(PROFANITY),
            BlocklistChoice::Named(name) => Err(BlocklistError::Unknown { name: name.clone() }),
            BlocklistChoice::Words(words) => Self::from_words(words),
        }
    }

    pub fn from_words<W: AsRef<str>>(words: &[W]) -> Result<Self, BlocklistError> {
        let mut letters = words.iter().map(|word| letters(word.as_ref())).collect::<Result<Vec<_>, _>>()?;
        letters.sort();
        letters.dedup();
        let beginnings = (!letters.is_empty()).then(|| {
            let mut beginnings: Box<Beginnings> = Box::new([0; _]);
            for word in &letters {
                let at = word[..WORD_LETTERS_MIN].iter().fold(0, |before, letter| roll(before, *letter));
                beginnings[at / 64] |= 1_u64 << (at % 64);
            }
            beginnings
        });
        Ok(Self { words: letters.into(), beginnings })
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether a blocked word is anywhere in the key.
    #[inline]
    pub fn blocks(&self, key: &[u8]) -> bool {
        let Some(beginnings) = &self.beginnings else { return false };
        let mut last_three = 0;
        let mut found = 0;
        for byte in key {
            last_three = roll(last_three, letter(*byte));
            // No branch here: one that is taken now and then costs more than the rest of the loop.
            found |= beginnings[last_three / 64] >> (last_three % 64) & 1;
        }
        found != 0 && self.finds_word(key)
    }

    #[cold]
    fn finds_word(&self, key: &[u8]) -> bool {
        key.windows(WORD_LETTERS_MIN).enumerate().any(|(at, three)| {
            let three: [u8; WORD_LETTERS_MIN] = [letter(three[0]), letter(three[1]), letter(three[2])];
            let from = self.words.partition_point(|word| **word < three[..]);
            let alike = self.words[from..].iter().take_while(|word| word.starts_with(&three));
            alike.into_iter().any(|word| begins_with(&key[at..], word))
        })
    }
}

fn letters(word: &str) -> Result<Box<[u8]>, BlocklistError> {
    let letters: Box<[u8]> = word.bytes().map(letter).collect();
    if letters.contains(&0) {
        Err(BlocklistError::NoWord { word: word.to_owned() })
    } else if letters.len() < WORD_LETTERS_MIN {
        Err(BlocklistError::Short { word: word.to_owned() })
    } else {
        Ok(letters)
    }
}

#[inline]
fn letter(byte: u8) -> u8 {
    LETTER[usize::from(byte)]
}

/// The last three letters as a number, one letter on. Before the third it holds a 0, which begins no word.
#[inline]
fn roll(before: usize, letter: u8) -> usize {
    (before << 5 | usize::from(letter)) & 0x7fff
}

fn begins_with(text: &[u8], word: &[u8]) -> bool {
    text.len() >= word.len() && text.iter().zip(word).all(|(byte, expected)| letter(*byte) == *expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocklist(words: &[&str]) -> Blocklist {
        Blocklist::from_words(words).unwrap()
    }

    #[test]
    fn a_word_is_found_anywhere_in_any_case_and_through_digits() {
        let list = blocklist(&["toast", "ham", "hammer", "zzz"]);
        for key in ["toast", "xxTOASTx", "x70457", "7oAs7x9", "h4M", "aham", "2zzZ", "hammex"] {
            assert!(list.blocks(key.as_bytes()), "{key}");
        }
        for key in ["", "t", "to", "toas", "t0as_t", "hatm", "h-am", "zz2z", "tóast"] {
            assert!(!list.blocks(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn all_six_digits_are_read_as_letters_and_the_others_are_not() {
        for (key, word) in
            [("b00", "boo"), ("k1k", "kik"), ("b3b", "beb"), ("b4b", "bab"), ("b5b", "bsb"), ("b7b", "btb")]
        {
            assert!(blocklist(&[word]).blocks(key.as_bytes()), "{key}");
        }
        assert!(blocklist(&["4n7"]).blocks(b"ant"), "and so they are in the list");
        assert!(!blocklist(&["bgb"]).blocks(b"b6b"));
    }

    #[test]
    fn an_empty_list_blocks_nothing() {
        assert!(!Blocklist::default().blocks(b"fuck"));
        assert!(Blocklist::new(&BlocklistChoice::default()).unwrap().is_empty());
    }

    #[test]
    fn a_word_that_would_block_too_much_or_nothing_is_refused() {
        let refused = |words: &[&str]| Blocklist::from_words(words).unwrap_err();
        assert_eq!(refused(&["fine", "ab"]), BlocklistError::Short { word: "ab".into() });
        assert_eq!(refused(&[""]), BlocklistError::Short { word: String::new() });
        assert_eq!(refused(&["two words"]), BlocklistError::NoWord { word: "two words".into() });
        assert_eq!(refused(&["ab2"]), BlocklistError::NoWord { word: "ab2".into() });
        assert_eq!(refused(&["über"]), BlocklistError::NoWord { word: "über".into() });
        let named = BlocklistChoice::Named("strict".into());
        assert_eq!(Blocklist::new(&named).unwrap_err(), BlocklistError::Unknown { name: "strict".into() });
    }

    #[test]
    fn the_table_finds_what_a_plain_search_finds() {
        let list = Blocklist::new(&BlocklistChoice::Named("default".into())).unwrap();
        let plain = |key: &str| {
            let read: String = key
                .bytes()
                .map(|b| char::from(b"-abcdefghijklmnopqrstuvwxyz"[usize::from(letter(b))]))
                .collect();
            PROFANITY.iter().any(|word| read.contains(word))
        };
        let mut blocked = 0;
        let mut state = 1_u64;
        for _ in 0..200_000 {
            // Few letters, so that words come up often.
            let key: String = (0..8)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    char::from(b"aseitfgnuck1504hpwo-"[usize::try_from(state >> 40).unwrap() % 20])
                })
                .collect();
            assert_eq!(list.blocks(key.as_bytes()), plain(&key), "{key}");
            blocked += u32::from(plain(&key));
        }
        assert!(blocked > 100, "the comparison saw {blocked} blocked keys only");
    }
}
