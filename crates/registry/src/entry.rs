//! What is known of one name.

/// A name of a keyspace: alive, or a tombstone that keeps others from having it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub keyspace: String,
    pub name: String,
    pub kind: Kind,
    /// `None`: not bound yet, or forgotten with its deletion.
    pub target: Option<String>,
    pub owner: Option<String>,
    pub created_at_ms: i64,
    pub expires_at_ms: Option<i64>,
    pub deleted_at_ms: Option<i64>,
    pub visits: u64,
}

/// How the name came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Someone chose it.
    Alias,
    /// A pool, a sequence or a hash made it.
    Issued,
    /// It was in use before Keymill came: nobody gets it.
    Used,
}

impl Entry {
    /// Deleted, or past its time even if no sweep has come by yet.
    pub fn is_gone(&self, at_ms: i64) -> bool {
        self.deleted_at_ms.is_some() || self.expires_at_ms.is_some_and(|expires| expires <= at_ms)
    }

    /// Whether it leads somewhere now.
    pub fn is_live_link(&self, at_ms: i64) -> bool {
        self.target.is_some() && !self.is_gone(at_ms)
    }
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Alias => "alias",
            Self::Issued => "issued",
            Self::Used => "used",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Alias, Self::Issued, Self::Used].into_iter().find(|kind| kind.word() == word)
    }
}
