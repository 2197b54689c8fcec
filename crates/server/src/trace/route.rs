//! What an address asks for, without what it names: keys, names and tokens' ids stay out of traces.

/// `/v1/keyspaces/links/keys/aZ3k9Qp` is `/v1/keyspaces/{ks}/keys/{key}`.
pub(crate) fn route(path: &str) -> &'static str {
    let mut parts = path.trim_start_matches('/').split('/');
    match (parts.next().unwrap_or_default(), parts.next()) {
        ("", None) => "/",
        ("v1", Some(what)) => v1(what, parts.next(), parts.next(), parts.next()),
        ("healthz", None) => "/healthz",
        ("readyz", None) => "/readyz",
        ("metrics", None) => "/metrics",
        ("openapi.json", None) => "/openapi.json",
        ("docs", None) => "/docs",
        ("docs", Some(_)) => "/docs/{file}",
        ("assets", Some(_)) => "/assets/{file}",
        (_, None) => "/{key}",
        (_, Some(_)) => "/{ks}/{key}",
    }
}

fn v1(what: &str, name: Option<&str>, part: Option<&str>, below: Option<&str>) -> &'static str {
    match (what, name, part, below) {
        ("keyspaces", None, ..) => "/v1/keyspaces",
        ("keyspaces", Some(_), None, _) => "/v1/keyspaces/{ks}",
        ("keyspaces", Some(_), Some(part), below) => keyspace(part, below),
        ("decode", None, ..) => "/v1/decode",
        ("decode", Some(_), None, _) => "/v1/decode/{id}",
        ("ledger", None, ..) => "/v1/ledger",
        ("ledger", Some("advance"), None, _) => "/v1/ledger/advance",
        ("ledger", Some("backup"), None, _) => "/v1/ledger/backup",
        ("nodes", None, ..) => "/v1/nodes",
        ("workers", None, ..) => "/v1/workers",
        ("claims", None, ..) => "/v1/claims",
        ("incidents", None, ..) => "/v1/incidents",
        ("tokens", None, ..) => "/v1/tokens",
        ("tokens", Some(_), None, _) => "/v1/tokens/{id}",
        ("stream", None, ..) => "/v1/stream",
        _ => "/v1/…",
    }
}

fn keyspace(part: &str, below: Option<&str>) -> &'static str {
    match (part, below) {
        ("keys", None) => "/v1/keyspaces/{ks}/keys",
        ("keys", Some(_)) => "/v1/keyspaces/{ks}/keys/{key}",
        ("links", None) => "/v1/keyspaces/{ks}/links",
        ("links", Some("batch")) => "/v1/keyspaces/{ks}/links/batch",
        ("links", Some(_)) => "/v1/keyspaces/{ks}/links/{key}",
        ("refs", None) => "/v1/keyspaces/{ks}/refs",
        ("refs", Some("batch")) => "/v1/keyspaces/{ks}/refs/batch",
        ("refs", Some(_)) => "/v1/keyspaces/{ks}/refs/{ref}",
        ("used", None) => "/v1/keyspaces/{ks}/used",
        ("fill", None) => "/v1/keyspaces/{ks}/fill",
        ("import", None) => "/v1/keyspaces/{ks}/import",
        ("history", None) => "/v1/keyspaces/{ks}/history",
        ("issued", None) => "/v1/keyspaces/{ks}/issued",
        ("range", None) => "/v1/keyspaces/{ks}/range",
        _ => "/v1/…",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_left_out() {
        for (path, asked) in [
            ("/", "/"),
            ("/aZ3k9Qp", "/{key}"),
            ("/aZ3k9Qp+", "/{key}"),
            ("/promo/aZ3k9Qp", "/{ks}/{key}"),
            ("/promo/aZ3k9Qp/more", "/{ks}/{key}"),
            ("/v1/keyspaces/links/keys", "/v1/keyspaces/{ks}/keys"),
            ("/v1/keyspaces/links/keys/aZ3k9Qp", "/v1/keyspaces/{ks}/keys/{key}"),
            ("/v1/keyspaces/links/aZ3k9Qp", "/v1/…"),
            ("/v1/tokens/abcdefgh", "/v1/tokens/{id}"),
            ("/v1/aZ3k9Qp", "/v1/…"),
            ("/v1", "/{key}"),
        ] {
            assert_eq!(route(path), asked, "{path}");
        }
    }
}
