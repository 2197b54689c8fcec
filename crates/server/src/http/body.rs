//! Reading request bodies: bounded in size and time, JSON or nothing.

use http_body_util::{BodyExt, Limited};
use hyper::{
    HeaderMap,
    body::{Body, Bytes},
    header::CONTENT_TYPE,
};
use keymill_api::{Code, Refusal};
use serde::de::DeserializeOwned;

use crate::config::Limits;

/// Reads a whole body within `limits.body_bytes` and `limits.request_timeout`.
pub(crate) async fn read<B>(body: B, limits: &Limits) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let most = usize::try_from(limits.body_bytes.0).unwrap_or(usize::MAX);
    let whole = Limited::new(body, most).collect();
    match tokio::time::timeout(limits.request_timeout.duration(), whole).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let detail = format!("the body exceeds limits.body_bytes ({})", limits.body_bytes);
            Err(Refusal::new(Code::BodyTooLarge, detail))
        }
        Ok(Err(_)) => Err(Refusal::new(Code::InvalidRequest, "the body did not arrive whole")),
        Err(_) => {
            let detail =
                format!("the body did not arrive within limits.request_timeout ({})", limits.request_timeout);
            Err(Refusal::new(Code::RequestTimeout, detail))
        }
    }
}

/// JSON, or no type at all. curl calls a `-d` body a form unless told otherwise; that is let through
/// and must still be JSON.
pub(crate) fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Result<T, Refusal> {
    if !body.is_empty()
        && let Some(kind) = headers.get(CONTENT_TYPE)
    {
        let kind = kind.to_str().unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        let json = kind == "application/json" || kind.ends_with("+json");
        if !json && kind != "application/x-www-form-urlencoded" {
            let detail = format!("the body is `{}`; send application/json", kind.escape_debug());
            return Err(Refusal::new(Code::UnsupportedMediaType, detail));
        }
    }
    keymill_api::parse(body)
}
