//! Reading request bodies: bounded in size and time, JSON or nothing.

use http_body_util::{BodyExt, Limited};
use hyper::{
    HeaderMap,
    body::{Body, Bytes},
    header::CONTENT_TYPE,
};
use keymill_api::{Code, Refusal};
use keymill_issuer::quantity::Size;
use serde::de::DeserializeOwned;

use crate::config::Limits;

/// Reads a whole body within `limits.body_bytes` and `limits.request_timeout`.
pub(crate) async fn read<B>(body: B, limits: &Limits) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    read_within(body, limits, ("limits.body_bytes", limits.body_bytes)).await
}

/// The same for a batch, which may be as large as `limits.batch_bytes`.
pub(crate) async fn read_batch<B>(body: B, limits: &Limits) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    read_within(body, limits, ("limits.batch_bytes", limits.batch_bytes)).await
}

async fn read_within<B>(body: B, limits: &Limits, (setting, most): (&str, Size)) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let bytes = usize::try_from(most.0).unwrap_or(usize::MAX);
    let whole = Limited::new(body, bytes).collect();
    match tokio::time::timeout(limits.request_timeout.duration(), whole).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let detail = format!("the body exceeds {setting} ({most})");
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
