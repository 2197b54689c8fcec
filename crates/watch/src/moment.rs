//! When something was seen: one clock to measure by, and one to tell people.

use std::time::{Duration, SystemTime};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Since the watcher began; it only goes forward.
    pub elapsed: Duration,
    pub wall: SystemTime,
}

/// RFC 3339, UTC, milliseconds.
pub fn rfc3339(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}
