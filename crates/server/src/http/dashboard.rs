//! The dashboard: a page and its files, part of the binary. They use the public API and nothing else.

use axum::{
    http::{
        HeaderValue,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY},
    },
    response::{IntoResponse, Response},
};
use keymill_api::{Code, Refusal};

use super::{answer::Refused, path::Path};

/// Scripts and styles come from here alone, and nothing that the page shows can become either.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);
/// A newer server has newer files.
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");

const PAGE: &str = include_str!("../../assets/dashboard/index.html");
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! files {
    ($($name:literal $kind:expr;)*) => {
        const FILES: &[(&str, &str, &str)] =
            &[$(($name, $kind, include_str!(concat!("../../assets/dashboard/", $name)))),*];
    };
}
files! {
    "app.js" SCRIPT;
    "api.js" SCRIPT;
    "stream.js" SCRIPT;
    "text.js" SCRIPT;
    "keyspaces.js" SCRIPT;
    "inspector.js" SCRIPT;
    // uPlot 1.6.32; its licence lies beside it.
    "uplot.js" SCRIPT;
    "uplot.css" STYLE;
    "style.css" STYLE;
    "icon.svg" "image/svg+xml";
}

pub(crate) async fn page() -> Response {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let no_referrer = HeaderValue::from_static("no-referrer");
    let headers = [
        (CONTENT_TYPE, html),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, NO_CACHE),
        (REFERRER_POLICY, no_referrer),
    ];
    (headers, PAGE).into_response()
}

pub(crate) async fn file(Path(name): Path<String>) -> Result<Response, Refused> {
    let Some((_, kind, text)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return Err(Refused(Refusal::new(Code::RouteNotFound, "the dashboard has no such file; see /")));
    };
    let kind = HeaderValue::from_static(kind);
    Ok(([(CONTENT_TYPE, kind), (CACHE_CONTROL, NO_CACHE)], *text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_nothing_that_is_not_here() {
        let files = FILES.iter().map(|(.., text)| *text).chain([PAGE]);
        for text in files {
            for (at, _) in text.match_indices("/assets/") {
                let name = text[at + "/assets/".len()..].split(['"', '\'']).next().unwrap_or_default();
                assert!(FILES.iter().any(|(known, ..)| *known == name), "{name}");
            }
        }
        assert!(!PAGE.contains("http://") && !PAGE.contains("https://cdn"), "it works without the internet");
    }
}
