//! One get-or-create, on the real binary: a reference has one key, whoever asks and wherever.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    thread,
};

use keymill_engines::postgres::Postgres;
use serde_json::{Value, json};

mod harness;
use harness::{Connection, Home, Server};

const REFS: &str = "/v1/keyspaces/links/refs";

fn refer(server: &Server, reference: &str) -> (u16, String) {
    let answer = server.post(REFS, &json!({ "ref": reference }).to_string());
    let body = answer.json();
    assert_eq!(body["ref"], reference, "{answer:?}");
    (answer.status, body["key"].as_str().unwrap().to_owned())
}

/// Every reference there is, page by page.
fn exported(server: &Server, limit: usize) -> BTreeMap<String, String> {
    let (mut all, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let page = server.get(&format!("{REFS}?limit={limit}{cursor}")).json();
        for found in page["refs"].as_array().unwrap() {
            let text = |field: &str| found[field].as_str().unwrap().to_owned();
            assert_eq!(all.insert(text("ref"), text("key")), None, "each once");
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

#[test]
fn a_reference_has_one_key_and_is_found_both_ways() {
    let home = Home::new();
    let server = home.start();
    let mut keys = HashSet::new();
    for (reference, encoded) in [
        ("legacy-4711", "legacy-4711"),
        ("order 17/2026", "order%2017%2F2026"),
        ("käse 🧀", "k%C3%A4se%20%F0%9F%A7%80"),
        ("https://example.com/?a=b&c", "https%3A%2F%2Fexample.com%2F%3Fa%3Db%26c"),
        ("..", "%2E%2E"),
        ("%2F", "%252F"),
        ("'; DROP TABLE refs; --", "%27%3B%20DROP%20TABLE%20refs%3B%20--"),
        ("Legacy-4711", "Legacy-4711"),
        ("legacy-4711 ", "legacy-4711%20"),
    ] {
        let (status, key) = refer(&server, reference);
        assert_eq!(status, 201, "{reference}");
        assert!(keys.insert(key.clone()), "{reference} has a key of its own");
        assert_eq!(refer(&server, reference), (200, key.clone()));
        for path in [format!("{REFS}/{encoded}"), format!("{REFS}?ref={encoded}")] {
            assert_eq!(
                server.get(&path).json(),
                json!({ "keyspace": "links", "ref": reference, "key": key }),
                "{path}"
            );
        }
        let known = server.get(&format!("/v1/keyspaces/links/keys/{key}")).json();
        assert_eq!(
            (&known["state"], &known["refs"]),
            (&json!("issued"), &json!([reference])),
            "both IDs: {known}"
        );
    }
    let (_, key) = refer(&server, "legacy-4711");
    let text = home.run(&["inspect", "links", &key, "--server", &server.url()]).ok();
    assert!(text.lines().any(|line| line.starts_with("ref ") && line.ends_with("legacy-4711")), "{text}");
    assert_eq!(server.get(&format!("{REFS}/unknown")).code(), "key_not_found");
    for bad in ["", "a\nb", "\0", &"x".repeat(2049)] {
        let answer = server.post(REFS, &json!({ "ref": bad }).to_string());
        assert_eq!((answer.status, answer.code()), (422, "invalid_field".to_owned()), "{answer:?}");
    }
    for body in [r#"{}"#, r#"{"ref":1}"#, r#"{"ref":"a","key":"b"}"#, r#"{"reference":"a"}"#] {
        assert_eq!(server.post(REFS, body).code(), "invalid_field", "{body}");
    }
    let cursor = server.get(&format!("{REFS}?cursor=%00"));
    assert_eq!((cursor.status, cursor.code()), (422, "invalid_field".to_owned()));
}

#[test]
fn references_of_different_owners_are_different() {
    let home = Home::new();
    let server = home.start();
    let ask = |body: Value| server.post(REFS, &body.to_string()).json()["key"].as_str().unwrap().to_owned();
    let keys =
        [json!({ "ref": "1" }), json!({ "ref": "1", "owner": "ann" }), json!({ "ref": "1", "owner": "ben" })]
            .map(ask);
    assert_eq!(BTreeSet::from(keys.clone()).len(), 3, "{keys:?}");
    assert_eq!(server.get(&format!("{REFS}/1?owner=ann")).json()["key"], keys[1]);
    assert_eq!(server.get(&format!("{REFS}?ref=1&owner=ben")).json()["key"], keys[2]);
    for scheme in ["sequence", "snowflake", "uuid7"] {
        server.create(json!({ "name": scheme, "scheme": scheme }));
        let path = format!("/v1/keyspaces/{scheme}/refs");
        let first = server.post(&path, r#"{"ref":"a"}"#);
        assert_eq!(first.status, 201, "every scheme: {first:?}");
        assert_eq!(server.post(&path, r#"{"ref":"a"}"#).json()["key"], first.json()["key"]);
    }
}

#[test]
fn a_batch_gives_each_reference_its_key_in_the_order_asked() {
    let home = Home::new();
    let server = home.start();
    let (_, known) = refer(&server, "known");
    let refs = json!({ "refs": [{ "ref": "a" }, { "ref": "known" }, { "ref": "" }, { "ref": "a" }, { "ref": "b" }] });
    let batch = server.post(&format!("{REFS}/batch"), &refs.to_string());
    let body = batch.json();
    assert_eq!((batch.status, &body["created"]), (200, &json!(2)), "{batch:?}");
    let of = |n: usize| &body["refs"][n]["key"];
    assert_eq!((of(1), of(0)), (&json!(known), of(3)), "{body}");
    assert_ne!(of(0), of(4));
    assert_eq!(body["refs"][2]["code"], "invalid_field");
    let many: Vec<Value> = (0..1000).map(|n| json!({ "ref": format!("r{n}") })).collect();
    let body = json!({ "refs": many }).to_string();
    let first = server.post(&format!("{REFS}/batch"), &body).json();
    assert_eq!(first["created"], 1000);
    let again = server.post(&format!("{REFS}/batch"), &body).json();
    assert_eq!((&again["created"], &again["refs"]), (&json!(0), &first["refs"]));
    let more: Vec<Value> = (0..1001).map(|n| json!({ "ref": format!("r{n}") })).collect();
    let more = server.post(&format!("{REFS}/batch"), &json!({ "refs": more }).to_string());
    assert_eq!(more.code(), "invalid_field", "1001 are too many");
    for limit in [1000, 333] {
        assert_eq!(exported(&server, limit).len(), 1003, "known, a, b, and a thousand");
    }
}

/// Sixty-four callers on two nodes want the same references, in single calls and in batches.
#[test]
fn callers_on_two_nodes_agree_on_every_key() {
    const NAMES: usize = 12;
    let engine = Postgres::start().expect("PostgreSQL starts");
    let homes = [Home::new(), Home::new()];
    let nodes = homes.each_ref().map(|home| home.server().arguments(&["--ledger", &engine.url()]).start());
    let callers: Vec<_> = (0..64)
        .map(|caller: usize| {
            let address = nodes[caller % 2].address;
            thread::spawn(move || {
                let mut connection = Connection::open(address).unwrap();
                let reference = |n: usize| format!("shared-{}", (n + caller) % NAMES);
                if caller % 4 == 3 {
                    let refs: Vec<Value> = (0..NAMES).map(|n| json!({ "ref": reference(n) })).collect();
                    let body = json!({ "refs": refs }).to_string();
                    let answer = connection.ask("POST", &format!("{REFS}/batch"), Some(&body)).unwrap();
                    assert_eq!(answer.status, 200, "{answer:?}");
                    return answer.json()["refs"].as_array().unwrap().clone();
                }
                let ask = |n: usize| {
                    let body = json!({ "ref": reference(n) }).to_string();
                    let answer = connection.ask("POST", REFS, Some(&body)).unwrap();
                    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
                    answer.json()
                };
                (0..NAMES).map(ask).collect()
            })
        })
        .collect();
    let mut agreed: BTreeMap<String, String> = BTreeMap::new();
    for found in callers.into_iter().flat_map(|caller| caller.join().unwrap()) {
        let text = |field: &str| found[field].as_str().unwrap_or_else(|| panic!("{found}")).to_owned();
        let key = agreed.entry(text("ref")).or_insert_with(|| text("key"));
        assert_eq!(*key, text("key"), "{found}");
    }
    assert_eq!(agreed.len(), NAMES);
    assert_eq!(agreed.values().collect::<BTreeSet<_>>().len(), NAMES, "a key each");
    for node in &nodes {
        assert_eq!(exported(node, 5), agreed, "exported page by page, from either node");
        for (reference, key) in &agreed {
            let known = node.get(&format!("/v1/keyspaces/links/keys/{key}")).json();
            assert_eq!(known["refs"], json!([reference]), "{known}");
        }
    }
}
