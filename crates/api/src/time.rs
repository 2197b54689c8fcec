//! Times on the wire: RFC 3339, UTC, milliseconds.

use keymill_ledger::Timestamp;
use time::{OffsetDateTime, format_description::BorrowedFormatItem, macros::format_description};

const FORMAT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// `2026-01-01T00:00:00.000Z`
pub fn rfc3339(at: Timestamp) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0) * 1_000_000)
        .ok()
        .and_then(|time| time.format(FORMAT).ok())
        // Later than the year 9999: people have other worries then.
        .unwrap_or_else(|| "9999-12-31T23:59:59.999Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_spelled_in_utc_with_milliseconds() {
        assert_eq!(rfc3339(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(1_767_225_600_007)), "2026-01-01T00:00:00.007Z");
        assert_eq!(rfc3339(Timestamp(u64::MAX)), "9999-12-31T23:59:59.999Z");
    }
}
