//! Following links: `GET /{key}` in the root keyspace, `GET /{ks}/{key}` in the others.
//!
//! Recognised before the router is asked, as taking keys is. Nothing that the target says becomes markup, and
//! the server never fetches it.

use std::{net::IpAddr, sync::Arc};

use hyper::{
    HeaderMap, Method, Response, StatusCode,
    header::{
        ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
        REFERRER_POLICY,
    },
};
use keymill_api::{Code, Refusal};
use keymill_id::ROUTE_WORDS;
use keymill_issuer::{IssueError, Served};

use super::{
    State,
    answer::{self, Body, TEXT},
};
use crate::names::Resolved;

/// Long enough to help, short enough that a link that was taken down stays down.
const A_MINUTE: HeaderValue = HeaderValue::from_static("private, max-age=60");
const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");
const NO_INDEX: HeaderValue = HeaderValue::from_static("noindex");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const NOTHING_BUT_TEXT: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

/// A link in a path: `/key`, `/keyspace/key`, with a `+` to look before one leaps.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Followed<'p> {
    keyspace: Option<&'p str>,
    key: &'p str,
    preview: bool,
}

/// `None`: the path is an address of ours, or of nobody.
pub(super) fn followed<'p>(method: &Method, path: &'p str) -> Option<Followed<'p>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let path = path.strip_prefix('/')?;
    let (keyspace, key) = match path.split_once('/') {
        Some((keyspace, key)) => (Some(keyspace), key),
        None => (None, path),
    };
    let (key, preview) = match key.strip_suffix('+') {
        Some(key) => (key, true),
        None => (key, false),
    };
    // What no key or name holds – dots, slashes, escapes – is not looked for.
    let symbols = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let names_keyspace = |text: &str| symbols(text) && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let ours = ROUTE_WORDS.contains(&keyspace.unwrap_or(key));
    (!ours && symbols(key) && keyspace.is_none_or(names_keyspace)).then_some(Followed {
        keyspace,
        key,
        preview,
    })
}

pub(super) async fn follow(
    state: &Arc<State>,
    Followed { keyspace, key, preview }: Followed<'_>,
    headers: &HeaderMap,
    from: IpAddr,
) -> Result<Response<Body>, Refusal> {
    let served = match keyspace {
        None => state.names.root(),
        Some(name) => match state.node.known(name) {
            Some(served) => Some(served),
            None => match state.node.keyspace(name).await {
                Ok(served) => Some(served),
                Err(IssueError::KeyspaceNotFound) => None,
                Err(error) => return Err(error.into()),
            },
        },
    };
    let Some(served) = served else {
        state.names.missed(from)?;
        return Ok(absent(headers, None));
    };
    if preview {
        return preview_page(state, &served, key, headers, from).await;
    }
    Ok(match state.names.follow(&served, key, from).await? {
        Resolved::To(to) => redirect(served.settings().tuned.redirect, to),
        Resolved::Gone => {
            problem(headers, &Refusal::new(Code::LinkGone, "This link has expired or was taken down."))
        }
        Resolved::Nothing => absent(headers, Some(&served)),
    })
}

fn redirect(status: u16, to: HeaderValue) -> Response<Body> {
    let mut response = Response::new(Body::from_vec(Vec::new()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::FOUND);
    let headers = response.headers_mut();
    headers.insert(LOCATION, to);
    headers.insert(CACHE_CONTROL, A_MINUTE);
    headers.insert(REFERRER_POLICY, NO_REFERRER);
    headers.insert(ROBOTS, NO_INDEX);
    response
}

/// There is no such link: a home page, if the keyspace has one.
fn absent(headers: &HeaderMap, served: Option<&Served>) -> Response<Body> {
    let home = served.and_then(|served| served.settings().places.not_found_url.clone());
    if let Some(home) = home.and_then(|home| HeaderValue::from_str(&home).ok()) {
        return redirect(302, home);
    }
    problem(headers, &Refusal::new(Code::KeyNotFound, "There is no such link here."))
}

/// Text for people; for programs that ask for JSON, a problem.
fn problem(headers: &HeaderMap, refusal: &Refusal) -> Response<Body> {
    let wants_json = |accept: &HeaderValue| accept.to_str().is_ok_and(|accept| accept.contains("json"));
    let mut response = answer::refusal(refusal);
    if !headers.get(ACCEPT).is_some_and(wants_json) {
        *response.body_mut() = Body::from_vec(format!("{}\n", refusal.detail).into_bytes());
        response.headers_mut().insert(CONTENT_TYPE, TEXT);
    }
    response.headers_mut().insert(ROBOTS, NO_INDEX);
    response
}

/// `/{key}+`: where a link would lead, for people who would rather know.
async fn preview_page(
    state: &Arc<State>,
    served: &Arc<Served>,
    key: &str,
    headers: &HeaderMap,
    from: IpAddr,
) -> Result<Response<Body>, Refusal> {
    let link = match state.names.link(served, key).await {
        Ok(link) if state.names.is_allowed(served, &link.url) => link,
        Ok(_) => return Ok(absent(headers, None)),
        Err(refusal) if refusal.code == Code::KeyNotFound => {
            state.names.missed(from)?;
            return Ok(absent(headers, None));
        }
        Err(refusal) if refusal.code == Code::LinkGone => {
            return Ok(problem(
                headers,
                &Refusal::new(Code::LinkGone, "This link has expired or was taken down."),
            ));
        }
        Err(refusal) => return Err(refusal),
    };
    let warning = if state.names.is_mixed_script(&link.url) {
        "<p><strong>Look twice: the host mixes letters of several scripts.</strong></p>\n"
    } else {
        ""
    };
    let url = escaped(&link.url);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Where {key} leads</title></head>\n<body>\n\
         <h1>{key}</h1>\n<p>leads to</p>\n<p><a href=\"{url}\" rel=\"noreferrer nofollow\">{url}</a></p>\n{warning}\
         <p>Made {made}.</p>\n</body></html>\n",
        key = escaped(&link.key),
        made = escaped(&link.created_at),
    );
    let mut response = answer::uncached(HTML, page.into_bytes());
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, NOTHING_BUT_TEXT);
    response.headers_mut().insert(ROBOTS, NO_INDEX);
    Ok(response)
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for symbol in text.chars() {
        match symbol {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_told_from_addresses_of_ours() {
        let link = |keyspace, key, preview| Some(Followed { keyspace, key, preview });
        for (path, expected) in [
            ("/aZ3k9Qp", link(None, "aZ3k9Qp", false)),
            ("/aZ3k9Qp+", link(None, "aZ3k9Qp", true)),
            ("/promo/spring-sale", link(Some("promo"), "spring-sale", false)),
            ("/promo/spring-sale+", link(Some("promo"), "spring-sale", true)),
            ("/healthz", None),
            ("/docs/start.js", None),
            ("/v1/nodes", None),
            ("/", None),
            ("/+", None),
            ("//x", None),
            ("/a/b/c", None),
            ("/a/", None),
            ("/..", None),
            ("/%2e%2e", None),
            ("/favicon.ico", None),
            ("/V1/nodes", None),
        ] {
            assert_eq!(followed(&Method::GET, path), expected, "{path}");
            assert_eq!(followed(&Method::POST, path), None, "{path}");
        }
    }

    #[test]
    fn nothing_becomes_markup() {
        assert_eq!(escaped("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
    }
}
