//! What went wrong with one attempt, on which endpoint, and whether another is worth making.

use std::{error::Error as _, fmt, sync::Arc, time::Duration};

use keymill_wire::Code;
use tonic::Status;

/// The longest pause that an endpoint may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// One attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// Whom we asked.
    pub endpoint: Arc<str>,
    /// Why the server refused, if it was the server who did.
    pub code: Option<Code>,
    /// What gRPC calls it.
    pub status: tonic::Code,
    /// What happened, and what to do next.
    pub detail: String,
    /// How long the server asks us to wait.
    pub retry_after: Option<Duration>,
}

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: the answer would be the same.
    Final,
    /// Ask again later: the answer would be the same elsewhere.
    Wait,
    /// Ask elsewhere, or again: the endpoint is well, but lacks something that others may have.
    Hop,
    /// Ask elsewhere, or again: the endpoint is unwell.
    Unwell,
}

impl Failure {
    pub(crate) fn of(endpoint: &Arc<str>, status: &Status) -> Self {
        let text = |name| status.metadata().get(name).and_then(|value| value.to_str().ok());
        let code = text("keymill-code")
            .and_then(|name| Code::ALL.iter().copied().find(|code| code.as_str() == name));
        let seconds = text("retry-after").and_then(|seconds| seconds.parse().ok());
        Self {
            endpoint: endpoint.clone(),
            code,
            // A connection that broke has the code of whatever the system said; to callers it is all the same.
            status: if status.source().is_some() { tonic::Code::Unavailable } else { status.code() },
            detail: detail(endpoint, status),
            retry_after: seconds.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX)),
        }
    }

    pub(crate) fn late(endpoint: &Arc<str>, after: Duration) -> Self {
        Self {
            endpoint: endpoint.clone(),
            code: None,
            status: tonic::Code::DeadlineExceeded,
            detail: format!("the deadline was over after {after:?}"),
            retry_after: None,
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self.code {
            Some(Code::RateLimited | Code::NoWorker) => Verdict::Wait,
            Some(Code::OutOfStock) => Verdict::Hop,
            Some(
                Code::RequestTimeout
                | Code::ClockBehind
                | Code::ClockAhead
                | Code::LedgerUnavailable
                | Code::Overloaded
                | Code::Starting
                | Code::Draining
                | Code::LedgerHalted
                | Code::Internal,
            ) => Verdict::Unwell,
            Some(_) => Verdict::Final,
            None => by_status(self.status),
        }
    }
}

/// No code of ours: a connection that broke, a proxy, or something that is no keymill.
fn by_status(status: tonic::Code) -> Verdict {
    match status {
        tonic::Code::Unavailable
        | tonic::Code::DeadlineExceeded
        | tonic::Code::Cancelled
        | tonic::Code::Unknown
        | tonic::Code::Internal
        | tonic::Code::Aborted
        | tonic::Code::DataLoss => Verdict::Unwell,
        tonic::Code::ResourceExhausted => Verdict::Wait,
        _ => Verdict::Final,
    }
}

/// The library says "transport error"; what the system said is at the bottom. A certificate that is not accepted
/// often shows as a connection that is closed, so what to look at depends on the address alone.
fn detail(endpoint: &str, status: &Status) -> String {
    let mut deepest = status.source();
    while let Some(next) = deepest.and_then(|error| error.source()) {
        deepest = Some(next);
    }
    match deepest {
        Some(error) if endpoint.starts_with("https:") => format!(
            "{error}; is the server running, does `tls_ca` vouch for it, and does it ask for a `tls_identity`?"
        ),
        Some(error) => format!(
            "{error}; is the server running, and is this its HTTP address? If it speaks TLS, write https://"
        ),
        None => status.message().to_owned(),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, code, status, detail, .. } = self;
        match code {
            Some(code) => write!(f, "{endpoint} refused with `{}`: {detail}", code.as_str()),
            None => write!(f, "{endpoint} failed ({status:?}): {detail}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::metadata::MetadataMap;

    use super::*;

    fn refused(code: Code) -> Failure {
        let mut metadata = MetadataMap::new();
        metadata.insert("keymill-code", code.as_str().parse().unwrap());
        if let Some(seconds) = code.retry_after() {
            metadata.insert("retry-after", seconds.into());
        }
        let grpc = tonic::Code::from(i32::from(code.spelled().1 as u8));
        Failure::of(&"http://a".into(), &Status::with_metadata(grpc, "do this", metadata))
    }

    #[test]
    fn every_code_of_the_table_is_read_and_what_says_when_is_retried() {
        for code in Code::ALL {
            let failure = refused(*code);
            assert_eq!(failure.code, Some(*code));
            if let Some(seconds) = code.retry_after() {
                assert_eq!(failure.retry_after, Some(Duration::from_secs(seconds.into())));
                assert_ne!(failure.verdict(), Verdict::Final, "{code:?}");
            }
        }
    }

    #[test]
    fn what_is_wrong_with_the_request_is_never_sent_again() {
        for code in [Code::InvalidField, Code::KeyspaceNotFound, Code::Exhausted, Code::Forbidden] {
            assert_eq!(refused(code).verdict(), Verdict::Final);
        }
        for status in [tonic::Code::InvalidArgument, tonic::Code::Unimplemented, tonic::Code::NotFound] {
            assert_eq!(by_status(status), Verdict::Final);
        }
    }

    #[test]
    fn a_broken_connection_is_unwell_whatever_the_system_called_it() {
        let broken = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let failure = Failure::of(&"http://a".into(), &Status::from_error(Box::new(broken)));
        assert_eq!(failure.verdict(), Verdict::Unwell);
        assert!(failure.to_string().contains("http://a"), "{failure}");
    }
}
