//! Why a definition was refused.

use thiserror::Error;

/// Why a definition was refused. All but the last are for whoever stated it to correct.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DefinitionError {
    /// State the field.
    #[error("`{field}` is required: {hint}")]
    Missing { field: &'static str, hint: &'static str },
    /// State another value.
    #[error("`{field}` is not valid: {reason}")]
    Invalid { field: &'static str, reason: String },
    /// Leave the field out, or choose what it applies to.
    #[error("`{field}` applies to {applies_to}, not to {not_to}")]
    Misplaced { field: &'static str, applies_to: String, not_to: String },
    /// The ledger holds a text that this version did not write: it is damaged, or from a newer one.
    #[error("the stored definition cannot be read: {reason}")]
    Unreadable { reason: String },
}

impl DefinitionError {
    /// The field to correct; `definition` when it is the stored text as a whole.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Missing { field, .. } | Self::Invalid { field, .. } | Self::Misplaced { field, .. } => {
                field
            }
            Self::Unreadable { .. } => "definition",
        }
    }
}

pub(super) fn invalid(field: &'static str, reason: impl Into<String>) -> DefinitionError {
    DefinitionError::Invalid { field, reason: reason.into() }
}
