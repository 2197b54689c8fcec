//! Names that people choose, on the real binary: by which rules, who gets one, and that no pool ever issues it.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value, json};

mod harness;
use harness::{
    Connection, Home, Server,
    names::{taken, told},
    sized,
};

const BASE36: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// A keyspace whose node holds few keys, so that most can still be claimed.
fn frugal(name: &str, more: Value) -> Value {
    let mut keyspace = json!({ "name": name, "scheme": "pool", "alphabet": "base36",
                               "stock_min": 16, "outage_budget": "1ms" });
    let fields = keyspace.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    keyspace
}

/// Every text of two symbols.
fn pairs() -> impl Iterator<Item = String> {
    BASE36.iter().flat_map(|a| BASE36.iter().map(move |b| format!("{}{}", char::from(*a), char::from(*b))))
}

/// Takes one key after the other, `most` of them or until there is none.
fn drain(server: &Server, keyspace: &str, most: usize) -> Vec<String> {
    let mut connection = server.connect();
    let path = format!("/v1/keyspaces/{keyspace}/keys");
    let mut keys = Vec::new();
    while keys.len() < most {
        let answer = connection.ask("POST", &path, None).unwrap();
        if answer.status == 410 {
            assert_eq!(answer.code(), "exhausted");
            break;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        keys.extend(answer.keys());
    }
    keys
}

#[test]
fn a_name_has_up_to_16_letters_digits_dashes_and_underscores() {
    let home = Home::new();
    let server = home.start();
    for name in ["a", "-", "_", "0", "My-Talk_2026", "abcdefghijklmnop", "spring-sale"] {
        let answer = server.claim("links", name);
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(answer.json(), json!({ "keyspace": "links", "key": name, "state": "alias" }));
        assert_eq!(server.get(&format!("/v1/keyspaces/links/keys/{name}")).json()["state"], "alias");
        assert_eq!(server.get(&format!("/{name}")).status, 404, "it leads nowhere yet");
    }
    let no_name = [
        "abcdefghijklmnopq",
        "..",
        "a.b",
        "a%2Fb",
        "%2e%2e",
        "a%20b",
        "a+",
        "a%0Ab",
        "%00",
        "%1b%5b31m",
        "k%C3%A4se",
        "%D0%B0pi",
        "%EF%BD%81",
        "a%25b",
        "@a",
        "a~",
    ];
    for name in no_name.into_iter().map(str::to_owned).chain(["x".repeat(65), "x".repeat(4000)]) {
        let answer = server.claim("links", &name);
        assert_eq!((answer.status, answer.code()), (422, "invalid_alias".to_owned()), "{name}: {answer:?}");
        assert_eq!(answer.json()["errors"][0]["pointer"], "#/alias", "{answer:?}");
    }
    // Bytes that are no text, and a name that is none at all, are no address.
    assert!(matches!(server.claim("links", "%FF").status, 400 | 404));
    assert_eq!(server.claim("links", "").status, 404);
    assert_eq!(server.claim("nowhere", "a").code(), "keyspace_not_found");
    let body = server.ask("PUT", "/v1/keyspaces/links/keys/extra", Some(r#"{"owner":"me"}"#));
    assert_eq!((body.status, body.code()), (422, "invalid_field".to_owned()), "{body:?}");
    assert_eq!(server.claim("links", "extra").status, 201, "what was refused changed nothing");
}

#[test]
fn the_longest_length_is_a_setting() {
    let home = Home::new();
    let server = home.start();
    server.tune("links", &json!({ "alias_length_max": 32 }));
    assert_eq!(server.claim("links", &"x".repeat(32)).status, 201);
    let long = server.claim("links", &"x".repeat(33));
    assert!(long.status == 422 && long.text().contains("may have 32"), "{long:?}");
    server.tune("links", &json!({ "alias_length_max": 2 }));
    assert_eq!(server.claim("links", "xxx").code(), "invalid_alias");
    assert_eq!(server.claim("links", "xx").status, 201);
    for wrong in [json!(0), json!(65), json!("16")] {
        let answer = server.patch("/v1/keyspaces/links", &json!({ "alias_length_max": wrong }));
        assert_eq!((answer.status, answer.code()), (422, "invalid_field".to_owned()), "{answer:?}");
    }
}

#[test]
fn no_route_is_a_name_in_any_case_and_in_any_keyspace() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({ "name": "promo", "scheme": "pool" }));
    let words = [
        "v1",
        "api",
        "admin",
        "health",
        "healthz",
        "readyz",
        "metrics",
        "docs",
        "openapi",
        "openapi.json",
        "assets",
        "static",
        "favicon.ico",
        "robots.txt",
        ".well-known",
        "API",
        "Admin",
        "hEaLtHz",
        "V1",
    ];
    for keyspace in ["links", "promo"] {
        for word in words {
            let reserved = (422, "reserved_word".to_owned(), String::new());
            assert_eq!(told(&server.claim(keyspace, word)), reserved, "{word}");
            let link = server.link(keyspace, &json!({ "url": "https://example.com/", "alias": word }));
            assert_eq!(told(&link), reserved, "{word}");
        }
        assert_eq!(server.claim(keyspace, "apis").status, 201);
    }
}

#[test]
fn names_that_look_alike_are_one_name_where_they_are_guarded() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({ "name": "promo", "scheme": "pool", "confusable_guard": true }));
    assert_eq!(server.claim("promo", "paypal").status, 201);
    let url = "https://example.com/";
    for name in ["PayPal", "paypa1", "PAYPAI"] {
        assert_eq!(told(&server.claim("promo", name)), taken("alias"), "{name}");
        let link = server.link("promo", &json!({ "url": url, "alias": name }));
        assert_eq!(told(&link), taken("alias"), "{name}");
        let bind = server.put(&format!("/v1/keyspaces/promo/links/{name}"), &json!({ "url": url }));
        assert_eq!(told(&bind), taken("alias"), "{name}");
        let batch = json!({ "links": [{ "url": url, "alias": name }] }).to_string();
        let batch = server.post("/v1/keyspaces/promo/links/batch", &batch).json();
        assert_eq!(batch["links"][0]["reason"], "alias", "{batch}");
    }
    assert_eq!(server.claim("promo", "paypals").status, 201, "another name is another name");
    for name in ["paypal", "PayPal"] {
        assert_eq!(server.claim("links", name).status, 201, "nobody guards this keyspace");
    }
}

