//! Names on PostgreSQL and MariaDB, with two nodes each; and what is said where no engine keeps names.

use std::{collections::HashSet, thread};

use keymill_engines::{etcd::Etcd, mariadb::MariaDb, postgres::Postgres};
use serde_json::{Value, json};

mod harness;
use harness::{
    Connection, Home, Server,
    names::{taken, told, until},
};

const KEY: &str = "an-idempotency-key-of-ours";

/// Two nodes on one ledger.
struct Pair {
    nodes: [Server; 2],
    _homes: [Home; 2],
}

fn pair(ledger: &str, more: &[(&str, &str)]) -> Pair {
    let homes = [Home::new(), Home::new()];
    let start = |home: &Home| {
        let mut launch = home.server().arguments(&["--ledger", ledger]);
        for (name, value) in more {
            launch = launch.environment(name, value);
        }
        launch.environment("KEYMILL_REGISTRY__SWEEP_INTERVAL", "1s").start()
    };
    Pair { nodes: homes.each_ref().map(start), _homes: homes }
}

/// What must hold on every engine that keeps names, whichever node is asked.
fn names_work(pair: &Pair) {
    let [one, two] = &pair.nodes;
    names_are_granted_once(one, two);
    links_are_shared(one, two);
    retries_are_recognised(one, two);
    content_has_one_key(one, two);
    used_codes_are_withheld(one, two);
    what_expires_is_swept(one, two);
}

fn names_are_granted_once(one: &Server, two: &Server) {
    assert_eq!(one.claim("links", "mine").status, 201);
    assert_eq!(told(&two.claim("links", "mine")), taken("alias"));
    for (first, second) in [("aB3k9Qp", "Ab3k9qP"), ("a-b", "A-B")] {
        assert_eq!(
            [one.claim("links", first).status, two.claim("links", second).status],
            [201, 201],
            "{first}"
        );
    }
    // One key in the other node's stock, one that it issued.
    one.create(json!({ "name": "codes", "scheme": "pool", "order": "sequential", "length": 5 }));
    assert_eq!(one.take("codes", 1), ["00000"]);
    assert_eq!(told(&two.claim("codes", "00001")), taken("in_stock"));
    // A hundred at once on both nodes, for each of ten names.
    for name in 0..10 {
        let request = format!("PUT /v1/keyspaces/links/keys/wanted{name} HTTP/1.1\r\nHost: test\r\n\r\n");
        let mut callers: Vec<Connection> =
            (0..100).map(|n| if n % 2 == 0 { one.connect() } else { two.connect() }).collect();
        callers.iter_mut().for_each(|caller| caller.write(request.as_bytes()).unwrap());
        let granted = callers.iter_mut().map(|caller| caller.answer(false).unwrap()).filter(|answer| {
            assert!(matches!(answer.status, 201 | 409), "{answer:?}");
            answer.status == 201
        });
        assert_eq!(granted.count(), 1, "wanted{name}");
    }
}

