//! The API, as a page that works without the internet.

use axum::{
    http::{
        HeaderValue,
        header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use keymill_api::{Code, Refusal};

use super::{answer::Refused, path::Path};

const PAGE: &str = include_str!("../../assets/docs/index.html");
const START: &str = include_str!("../../assets/docs/start.js");
/// Swagger UI 5.34.1, compressed as it is served; its licence lies beside it.
const SCRIPT: &[u8] = include_bytes!("../../assets/docs/swagger-ui-bundle.js.gz");
const STYLE: &[u8] = include_bytes!("../../assets/docs/swagger-ui.css.gz");

/// Scripts come from here alone; Swagger UI sets styles on elements, which needs the inline exception.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
);
const AN_HOUR: HeaderValue = HeaderValue::from_static("max-age=3600");

pub(crate) async fn page() -> Response {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    ([(CONTENT_TYPE, html), (CONTENT_SECURITY_POLICY, POLICY)], PAGE).into_response()
}

pub(crate) async fn file(Path(name): Path<String>) -> Result<Response, Refused> {
    let script = HeaderValue::from_static("text/javascript; charset=utf-8");
    let packed = |kind: HeaderValue, bytes: &'static [u8]| {
        let gzip = HeaderValue::from_static("gzip");
        ([(CONTENT_TYPE, kind), (CONTENT_ENCODING, gzip), (CACHE_CONTROL, AN_HOUR)], bytes).into_response()
    };
    match name.as_str() {
        "start.js" => Ok(([(CONTENT_TYPE, script), (CACHE_CONTROL, AN_HOUR)], START).into_response()),
        "swagger-ui-bundle.js" => Ok(packed(script, SCRIPT)),
        "swagger-ui.css" => Ok(packed(HeaderValue::from_static("text/css; charset=utf-8"), STYLE)),
        _ => Err(Refused(Refusal::new(Code::RouteNotFound, "the documentation has no such file; see /docs"))),
    }
}
