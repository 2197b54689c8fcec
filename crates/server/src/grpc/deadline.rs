//! How long a caller will wait, as `grpc-timeout` says.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Status, metadata::MetadataMap};

/// The protocol allows eight digits.
const DIGITS_MAX: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// What cannot be read is no deadline, as with other servers: the caller keeps its own clock anyway.
    pub(super) fn of(metadata: &MetadataMap) -> Self {
        let stated = metadata.get("grpc-timeout").and_then(|value| parse(value.to_str().ok()?));
        Self(stated.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// How long to wait for keys: no longer than the caller does.
    pub(super) fn patience(self, most: Duration) -> Duration {
        self.0.map_or(most, |at| at.saturating_duration_since(Instant::now()).min(most))
    }

    /// An error once nobody waits any more.
    pub(super) fn check(self) -> Result<(), Status> {
        match self.0 {
            Some(at) if Instant::now() >= at => Err(Status::deadline_exceeded("the call's deadline is over")),
            _ => Ok(()),
        }
    }
}

fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let amount = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_protocol_allows_and_nothing_else() {
        assert_eq!(parse("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(parse("2M"), Some(Duration::from_secs(120)));
        assert_eq!(parse("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(parse("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse("7u"), Some(Duration::from_micros(7)));
        assert_eq!(parse("7n"), Some(Duration::from_nanos(7)));
        for wrong in ["", "m", "1", "-1S", "1s", "123456789S", "1 S", "1S ", "٣S", "Sé"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn patience_is_the_shorter_of_the_two() {
        let mut metadata = MetadataMap::new();
        assert_eq!(Deadline::of(&metadata).patience(Duration::from_secs(2)), Duration::from_secs(2));
        metadata.insert("grpc-timeout", "1H".parse().unwrap());
        assert_eq!(Deadline::of(&metadata).patience(Duration::from_secs(2)), Duration::from_secs(2));
        metadata.insert("grpc-timeout", "0n".parse().unwrap());
        assert_eq!(Deadline::of(&metadata).patience(Duration::from_secs(2)), Duration::ZERO);
        assert!(Deadline::of(&metadata).check().is_err());
    }
}
