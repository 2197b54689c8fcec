//! Which contents are one and the same, before a key is made from them.
//!
//! Two ways to write one URL are one URL: case of scheme and host, default port, dot segments, an empty path,
//! percent-encoding of characters that need none. That is [`Canonical::Url`], and by RFC 3986 §6.2.2 it merges
//! nothing that differs. [`Canonical::UrlDecoded`] also takes `%3F` for `?`: `/distributed.php%3Fid%3Ddesign`
//! meets `/distributed.php?id=design`, as people who paste URLs expect. But a server may tell the two apart,
//! so this one can merge different resources, and only who knows the targets should choose it.

use std::borrow::Cow;

use keymill_id::Canonical;
use thiserror::Error;
use url::{Position, Url};

/// What is no URL has no canonical form as one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CanonicalError {
    #[error(
        "the content is no URL ({reason}); give one, or use a keyspace with `canonical = \"none\"` for other content"
    )]
    NotUrl { reason: String },
}

/// The form of `content` that its key is made from. Applied to its own result it changes nothing.
pub fn canonical(content: &str, form: Canonical) -> Result<Cow<'_, str>, CanonicalError> {
    match form {
        Canonical::None => Ok(Cow::Borrowed(content)),
        Canonical::Url => Ok(Cow::Owned(normalised(&parsed(content)?, is_unreserved))),
        Canonical::UrlDecoded => {
            let decode = |byte| is_unreserved(byte) || is_reserved(byte);
            let decoded = normalised(&parsed(content)?, decode);
            // What was decoded may be a path's `..`, so it is read again.
            Ok(Cow::Owned(normalised(&parsed(&decoded)?, decode)))
        }
    }
}

fn parsed(content: &str) -> Result<Url, CanonicalError> {
    // The parser drops these without a word, and would merge contents that differ.
    if content.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(CanonicalError::NotUrl { reason: "it contains blanks or control characters".to_owned() });
    }
    Url::parse(content).map_err(|error| CanonicalError::NotUrl { reason: error.to_string() })
}

/// The URL with the percent-encoding behind its authority made uniform: what `decode` names is written as it
/// is, everything else that was encoded or should be is, in upper case.
fn normalised(url: &Url, decode: impl Fn(u8) -> bool) -> String {
    let mut text = url[..Position::BeforePath].to_owned();
    let mut rest = url[Position::BeforePath..].as_bytes();
    while let [first, after @ ..] = rest {
        let encoded = if *first == b'%' { after.first_chunk().and_then(|two| hex_byte(*two)) } else { None };
        let (byte, plain) = match encoded {
            Some(byte) => (byte, decode(byte)),
            None => (*first, is_unreserved(*first) || is_reserved(*first)),
        };
        rest = if encoded.is_some() { &after[2..] } else { after };
        if plain {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

fn hex_byte(two: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(two[0])? << 4 | digit(two[1])?)
}

/// RFC 3986 §2.3: encoded or not, it is the same.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986 §2.2: not encoded, it may separate parts.
fn is_reserved(byte: u8) -> bool {
    b":/?#[]@!$&'()*+,;=".contains(&byte)
}
