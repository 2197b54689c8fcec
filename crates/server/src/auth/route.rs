//! What each HTTP address needs of whoever asks.

use std::borrow::Cow;

use hyper::Method;
use keymill_api::Scope;
use percent_encoding::percent_decode_str;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Need<'p> {
    pub right: Right,
    /// The keyspace that the address names.
    pub keyspace: Option<Cow<'p, str>>,
    /// It belongs on the admin listener, where there is one.
    pub dangerous: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    Nothing,
    One(Scope),
    /// That scope over all keyspaces.
    OverAll(Scope),
}

/// `path` as it came, still escaped.
pub(crate) fn need<'p>(method: &Method, path: &'p str) -> Need<'p> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let of = |right, keyspace| Need { right, keyspace, dangerous: false };
    let usual = if reads { Scope::Inspect } else { Scope::Admin };
    if path == "/metrics" {
        return of(Right::One(Scope::Inspect), None);
    }
    // Redirects, health, the documents: open to all.
    let Some(rest) = path.strip_prefix("/v1/") else { return of(Right::Nothing, None) };
    let segments: Vec<&str> = rest.splitn(4, '/').collect();
    match segments[..] {
        ["keyspaces", name, ref below @ ..] => {
            let keyspace = Some(percent_decode_str(name).decode_utf8_lossy());
            let scope = match below {
                ["keys"] if *method == Method::POST => Scope::Take,
                ["keys" | "links" | "refs", ..] if !reads => Scope::Name,
                _ => usual,
            };
            let dangerous = below.is_empty() && *method == Method::DELETE;
            Need { right: Right::One(scope), keyspace, dangerous }
        }
        ["tokens", ..] => Need { right: Right::OverAll(Scope::Admin), keyspace: None, dangerous: true },
        ["ledger", _, ..] => Need { right: Right::OverAll(Scope::Admin), keyspace: None, dangerous: !reads },
        _ => of(Right::One(usual), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_needs_what_the_contract_says() {
        use Scope::{Admin, Inspect, Name, Take};
        let (one, all, open) = (Right::One, Right::OverAll, Right::Nothing);
        for (method, path, right, keyspace, dangerous) in [
            (Method::POST, "/v1/keyspaces/links/keys", one(Take), Some("links"), false),
            (Method::POST, "/v1/keyspaces/l%69nks/keys", one(Take), Some("links"), false),
            (Method::GET, "/v1/keyspaces/links/keys/abc", one(Inspect), Some("links"), false),
            (Method::PUT, "/v1/keyspaces/links/keys/abc", one(Name), Some("links"), false),
            (Method::POST, "/v1/keyspaces/links/links", one(Name), Some("links"), false),
            (Method::DELETE, "/v1/keyspaces/links/links/abc", one(Name), Some("links"), false),
            (Method::GET, "/v1/keyspaces/links/links/abc", one(Inspect), Some("links"), false),
            (Method::POST, "/v1/keyspaces/links/links/batch", one(Name), Some("links"), false),
            (Method::PUT, "/v1/keyspaces/links/links/abc", one(Name), Some("links"), false),
            (Method::PATCH, "/v1/keyspaces/links/links/abc", one(Name), Some("links"), false),
            (Method::GET, "/v1/keyspaces/links/links", one(Inspect), Some("links"), false),
            (Method::POST, "/v1/keyspaces/links/refs", one(Name), Some("links"), false),
            (Method::POST, "/v1/keyspaces/links/refs/batch", one(Name), Some("links"), false),
            (Method::GET, "/v1/keyspaces/links/refs", one(Inspect), Some("links"), false),
            (Method::GET, "/v1/keyspaces/links/refs/a%2Fb", one(Inspect), Some("links"), false),
            (Method::POST, "/v1/keyspaces/links/used", one(Admin), Some("links"), false),
            (Method::POST, "/v1/keyspaces/links/import", one(Admin), Some("links"), false),
            (Method::GET, "/v1/keyspaces/links/range", one(Inspect), Some("links"), false),
            (Method::GET, "/v1/keyspaces/links", one(Inspect), Some("links"), false),
            (Method::PATCH, "/v1/keyspaces/links", one(Admin), Some("links"), false),
            (Method::DELETE, "/v1/keyspaces/links", one(Admin), Some("links"), true),
            (Method::GET, "/v1/keyspaces", one(Inspect), None, false),
            (Method::POST, "/v1/keyspaces", one(Admin), None, false),
            (Method::GET, "/v1/decode/17", one(Inspect), None, false),
            (Method::GET, "/v1/ledger", one(Inspect), None, false),
            (Method::POST, "/v1/ledger/advance", all(Admin), None, true),
            (Method::POST, "/v1/ledger/backup", all(Admin), None, true),
            (Method::GET, "/v1/tokens", all(Admin), None, true),
            (Method::DELETE, "/v1/tokens/abc", all(Admin), None, true),
            (Method::GET, "/metrics", one(Inspect), None, false),
            (Method::HEAD, "/v1/nodes", one(Inspect), None, false),
            (Method::GET, "/v1/incidents", one(Inspect), None, false),
            (Method::GET, "/v1/stream", one(Inspect), None, false),
            (Method::POST, "/v1/keyspaces/links/anything/new", one(Admin), Some("links"), false),
            (Method::GET, "/v1/anything/new", one(Inspect), None, false),
            (Method::DELETE, "/v1/anything/new", one(Admin), None, false),
            (Method::GET, "/healthz", open, None, false),
            (Method::GET, "/docs", open, None, false),
            (Method::GET, "/aZ3k9Qp", open, None, false),
        ] {
            let keyspace = keyspace.map(Cow::Borrowed);
            assert_eq!(need(&method, path), Need { right, keyspace, dangerous }, "{method} {path}");
        }
    }
}
