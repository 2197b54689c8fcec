//! What can go wrong with a registry, told apart by what the caller does next.

use keymill_sql::SqlError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Back off and ask again: nothing was changed.
    #[error("the registry did not answer: {0}; try again")]
    Unavailable(String),
    /// Perhaps it was done. Ask again with the same receipt, or look: what was granted stays granted, and is
    /// granted once.
    #[error("nobody knows whether the registry did it: {0}; ask again, or look")]
    Unknown(String),
    /// Asking again will not help: the request, the configuration or the engine has to change. Nothing was
    /// changed.
    #[error("the registry cannot do that: {0}")]
    Refused(String),
    /// Wake someone: a row is not what this program wrote.
    #[error("the registry contradicts itself: {0}; compare it with a backup before going on")]
    Corrupt(String),
}

impl RegistryError {
    /// Whether asking again later can help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unknown(_))
    }
}

impl From<SqlError> for RegistryError {
    fn from(error: SqlError) -> Self {
        match error {
            SqlError::Aborted(said) => Self::Unavailable(format!("others kept getting in the way: {said}")),
            SqlError::Unavailable(said) => Self::Unavailable(said),
            SqlError::Unknown(said) => Self::Unknown(said),
            // The process is about to stop.
            error @ SqlError::Broken(_) => Self::Unknown(error.to_string()),
            SqlError::Refused(said) => Self::Refused(said),
            SqlError::Unexpected(said) => Self::Corrupt(said),
        }
    }
}
