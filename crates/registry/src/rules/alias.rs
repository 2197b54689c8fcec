//! Names that people may choose.

use keymill_id::ROUTE_WORDS;
use thiserror::Error;

use super::shown;

/// A name that may stand in a path as it is. Whether it is free is for the ledger and the registry to say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Alias(String);

/// Which rule a name breaks, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AliasError {
    #[error("the alias is empty: choose 1 to {length_max} characters")]
    Empty { length_max: usize },
    #[error("the alias has {length} characters and may have {length_max}: choose a shorter one")]
    TooLong { length: usize, length_max: usize },
    #[error("an alias is made of `A-Z`, `a-z`, `0-9`, `_` and `-`; `{shown}` is none of them")]
    Character { shown: String },
    /// `reserved_word`, where the others are `invalid_alias`.
    #[error("`{word}` is a route of the service: choose another alias")]
    Reserved { word: &'static str },
}

impl Alias {
    /// `length_max` is the keyspace's `alias_length_max`.
    pub fn parse(text: &str, length_max: usize) -> Result<Self, AliasError> {
        // Route words first: of `robots.txt` "is a route" says more than "has a dot".
        if let Some(word) = ROUTE_WORDS.iter().find(|word| word.eq_ignore_ascii_case(text)) {
            return Err(AliasError::Reserved { word });
        }
        if text.is_empty() {
            return Err(AliasError::Empty { length_max });
        }
        if let Some(c) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))) {
            return Err(AliasError::Character { shown: shown(&c.to_string()) });
        }
        if text.len() > length_max {
            return Err(AliasError::TooLong { length: text.len(), length_max });
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AliasError {
    /// Whether it is a word of the service's own, rather than no name at all.
    pub fn is_reserved(&self) -> bool {
        matches!(self, Self::Reserved { .. })
    }
}

/// What is left of a name when one cannot tell l, 1, I and i from each other, nor O, o and 0, nor upper from
/// lower case. Names of one skeleton look alike.
pub fn skeleton(name: &str) -> String {
    let alike = |c: char| match c.to_ascii_lowercase() {
        '1' | 'i' | 'l' => 'l',
        '0' | 'o' => 'o',
        other => other,
    };
    name.chars().map(alike).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_up_to_the_longest_length_is_accepted_as_it_is() {
        for name in ["a", "0", "-", "_", "My-Talk_2026", &"x".repeat(16), "..".replace('.', "-").as_str()] {
            assert_eq!(Alias::parse(name, 16).unwrap().as_str(), name);
        }
        assert!(Alias::parse(&"x".repeat(64), 64).is_ok());
    }

    #[test]
    fn everything_else_is_refused_by_its_rule() {
        let character = |shown: &str| AliasError::Character { shown: shown.to_owned() };
        let cases = [
            ("", AliasError::Empty { length_max: 16 }),
            ("..", character(".")),
            ("a/b", character("/")),
            ("%2F", character("%")),
            ("a%2Fb", character("%")),
            ("a b", character(" ")),
            (" a", character(" ")),
            ("a+", character("+")),
            ("a\nb", character("\\n")),
            ("a\0", character("\\0")),
            ("\u{1b}[31m", character("\\u{1b}")),
            ("käse", character("ä")),
            ("аpi", character("а")), // a Cyrillic а
            ("ａｐｉ", character("ａ")),
            ("12345678901234567", AliasError::TooLong { length: 17, length_max: 16 }),
        ];
        for (text, error) in cases {
            assert_eq!(Alias::parse(text, 16), Err(error), "{text:?}");
        }
        let long = Alias::parse(&"x".repeat(1 << 20), 64).unwrap_err();
        assert_eq!(long, AliasError::TooLong { length: 1 << 20, length_max: 64 });
    }

    #[test]
    fn no_route_is_an_alias_in_any_case() {
        for word in ROUTE_WORDS {
            for text in [(*word).to_owned(), word.to_uppercase()] {
                let error = Alias::parse(&text, 16).unwrap_err();
                assert_eq!(error, AliasError::Reserved { word });
                assert!(error.is_reserved());
            }
        }
        assert!(Alias::parse("apis", 16).is_ok());
    }

    #[test]
    fn names_that_look_alike_have_one_skeleton() {
        for (one, other) in [("paypal", "PayPa1"), ("paypal", "paypaI"), ("goo", "G00"), ("Lion", "1ioN")] {
            assert_eq!(skeleton(one), skeleton(other), "{one} {other}");
        }
        for (one, other) in [("paypal", "paypa"), ("a-b", "a_b"), ("m", "rn"), ("5", "s")] {
            assert_ne!(skeleton(one), skeleton(other), "{one} {other}");
        }
    }
}