fn links_are_shared(one: &Server, two: &Server) {
    let key = one.linked("links", "https://example.com/ä?'\"");
    let target = "https://example.com/%C3%A4?%27%22";
    assert_eq!(two.leads_to(&format!("/{key}")).as_deref(), Some(target));
    let path = format!("/v1/keyspaces/links/links/{key}");
    assert_eq!(two.put(&path, &json!({ "url": "https://example.com/other" })).code(), "already_bound");
    assert_eq!(two.put(&path, &json!({ "url": target })).status, 200);
    assert_eq!(one.patch(&path, &json!({ "url": "https://example.com/2" })).status, 200);
    assert_eq!(one.leads_to(&format!("/{key}")).as_deref(), Some("https://example.com/2"));
    let links: Vec<Value> = (0..1000).map(|n| json!({ "url": format!("https://example.com/{n}") })).collect();
    let body = json!({ "links": links }).to_string();
    let batch = two.post("/v1/keyspaces/links/links/batch", &body).json();
    let keys: HashSet<&str> =
        batch["links"].as_array().unwrap().iter().map(|it| it["key"].as_str().unwrap()).collect();
    assert_eq!(keys.len(), 1000);
    let found = one.get("/v1/keyspaces/links/links?q=EXAMPLE.com/99").json();
    assert_eq!(found["links"].as_array().unwrap().len(), 11, "99 and 990 to 999");
    assert_eq!(one.delete(&path).status, 204);
    until("the other node hears of it", || two.get(&format!("/{key}")).status == 410);
    two.leads_to(&format!("/{}", keys.iter().next().unwrap()));
    let visited = format!("/v1/keyspaces/links/links/{}", keys.iter().next().unwrap());
    until("visits are written down", || one.get(&visited).json()["visits"] == 1);
    for odd in ["%00", &"x".repeat(300), "%F0%9F%A7%80"] {
        assert_eq!(one.get(&format!("/v1/keyspaces/links/links/{odd}")).status, 404);
        assert_eq!(one.delete(&format!("/v1/keyspaces/links/links/{odd}")).status, 404);
        let listed = one.get(&format!("/v1/keyspaces/links/links?q={odd}")).json();
        assert_eq!(listed["links"].as_array().unwrap().len(), 0, "{odd} {listed}");
    }
}