#[test]
fn a_refusal_says_what_has_the_name() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({ "name": "codes", "scheme": "pool", "order": "sequential", "length": 4 }));
    let url = json!({ "url": "https://example.com/" });
    // Keys follow each other: the one after the first is in this node's stock.
    assert_eq!(server.take("codes", 1), ["0000"]);
    for (name, reason) in [("0000", "issued"), ("0001", "in_stock")] {
        assert_eq!(told(&server.claim("codes", name)), taken(reason), "{name}");
        let link = server.link("codes", &json!({ "url": "https://example.com/", "alias": name }));
        assert_eq!(told(&link), taken(reason), "{name}");
        let batch = json!({ "links": [{ "url": "https://example.com/", "alias": name }] }).to_string();
        let batch = server.post("/v1/keyspaces/codes/links/batch", &batch).json();
        assert_eq!(batch["links"][0]["reason"], reason, "{name} {batch}");
    }
    let in_stock = server.put("/v1/keyspaces/codes/links/0001", &url);
    assert_eq!(told(&in_stock), taken("in_stock"), "nobody has it yet: {in_stock:?}");
    assert_eq!(server.put("/v1/keyspaces/codes/links/0000", &url).status, 201, "whoever took it may bind it");
    assert_eq!(told(&server.claim("codes", "0000")), taken("bound"));

    assert_eq!(server.claim("codes", "mine").status, 201);
    assert_eq!(told(&server.claim("codes", "mine")), taken("alias"));
    let link = server.link("codes", &json!({ "url": "https://example.com/", "alias": "mine" }));
    assert_eq!(told(&link), taken("alias"), "a claimed name is bound by who claimed it, with PUT");
    assert_eq!(server.put("/v1/keyspaces/codes/links/mine", &url).status, 201);
    assert_eq!(told(&server.claim("codes", "mine")), taken("bound"));
    assert_eq!(server.delete("/v1/keyspaces/codes/links/mine").status, 204);
    assert_eq!(told(&server.claim("codes", "mine")), taken("bound"), "a tombstone");

    let used =
        server.post("/v1/keyspaces/codes/used", r#"{"keys":["zzzz","old-code","0002","mine"]}"#).json();
    assert_eq!((&used["imported"], &used["rejected"][0]["key"]), (&json!(2), &json!("0002")), "{used}");
    for name in ["zzzz", "old-code"] {
        assert_eq!(told(&server.claim("codes", name)), taken("issued"), "{name}");
        let bind = server.put(&format!("/v1/keyspaces/codes/links/{name}"), &url);
        assert_eq!(told(&bind), taken("issued"), "{name}");
    }
    for scheme in ["sequence", "snowflake", "uuid4", "uuid7", "ulid"] {
        server.create(json!({ "name": scheme, "scheme": scheme }));
        assert_eq!(server.claim(scheme, "mine").code(), "wrong_scheme", "{scheme}");
    }
}

