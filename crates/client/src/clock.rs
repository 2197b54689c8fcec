//! The one place that reads the time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 for a clock that is set to before.
#[inline]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