fn retries_are_recognised(one: &Server, two: &Server) {
    for (path, body) in [
        ("/v1/keyspaces/links/links", r#"{"url":"https://example.com/once"}"#),
        ("/v1/keyspaces/links/links/batch", r#"{"links":[{"url":"https://example.com/once"}]}"#),
        ("/v1/keyspaces/links/keys", r#"{"count":3}"#),
        ("/v1/keyspaces/links/refs", r#"{"ref":"once"}"#),
    ] {
        let first = one.once("POST", path, KEY, body);
        assert!(matches!(first.status, 200 | 201), "{first:?}");
        let again = two.once("POST", path, KEY, body);
        assert_eq!((again.status, again.text()), (first.status, first.text()), "{path}");
        assert_eq!(two.once("POST", path, KEY, &format!("{body} ")).code(), "idempotency_mismatch");
    }
}

fn content_has_one_key(one: &Server, two: &Server) {
    one.create(json!({ "name": "content", "scheme": "digest", "length": 2, "hash": "md5" }));
    let addresses = [one.address, two.address];
    let callers: Vec<_> = (0..16)
        .map(|caller: usize| {
            let address = addresses[caller % 2];
            thread::spawn(move || {
                let mut connection = Connection::open(address).unwrap();
                let mut link = |n: usize| {
                    let body =
                        json!({ "url": format!("https://example.com/{}", (n + caller) % 20) }).to_string();
                    let answer = connection.ask("POST", "/v1/keyspaces/content/links", Some(&body)).unwrap();
                    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
                    (answer.json()["url"].to_string(), answer.json()["key"].to_string())
                };
                (0..20).map(&mut link).collect::<Vec<_>>()
            })
        })
        .collect();
    let pairs: HashSet<(String, String)> =
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
    assert_eq!(pairs.len(), 20, "{pairs:?}");
    assert_eq!(pairs.iter().map(|(_, key)| key).collect::<HashSet<_>>().len(), 20, "a key each");
}

fn used_codes_are_withheld(one: &Server, two: &Server) {
    one.create(json!({ "name": "older", "scheme": "pool", "length": 6 }));
    // Some that the pool can spell, some that it cannot.
    let keys: Vec<String> =
        (0..2_000).map(|n| if n % 2 == 0 { format!("Z{n:05}") } else { format!("old-code-{n}") }).collect();
    let body = json!({ "keys": keys }).to_string();
    let first = one.post("/v1/keyspaces/older/used", &body).json();
    assert_eq!((&first["imported"], &first["known"]), (&json!(2000), &json!(0)), "{first}");
    let again = two.post("/v1/keyspaces/older/used", &body).json();
    assert_eq!((&again["imported"], &again["known"]), (&json!(0), &json!(2000)), "{again}");
    for name in ["Z00000", "old-code-1"] {
        assert_eq!(told(&two.claim("older", name)), taken("issued"), "{name}");
    }
}

fn what_expires_is_swept(one: &Server, two: &Server) {
    let swept = || one.metric("registry_swept_total") + two.metric("registry_swept_total");
    let before = swept();
    for n in 0..20 {
        let link = json!({ "url": "https://example.com/", "alias": format!("brief-{n}"), "expires_in": 1 });
        assert_eq!(one.link("links", &link).status, 201);
    }
    until("they are swept, each by one node", || swept() - before == 20.0);
    assert_eq!(two.get("/brief-7").status, 410);
    assert_eq!(told(&two.claim("links", "brief-7")), taken("bound"));
}

#[test]
fn names_work_on_postgresql() {
    let engine = Postgres::start().expect("PostgreSQL starts");
    names_work(&pair(&engine.url(), &[]));
}

#[test]
fn names_work_on_mariadb() {
    let engine = MariaDb::start().expect("MariaDB starts");
    names_work(&pair(&engine.url(), &[]));
}

#[test]
fn names_are_off_on_etcd_until_a_registry_is_named() {
    let etcd = Etcd::cluster(1).expect("etcd starts");
    let ledger = format!("etcd://{}/off", etcd.addresses());
    let home = Home::new();
    let server = home.server().arguments(&["--ledger", &ledger]).start();
    let off = (422, "registry_off".to_owned(), String::new());
    let url = json!({ "url": "https://example.com/" });
    for answer in [
        server.claim("links", "mine"),
        server.link("links", &url),
        server.put("/v1/keyspaces/links/links/mine", &url),
        server.patch("/v1/keyspaces/links/links/mine", &url),
        server.delete("/v1/keyspaces/links/links/mine"),
        server.get("/v1/keyspaces/links/links"),
        server.get("/v1/keyspaces/links/links/mine"),
        server.post("/v1/keyspaces/links/refs", r#"{"ref":"a"}"#),
        server.get("/v1/keyspaces/links/refs/a"),
        server.get("/v1/keyspaces/links/refs"),
        server.post("/v1/keyspaces/links/refs/batch", r#"{"refs":[{"ref":"a"}]}"#),
        server.post("/v1/keyspaces/links/used", r#"{"keys":["old-code"]}"#),
        server.once("POST", "/v1/keyspaces/links/keys", KEY, ""),
    ] {
        assert_eq!(told(&answer), off, "{answer:?}");
        assert!(answer.text().contains("registry.url"), "it says what to do: {answer:?}");
    }
    assert_eq!(server.take("links", 3).len(), 3, "keys need no registry");
    let recorded = server.post("/v1/keyspaces", r#"{"name":"invoices","scheme":"sequence","audit":"key"}"#);
    assert_eq!((recorded.status, recorded.code().as_str()), (422, "invalid_field"), "{recorded:?}");
    assert!(recorded.text().contains("registry.url"), "{recorded:?}");
    assert_ne!(server.get("/nothing").status, 302);
    drop(server);

    let postgres = Postgres::start().expect("PostgreSQL starts");
    let ledger = format!("etcd://{}/on", etcd.addresses());
    names_work(&pair(&ledger, &[("KEYMILL_REGISTRY__URL", &postgres.url())]));
}

#[test]
fn a_file_of_names_beside_a_shared_ledger_is_refused() {
    let home = Home::new();
    for ledger in
        ["etcd://127.0.0.1:2379/x", "redis://127.0.0.1:6379/0", "postgres://keymill@127.0.0.1:1/keymill"]
    {
        let refused = home
            .server()
            .arguments(&["--ledger", ledger])
            .environment("KEYMILL_REGISTRY__URL", "sqlite:names.db")
            .run();
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(
            refused.stderr.contains("registry.url") && refused.stderr.contains("its own names"),
            "{refused:?}"
        );
    }
}
