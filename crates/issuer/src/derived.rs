//! Keys made from content: nothing is held here, and nothing can be taken.
//!
//! Whoever has content asks [`Digest`] which keys it may have, and the registry decides which one it gets.

use std::sync::OnceLock;

use keymill_id::Digest;

use crate::error::IssueError;

#[derive(Debug)]
pub(crate) struct Derived {
    pub(crate) digest: Digest,
    closed: OnceLock<IssueError>,
}

impl Derived {
    pub(crate) fn new(digest: Digest) -> Self {
        Self { digest, closed: OnceLock::new() }
    }

    /// Why there is no key to take.
    pub(crate) fn refusal(&self) -> IssueError {
        self.closed().unwrap_or(IssueError::MadeFromContent)
    }

    pub(crate) fn close(&self, why: IssueError) {
        self.closed.get_or_init(|| why);
    }

    pub(crate) fn closed(&self) -> Option<IssueError> {
        self.closed.get().cloned()
    }
}
