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

/// RFC 3339 with any offset, or Unix milliseconds.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Timestamp);
    }
    let time = OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok().map(Timestamp)
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

    #[test]
    fn is_read_with_an_offset_or_as_milliseconds() {
        let time = Some(Timestamp(1_767_225_600_007));
        for text in ["2026-01-01T00:00:00.007Z", "2026-01-01T01:00:00.007+01:00", "1767225600007"] {
            assert_eq!(parse_time(text), time, "{text}");
        }
        assert_eq!([parse_time(""), parse_time("noon"), parse_time("1969-01-01T00:00:00Z")], [None; 3]);
    }
}
