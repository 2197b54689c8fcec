//! References – legacy IDs, order numbers, whatever others call a thing – and whose they are.

use thiserror::Error;

use super::shown;

/// Bytes of a reference.
pub const REFERENCE_LENGTH_MAX: usize = 2_048;
/// Bytes of an owner.
pub const OWNER_LENGTH_MAX: usize = 128;

/// Which rule a reference or an owner breaks, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReferenceError {
    #[error("`{field}` is empty: give 1 to {length_max} bytes, or leave it out where it is optional")]
    Empty { field: &'static str, length_max: usize },
    #[error("`{field}` has {bytes} bytes and may have {length_max}: shorten it")]
    TooLong { field: &'static str, bytes: usize, length_max: usize },
    #[error("`{field}` contains `{shown}`, a control character: leave it out")]
    Control { field: &'static str, shown: String },
}

/// Whether a text may be a `ref`.
pub fn check(text: &str) -> Result<(), ReferenceError> {
    check_field("ref", text, REFERENCE_LENGTH_MAX)
}

/// Whether a text may be an `owner`.
pub fn check_owner(text: &str) -> Result<(), ReferenceError> {
    check_field("owner", text, OWNER_LENGTH_MAX)
}

impl ReferenceError {
    /// The field to correct.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Empty { field, .. } | Self::TooLong { field, .. } | Self::Control { field, .. } => field,
        }
    }
}

fn check_field(field: &'static str, text: &str, length_max: usize) -> Result<(), ReferenceError> {
    if text.is_empty() {
        return Err(ReferenceError::Empty { field, length_max });
    }
    if text.len() > length_max {
        return Err(ReferenceError::TooLong { field, bytes: text.len(), length_max });
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(ReferenceError::Control { field, shown: shown(&c.to_string()) }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_of_a_fitting_length_is_a_reference() {
        for text in ["1", "order 17/2026", "käse 🧀", "%2F", &"x".repeat(2048)] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        assert_eq!(check_owner(&"x".repeat(128)), Ok(()));
    }

    #[test]
    fn nothing_too_much_and_what_no_one_sees_is_refused() {
        let empty = ReferenceError::Empty { field: "ref", length_max: 2048 };
        assert_eq!(check(""), Err(empty));
        let long = ReferenceError::TooLong { field: "ref", bytes: 2050, length_max: 2048 };
        assert_eq!(check(&"é".repeat(1025)), Err(long));
        for (text, shown) in [("a\nb", "\\n"), ("\0", "\\0"), ("a\u{85}", "\\u{85}"), ("\u{7f}", "\\u{7f}")] {
            assert_eq!(check(text), Err(ReferenceError::Control { field: "ref", shown: shown.to_owned() }));
        }
        assert_eq!(check_owner(&"x".repeat(129)).unwrap_err().field(), "owner");
        assert_eq!(check_owner("").unwrap_err().field(), "owner");
    }
}
