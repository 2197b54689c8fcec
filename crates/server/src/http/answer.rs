//! Answers: JSON, text, problems; and a body that costs nothing when it is known whole.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::response::IntoResponse;
use bytes::Bytes;
use hyper::{
    HeaderMap, Response, StatusCode,
    body::{Body as HttpBody, Frame, SizeHint},
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use keymill_api::{Code, Refusal};
use serde::Serialize;
use tokio::sync::mpsc;

use super::traced::Traced;

/// Nothing that mints or tells of keys may be kept by a cache: two callers would share an answer.
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
pub(crate) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What the server sends: bytes it has, bytes that come, or what the router or gRPC made.
#[derive(Debug)]
pub(crate) enum Body {
    Whole(Option<Bytes>),
    Stream(mpsc::Receiver<Result<Bytes, CutOff>>),
    Routed(axum::body::Body),
    Grpc(tonic::body::Body),
    /// Any of these, of a request that is followed.
    Traced(Box<Traced>),
}

/// A streamed answer that could not be finished: the connection ends without the last chunk.
#[derive(Debug, thiserror::Error)]
#[error("the answer was cut off: {0}")]
pub(crate) struct CutOff(pub String);

impl Body {
    pub(crate) fn from_vec(bytes: Vec<u8>) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(chunks) => chunks
                .poll_recv(context)
                .map(|chunk| chunk.map(|chunk| chunk.map(Frame::data).map_err(Into::into))),
            Self::Routed(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Self::Grpc(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Self::Traced(body) => Pin::new(&mut **body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Stream(_) => false,
            Self::Routed(body) => body.is_end_stream(),
            Self::Grpc(body) => body.is_end_stream(),
            Self::Traced(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
            Self::Routed(body) => body.size_hint(),
            Self::Grpc(body) => body.size_hint(),
            Self::Traced(body) => body.size_hint(),
        }
    }
}

/// An answer of known bytes that must not be cached.
pub(crate) fn uncached(content_type: HeaderValue, bytes: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from_vec(bytes));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

pub(crate) fn json_bytes(bytes: Vec<u8>) -> Response<Body> {
    uncached(JSON, bytes)
}

/// JSON with a status, for the router's handlers.
pub(crate) struct Json<T>(pub StatusCode, pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> axum::response::Response {
        let Self(status, value) = self;
        let bytes = serde_json::to_vec(&value).expect("answers are plain data");
        (status, [(CONTENT_TYPE, JSON), (CACHE_CONTROL, NO_STORE)], bytes).into_response()
    }
}

/// A refusal on its way out through the router.
#[derive(Debug)]
pub(crate) struct Refused(pub Refusal);

impl<E: Into<Refusal>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> axum::response::Response {
        refusal(&self.0).map(axum::body::Body::new)
    }
}

/// The one place where a refusal becomes HTTP.
pub(crate) fn refusal(refusal: &Refusal) -> Response<Body> {
    let bytes = serde_json::to_vec(&refusal.problem()).expect("problems are plain data");
    let mut response = uncached(PROBLEM, bytes);
    *response.status_mut() =
        StatusCode::from_u16(refusal.code.spelled().0).expect("the table holds HTTP statuses");
    response.extensions_mut().insert(refusal.code);
    let headers = response.headers_mut();
    if let Some(seconds) = refusal.retry_after() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if let Some(limit) = refusal.rate_limit {
        headers.insert("ratelimit-limit", limit.limit.into());
        headers.insert("ratelimit-remaining", limit.remaining.into());
        headers.insert("ratelimit-reset", limit.reset.into());
    }
    if refusal.code == Code::Unauthenticated {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"keymill\""));
    }
    response
}

/// 405 with the methods that would do.
pub(crate) fn method_not_allowed(allow: &'static str) -> Response<Body> {
    let detail = format!("this address answers {allow}");
    let mut response = refusal(&Refusal::new(Code::MethodNotAllowed, detail));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// Whether the caller would rather have lines of text.
pub(crate) fn wants_text(headers: &HeaderMap) -> bool {
    let Some(accept) = headers.get(hyper::header::ACCEPT) else { return false };
    let Ok(accept) = accept.to_str() else { return false };
    accept.split(',').any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "text/plain"))
}
