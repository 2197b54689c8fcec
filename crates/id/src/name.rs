//! What keyspaces are called.
//!
//! A name appears in paths, tables, Redis keys and metrics labels, so the rule is narrow enough for all
//! of them, and no name may hide a route.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Paths that answer something of their own: no keyspace, key or alias may stand in their way.
pub const ROUTE_WORDS: &[&str] = &[
    "v1",
    "api",
    "admin",
    "health",
    "healthz",
    "readyz",
    "metrics",
    "docs",
    "openapi",
    "openapi.json",
    "assets",
    "static",
    "favicon.ico",
    "robots.txt",
    ".well-known",
];

/// The longest name, in bytes.
const NAME_LENGTH_MAX: usize = 63;

/// A valid keyspace name. Cloning it copies a pointer.
// `Hash` and `Eq` are those of `str`, as `Borrow<str>` demands: a map keyed by names is searched by text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyspaceName(Arc<str>);

/// Choose another name; the message shows the one that was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NameError {
    #[error(
        "`{shown}` is not a keyspace name: 1 to 63 of `a-z`, `0-9`, `_` and `-`, \
         beginning with a letter or a digit"
    )]
    Malformed { shown: String },
    #[error("`{word}` is a route of the service and cannot name a keyspace")]
    RouteWord { word: &'static str },
}

impl KeyspaceName {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        // Route words first: for `robots.txt` "is a route" says more than "has a dot".
        if let Some(word) = ROUTE_WORDS.iter().find(|word| **word == text) {
            return Err(NameError::RouteWord { word });
        }
        let bytes = text.as_bytes();
        let begins_well = bytes.first().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let goes_on_well =
            bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'));
        if begins_well && goes_on_well && bytes.len() <= NAME_LENGTH_MAX {
            Ok(Self(text.into()))
        } else {
            Err(NameError::Malformed { shown: shown(text) })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text, safe to log: control characters escaped, and no longer than a line.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(NAME_LENGTH_MAX + 1).flat_map(char::escape_debug).collect();
    if text.chars().nth(NAME_LENGTH_MAX + 1).is_some() {
        shown.push('…');
    }
    shown
}

impl FromStr for KeyspaceName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for KeyspaceName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::parse(&text)
    }
}

impl From<KeyspaceName> for String {
    fn from(name: KeyspaceName) -> Self {
        name.as_str().to_owned()
    }
}

impl Borrow<str> for KeyspaceName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for KeyspaceName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for KeyspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn names_that_suit_paths_tables_and_labels_are_accepted() {
        for name in ["links", "a", "0", "v2", "my_keys-2", &"x".repeat(63)] {
            assert_eq!(KeyspaceName::parse(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn names_that_could_escape_a_path_are_refused_and_shown_escaped() {
        let long = "x".repeat(64);
        for name in ["", "..", "a/b", "Links", "-a", "_a", "a b", "a\0", "é", "a.b", &long] {
            let error = KeyspaceName::parse(name).unwrap_err();
            assert!(matches!(error, NameError::Malformed { .. }), "{name:?}");
        }
        assert!(KeyspaceName::parse("a\n\u{1b}[31m").unwrap_err().to_string().contains(r"`a\n\u{1b}[31m`"));
        assert!(KeyspaceName::parse(&"y".repeat(1 << 20)).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn no_route_word_names_a_keyspace() {
        for word in ROUTE_WORDS {
            assert_eq!(KeyspaceName::parse(word), Err(NameError::RouteWord { word }));
        }
    }

    #[test]
    fn a_map_of_names_is_searched_by_text() {
        let map = HashMap::from([(KeyspaceName::parse("links").unwrap(), 1)]);
        assert_eq!(map.get("links"), Some(&1));
    }

    #[test]
    fn a_name_is_checked_when_it_is_read() {
        assert_eq!(serde_json::from_str::<KeyspaceName>("\"links\"").unwrap().as_str(), "links");
        assert!(serde_json::from_str::<KeyspaceName>("\"../links\"").is_err());
        assert_eq!(serde_json::to_string(&KeyspaceName::parse("links").unwrap()).unwrap(), "\"links\"");
    }
}
