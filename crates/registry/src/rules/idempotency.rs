//! What a caller may call a request, so that it is done once however often it is sent.

use thiserror::Error;

/// Short keys are guessed, and reused by chance.
pub const KEY_LENGTH_MIN: usize = 16;
pub const KEY_LENGTH_MAX: usize = 128;

/// What to do about an `Idempotency-Key` that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error(
        "Idempotency-Key has {length} characters and must have {KEY_LENGTH_MIN} to {KEY_LENGTH_MAX}; a UUID does"
    )]
    Length { length: usize },
    #[error("Idempotency-Key must be made of visible ASCII characters, without blanks; a UUID is")]
    Character,
}

/// Whether a text may be an `Idempotency-Key`.
pub fn check(key: &str) -> Result<(), KeyError> {
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyError::Character);
    }
    if !(KEY_LENGTH_MIN..=KEY_LENGTH_MAX).contains(&key.len()) {
        return Err(KeyError::Length { length: key.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_to_128_visible_characters_are_a_key() {
        for key in ["1234567890123456", "0d6b7f6e-5b0a-4e0e-9a5c-1f3c7c2d9e11", &"~".repeat(128)] {
            assert_eq!(check(key), Ok(()), "{key}");
        }
        assert_eq!(check(""), Err(KeyError::Length { length: 0 }));
        assert_eq!(check("123456789012345"), Err(KeyError::Length { length: 15 }));
        assert_eq!(check(&"x".repeat(129)), Err(KeyError::Length { length: 129 }));
        for key in ["1234567890 123456", "1234567890\t123456", "1234567890123456é", "1234567890123456\u{7f}"]
        {
            assert_eq!(check(key), Err(KeyError::Character), "{key:?}");
        }
    }
}
