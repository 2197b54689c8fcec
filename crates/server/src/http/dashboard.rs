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
    "history.js" SCRIPT;
    "charts.js" SCRIPT;
    "overview.js" SCRIPT;
    "keyspaces.js" SCRIPT;
    "detail.js" SCRIPT;
    "inspector.js" SCRIPT;
    "bits.js" SCRIPT;
    "make.js" SCRIPT;
    "nodes.js" SCRIPT;
    "workers.js" SCRIPT;
    "claims.js" SCRIPT;
    "incidents.js" SCRIPT;
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

    /// What the page asks for by `import`, `src` and `href`.
    fn asked_for(text: &str) -> impl Iterator<Item = &str> {
        let after = |mark: &'static str| {
            text.match_indices(mark)
                .map(move |(at, _)| text[at + mark.len()..].split(['"', '\'']).next().unwrap_or_default())
        };
        after("/assets/").chain(after("from \"./")).chain(after("import \"./"))
    }

    #[test]
    fn the_page_asks_for_nothing_that_is_not_here() {
        for text in FILES.iter().map(|(.., text)| *text).chain([PAGE]) {
            for name in asked_for(text) {
                assert!(FILES.iter().any(|(known, ..)| *known == name), "{name}");
            }
        }
        assert!(!PAGE.contains("http://") && !PAGE.contains("https://cdn"), "it works without the internet");
    }

    #[test]
    fn nothing_that_is_shown_can_become_markup() {
        for (name, _, text) in FILES.iter().filter(|(name, ..)| *name != "uplot.js") {
            for way in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval("]
            {
                assert!(!text.contains(way), "{name}: {way}");
            }
        }
        for way in ["onclick=", "onload=", "<style", "style="] {
            assert!(!PAGE.contains(way), "{way}: the policy forbids it");
        }
    }
}