#[test]
fn a_retired_keyspace_grants_nothing_and_its_links_go_on() {
    let home = Home::new();
    let server = home.start();
    let url = json!({ "url": "https://example.com/" });
    for scheme in ["pool", "digest"] {
        server.create(json!({ "name": scheme, "scheme": scheme }));
        let key = server.linked(scheme, "https://example.com/");
        assert_eq!(server.delete(&format!("/v1/keyspaces/{scheme}")).status, 200);
        let batch = json!({ "links": [{ "url": "https://example.com/" }] }).to_string();
        for answer in [
            server.claim(scheme, "mine"),
            server.link(scheme, &json!({ "url": "https://example.com/", "alias": "mine" })),
            server.link(scheme, &json!({ "url": "https://example.com/new" })),
            server.put(&format!("/v1/keyspaces/{scheme}/links/mine"), &url),
            server.post(&format!("/v1/keyspaces/{scheme}/refs"), r#"{"ref":"https://example.com/r"}"#),
        ] {
            assert_eq!((answer.status, answer.code()), (410, "retired".to_owned()), "{answer:?}");
        }
        let batch = server.post(&format!("/v1/keyspaces/{scheme}/links/batch"), &batch);
        let code = [batch.code(), batch.json()["links"][0]["code"].as_str().unwrap_or_default().to_owned()];
        assert!(code.contains(&"retired".to_owned()), "{batch:?}");
        assert!(server.leads_to(&format!("/{scheme}/{key}")).is_some(), "what was given leads on");
    }
}

#[test]
fn the_pool_issues_exactly_what_nobody_claimed() {
    let home = Home::new();
    let server = home.start();
    server.create(frugal("tiny", json!({ "length": 2 })));
    let mut claimed = BTreeSet::new();
    for name in pairs().step_by(7) {
        let answer = server.claim("tiny", &name);
        match told(&answer) {
            (201, ..) => assert!(claimed.insert(name)),
            other => assert_eq!(other, taken("in_stock"), "{answer:?}"),
        }
        if claimed.len() == 50 {
            break;
        }
    }
    assert_eq!(claimed.len(), 50);
    let issued = drain(&server, "tiny", usize::MAX);
    let unique: BTreeSet<String> = issued.iter().cloned().collect();
    assert_eq!(unique.len(), issued.len(), "no key twice");
    assert!(unique.is_disjoint(&claimed), "no claimed name was issued");
    let all: BTreeSet<String> = unique.union(&claimed).cloned().collect();
    assert_eq!(all, pairs().collect(), "and nothing was lost: `v1` is a route only in the root keyspace");
    for name in &claimed {
        assert_eq!(told(&server.claim("tiny", name)), taken("alias"));
    }
}

#[test]
fn the_root_keyspace_never_issues_a_route() {
    let home = Home::new();
    let config = home.write(
        "keymill.toml",
        "[keyspaces.tiny]\nscheme = \"pool\"\nroot = true\nalphabet = \"base36\"\nlength = 2\n",
    );
    let server = home.server().arguments(&["--config", config.to_str().unwrap()]).start();
    let issued: BTreeSet<String> = drain(&server, "tiny", usize::MAX).into_iter().collect();
    let expected: BTreeSet<String> = pairs().filter(|name| name != "v1").collect();
    assert_eq!(issued, expected);
}

/// An alias may be longer than the keys of today: the pool gets there.
#[test]
fn a_name_is_kept_from_a_pool_at_every_length_it_grows_to() {
    let home = Home::new();
    let server = home.start();
    server.create(frugal("growing", json!({ "length": 1, "grow": true, "stock_min": 1 })));
    let mut claimed = HashSet::new();
    let names = pairs().step_by(25).chain(pairs().step_by(100).map(|pair| format!("{pair}x")));
    for name in BASE36.iter().map(|c| char::from(*c).to_string()).step_by(3).chain(names) {
        if server.claim("growing", &name).status == 201 {
            claimed.insert(name);
        }
    }
    let lengths: BTreeSet<usize> = claimed.iter().map(String::len).collect();
    assert_eq!(lengths, BTreeSet::from([1, 2, 3]));
    let keys = drain(&server, "growing", sized(4_000, 36 + 36 * 36 + 36 * 36 * 36));
    assert!(keys.iter().any(|key| key.len() == 3), "it grew beyond the names");
    let unique: HashSet<&String> = keys.iter().collect();
    assert_eq!(unique.len(), keys.len(), "no key twice");
    assert!(claimed.iter().all(|name| !unique.contains(name)));
}

#[test]
fn spellings_that_are_read_as_one_key_are_one_name() {
    let home = Home::new();
    let server = home.start();
    server.create(frugal("lower", json!({ "length": 6 })));
    server.create(json!({ "name": "spoken", "scheme": "pool", "alphabet": "crockford32", "length": 4,
                          "stock_min": 16, "outage_budget": "1ms" }));
    let target = json!({ "url": "https://example.com/" });
    for (keyspace, said, kept, others) in [
        ("lower", "ABCDEF", "abcdef", ["abcdef", "AbCdEf"]),
        ("spoken", "oil5", "0115", ["0I15", "OIL5"]),
        ("spoken", "abcd", "ABCD", ["ABCD", "aBcD"]),
    ] {
        let claimed = server.claim(keyspace, said);
        assert_eq!((claimed.status, claimed.json()["key"].as_str().unwrap()), (201, kept), "{claimed:?}");
        for other in others {
            assert_eq!(told(&server.claim(keyspace, other)), taken("alias"), "{other}");
            let known = server.get(&format!("/v1/keyspaces/{keyspace}/keys/{other}")).json();
            assert_eq!(known["state"], "alias", "{known}");
        }
        let bound = server.put(&format!("/v1/keyspaces/{keyspace}/links/{}", others[0]), &target);
        assert_eq!((bound.status, bound.json()["key"].as_str().unwrap()), (201, kept), "{bound:?}");
        for spelling in others.into_iter().chain([said, kept]) {
            let led = server.leads_to(&format!("/{keyspace}/{spelling}"));
            assert_eq!(led.as_deref(), Some("https://example.com/"), "{spelling}");
        }
    }
    // What no key looks like is a name as it is written.
    assert_eq!([server.claim("lower", "a-b").status, server.claim("lower", "A-B").status], [201, 201]);
    assert_eq!(
        [server.claim("links", "AbCdEfG").status, server.claim("links", "aBcDeFg").status],
        [201, 201]
    );
}

#[test]
fn of_a_thousand_who_want_one_name_one_gets_it() {
    let home = Home::new();
    let server = home.start();
    // One that the pool can spell, one that it cannot, one as a link, one by binding it.
    let url = r#"{"url":"https://example.com/"}"#;
    let alias = |name: &str| format!(r#"{{"url":"https://example.com/{name}","alias":"{name}"}}"#);
    for (method, path, body) in [
        ("PUT", "/v1/keyspaces/links/keys/wanted7", String::new()),
        ("PUT", "/v1/keyspaces/links/keys/much-wanted", String::new()),
        ("POST", "/v1/keyspaces/links/links", alias("desired")),
        ("PUT", "/v1/keyspaces/links/links/longed-for", url.to_owned()),
    ] {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut callers: Vec<Connection> = (0..1000).map(|_| server.connect()).collect();
        for caller in &mut callers {
            caller.write(request.as_bytes()).unwrap();
        }
        let mut granted = 0;
        for mut caller in callers {
            let answer = caller.answer(false).unwrap();
            match told(&answer) {
                (201, ..) => granted += 1,
                (200, ..) => assert!(path.ends_with("longed-for"), "the same URL again: {answer:?}"),
                (status, code, _) => assert_eq!((status, code.as_str()), (409, "name_taken"), "{answer:?}"),
            }
        }
        assert_eq!(granted, 1, "{path}");
    }
}
