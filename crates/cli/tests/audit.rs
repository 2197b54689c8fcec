//! `keymill audit export`: what the ledger knows of who took what, as a file; and keys that are written down one by one.

use std::{collections::HashSet, num::NonZeroUsize, thread, time::Duration};

use keymill_engines::postgres::Postgres;
use redis::Commands as _;
use serde_json::{Value, json};

mod harness;
use harness::{Connection, Home, Server, names::until, sized};

#[test]
fn claims_of_numbers_and_of_time_are_written_down() {
    let home = Home::new();
    let server = home.start();
    server.until_stocked(&["links"]);
    server.take("links", 10);
    server.take("events", 1);
    let first = home.node();
    server.terminate();
    let server = home.start();
    server.until_stocked(&["links"]);
    let url = server.url();
    let export = |more: &[&str]| home.run(&[&["--server", &url, "audit", "export"], more].concat());

    let csv = export(&["links"]).ok();
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("track,start,end,node,epoch,reserved_at,issued_up_to,last_issued_at,state")
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let settled = rows
        .iter()
        .find(|row| row[8] == "settled")
        .unwrap_or_else(|| panic!("the first life stopped cleanly: {csv}"));
    assert_eq!((settled[0], settled[3]), ("links", first.as_str()));
    assert!(rows.iter().all(|row| row[1].parse::<u64>().unwrap() < row[2].parse().unwrap()), "{csv}");
    let issued: u64 = settled[6].parse::<u64>().unwrap() - settled[1].parse::<u64>().unwrap();
    assert!(issued >= 10, "{csv}");

    let out = home.path().join("events.jsonl");
    export(&["events", "--format", "jsonl", "--out", out.to_str().unwrap()]).ok();
    let text = std::fs::read_to_string(out).unwrap();
    let claims: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        !claims.is_empty()
            && claims.iter().all(|claim| claim["track"].as_str().unwrap().starts_with("events/"))
    );

    let refused = export(&["nothing"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("no keyspace"), "{refused:?}");
}

/// Every key that was written down, by `audit export --keys`.
fn recorded(home: &Home, server: &Server, keyspace: &str) -> Vec<String> {
    let csv = home.run(&["--server", &server.url(), "audit", "export", keyspace, "--keys"]).ok();
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("key,node,issued_at"));
    let node = home.node();
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split(',').collect();
            assert_eq!(columns[1], node, "{line}");
            assert!(columns[2].ends_with('Z'), "{line}");
            columns[0].to_owned()
        })
        .collect()
}

fn sorted(mut keys: Vec<String>) -> Vec<String> {
    keys.sort();
    keys
}

