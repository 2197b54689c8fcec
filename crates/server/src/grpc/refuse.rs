//! The one place where a refusal becomes gRPC: a status from the table, and its code in the trailers.

use hyper::{HeaderMap, Response, header::HeaderName};
use keymill_api::{Code, Refusal};
use tonic::{
    Status,
    metadata::{MetadataMap, MetadataValue},
};

use crate::config::Limits;

const KEYMILL_CODE: &str = "keymill-code";
const RETRY_AFTER: &str = "retry-after";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The longest text of a caller that a refusal repeats: statuses travel in headers.
const REPEATED_MAX: usize = 80;

pub(super) fn status(refusal: &Refusal) -> Status {
    let (_, grpc, _) = refusal.code.spelled();
    spelled(tonic::Code::from(i32::from(grpc as u8)), refusal)
}

fn spelled(code: tonic::Code, refusal: &Refusal) -> Status {
    let mut metadata = MetadataMap::with_capacity(2);
    metadata.insert(KEYMILL_CODE, MetadataValue::from_static(refusal.code.as_str()));
    if let Some(seconds) = refusal.retry_after() {
        metadata.insert(RETRY_AFTER, seconds.into());
    }
    Status::with_metadata(code, refusal.detail.clone(), metadata)
}

/// Why something was refused, by the trailers that say so.
pub(super) fn code(trailers: &HeaderMap) -> Option<Code> {
    let said = trailers.get(KEYMILL_CODE)?;
    Code::ALL.iter().copied().find(|code| said == code.as_str())
}

pub(super) fn refused(error: impl Into<Refusal>) -> Status {
    status(&error.into())
}

/// A request that cannot be read.
pub(super) fn broken(detail: &str) -> Status {
    status(&Refusal::new(Code::InvalidRequest, detail))
}

/// A caller's text, fit to be repeated.
pub(super) fn repeated(text: &str) -> String {
    let mut shown: String = text.chars().take(REPEATED_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(REPEATED_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// The library refuses some requests before we see them, with statuses that mean something else in our
/// table. A refusal of ours always has its code.
pub(super) fn name_the_libraries_own(response: &mut Response<tonic::body::Body>, limits: &Limits) {
    let headers = response.headers();
    let Some(status) = headers.get(GRPC_STATUS) else { return };
    if headers.contains_key(KEYMILL_CODE) {
        return;
    }
    let named = match tonic::Code::from_bytes(status.as_bytes()) {
        tonic::Code::OutOfRange => {
            let detail = format!("the message exceeds limits.body_bytes ({})", limits.body_bytes);
            self::status(&Refusal::new(Code::BodyTooLarge, detail))
        }
        tonic::Code::Internal | tonic::Code::Unknown => {
            broken("the message cannot be read; compare it with keymill.v1")
        }
        // Clients know this status, and try another version of a service.
        code @ tonic::Code::Unimplemented if !headers.contains_key(GRPC_MESSAGE) => spelled(
            code,
            &Refusal::new(Code::RouteNotFound, "there is no such call; reflection lists those there are"),
        ),
        // An encoding that we do not have, and whatever health and reflection say.
        _ => return,
    };
    let mut as_headers = HeaderMap::new();
    if named.add_header(&mut as_headers).is_ok() {
        response.headers_mut().extend(as_headers);
    }
}