#[test]
fn every_key_of_whatever_kind_is_written_down_whoever_takes_it_and_how() {
    let home = Home::new();
    let server = home.start();
    let mut redis =
        redis::Client::open(format!("redis://{}", server.resp.unwrap())).unwrap().get_connection().unwrap();
    for (name, more) in [
        ("vouchers", json!({"scheme": "pool", "length": 8})),
        ("invoices", json!({"scheme": "sequence"})),
        ("orders", json!({"scheme": "snowflake"})),
        ("sessions", json!({"scheme": "uuid7"})),
    ] {
        let mut keyspace = json!({"name": name, "audit": "key"});
        keyspace.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.create(keyspace);
        let mut taken = server.take(name, 1);
        taken.extend(server.take(name, 1_500));
        let path = format!("/v1/keyspaces/{name}/keys");
        let text = [("Accept", "text/plain")];
        taken.extend(server.connect().send("POST", &path, &text, b"{\"count\":2500}").unwrap().lines());
        taken.push(redis.lpop::<_, String>(name, None).unwrap());
        taken.extend(redis.lpop::<_, Vec<String>>(name, NonZeroUsize::new(30)).unwrap());
        if name == "invoices" {
            taken.push(redis.incr::<_, _, u64>(name, 1).unwrap().to_string());
            let last: u64 = redis.incr(name, 20).unwrap();
            taken.extend((last - 19..=last).map(|ticket| ticket.to_string()));
        }
        if name == "vouchers" {
            taken.push(server.linked(name, "https://example.com/"));
            let links = r#"{"links":[{"url":"https://example.com/1"},{"url":"https://example.com/2"}]}"#;
            let made = server.post("/v1/keyspaces/vouchers/links/batch", links).json();
            taken.extend(
                made["links"].as_array().unwrap().iter().map(|link| link["key"].as_str().unwrap().to_owned()),
            );
            let made = server.post("/v1/keyspaces/vouchers/refs", r#"{"ref":"legacy-1"}"#).json();
            taken.push(made["key"].as_str().unwrap().to_owned());
        }
        assert!(taken.len() > 4_030, "{name}: {}", taken.len());
        assert_eq!(sorted(recorded(&home, &server, name)), sorted(taken), "{name}");
    }
    home.run(&[
        "--server",
        &server.url(),
        "keyspace",
        "create",
        "receipts",
        "--scheme",
        "sequence",
        "--audit",
        "key",
    ])
    .ok();
    assert_eq!(server.take("receipts", 3), recorded(&home, &server, "receipts"));
    // From here on it is not kept any more, and later it is again.
    let before = recorded(&home, &server, "vouchers").len();
    server.tune("vouchers", &json!({"audit": "claim"}));
    server.take("vouchers", 10);
    assert_eq!(recorded(&home, &server, "vouchers").len(), before);
    server.tune("vouchers", &json!({"audit": "key"}));
    server.take("vouchers", 10);
    assert_eq!(recorded(&home, &server, "vouchers").len(), before + 10);
}

#[test]
fn what_anyone_was_given_is_written_down_though_the_server_was_killed() {
    let home = Home::new();
    let mut taken = Vec::new();
    for life in 0..sized(3, 20) {
        let server = home.start();
        if life == 0 {
            server.create(json!({"name": "vouchers", "scheme": "pool", "length": 8, "audit": "key"}));
        }
        let address = server.address;
        let callers: Vec<_> = (0..4)
            .map(|_| {
                thread::spawn(move || {
                    let mut connection = Connection::open(address).unwrap();
                    let mut keys = Vec::new();
                    while let Ok(answer) = connection.ask("POST", "/v1/keyspaces/vouchers/keys", None) {
                        assert_eq!(answer.status, 200, "{answer:?}");
                        keys.extend(answer.keys());
                    }
                    keys
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(300));
        server.kill();
        taken.extend(callers.into_iter().flat_map(|caller| caller.join().unwrap()));
    }
    let server = home.start();
    let recorded: HashSet<String> = recorded(&home, &server, "vouchers").into_iter().collect();
    let missing: Vec<_> = taken.iter().filter(|key| !recorded.contains(*key)).collect();
    println!("{} keys were given, {} were written down", taken.len(), recorded.len());
    assert!(!taken.is_empty() && missing.is_empty(), "{missing:?}");
}

/// A row that is there already, as after a ledger was set back by hand: its key goes to nobody. Without the log it does.
#[test]
fn a_key_that_is_written_down_already_goes_to_nobody() {
    let home = Home::new();
    let server = home.start();
    for (name, audit) in [("guarded", "key"), ("control", "claim")] {
        server.create(json!({"name": name, "scheme": "sequence", "audit": audit}));
        assert_eq!(server.take(name, 3), ["1", "2", "3"]);
    }
    let rows = rusqlite::Connection::open(home.file("keymill.db")).unwrap();
    rows.busy_timeout(Duration::from_secs(5)).unwrap();
    for name in ["guarded", "control"] {
        let sql = "INSERT INTO keymill_registry_issued (keyspace, place, name, node, issued_at) VALUES (?1, 4, '5', 'x', 1)";
        rows.execute(sql, [name]).unwrap();
    }
    assert_eq!(server.take("control", 3), ["4", "5", "6"]);
    let refused = server.try_take("guarded", 3);
    assert_eq!((refused.status, refused.code().as_str()), (500, "internal"), "{refused:?}");
    server.logged("could not be written down");
    assert_eq!(server.take("guarded", 3), ["7", "8", "9"], "and what was with it is burned");
}

#[test]
fn keys_that_cannot_be_written_down_are_burned_and_the_next_ones_are_given_once_they_can() {
    let mut postgres = Postgres::start().unwrap();
    let home = Home::new();
    let server = home.server().environment("KEYMILL_REGISTRY__URL", &postgres.url()).start();
    server.create(json!({"name": "invoices", "scheme": "sequence", "audit": "key"}));
    let mut taken = server.take("invoices", 3);
    postgres.crash().unwrap();
    let refused = server.try_take("invoices", 3);
    assert_eq!((refused.status, refused.code().as_str()), (503, "ledger_unavailable"), "{refused:?}");
    assert_eq!(server.take("links", 2).len(), 2, "other keyspaces do not notice");
    postgres.restart().unwrap();
    until("keys are given again", || {
        let answer = server.try_take("invoices", 3);
        let is_over = answer.status == 200;
        taken.extend(is_over.then(|| answer.keys()).into_iter().flatten());
        is_over
    });
    assert_eq!(taken.len(), 6);
    assert!(taken[3].parse::<u64>().unwrap() > 6, "{taken:?}");
    let recorded = recorded(&home, &server, "invoices");
    assert!(taken.iter().all(|key| recorded.contains(key)), "{taken:?} {recorded:?}");
}

#[test]
fn what_cannot_be_written_down_is_refused_and_says_why() {
    let home = Home::new();
    let server = home.start();
    let digest = r#"{"name":"pages","scheme":"digest","audit":"key"}"#;
    let refused = server.post("/v1/keyspaces", digest);
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid_field"), "{refused:?}");
    assert!(refused.text().contains("audit"), "{refused:?}");
    server.create(json!({"name": "pages", "scheme": "digest"}));
    let refused = server.patch("/v1/keyspaces/pages", &json!({"audit": "key"}));
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid_field"), "{refused:?}");
    let wrong = server.get("/v1/keyspaces/links/issued?cursor=%00");
    assert_eq!((wrong.status, wrong.code().as_str()), (422, "invalid_field"), "{wrong:?}");
    assert_eq!(server.get("/v1/keyspaces/nothing/issued").status, 404);
    let nothing = server.get("/v1/keyspaces/links/issued").json();
    assert_eq!(nothing, json!({"issued": [], "next_cursor": null}));
}
