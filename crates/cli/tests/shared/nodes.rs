//! Nodes that share a ledger: what one makes all serve, whose names and workers are whose.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use keymill_engines::postgres::Postgres;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    harness::{Home, PATIENCE, Server},
    node, postgres, take_new,
};

#[test]
fn nodes_serve_each_others_keyspaces_and_inspect_each_others_keys() {
    let url = postgres("each_other");
    let (one, two) = (Home::new(), Home::new());
    let (a, b) = (node(&one, &url).start(), node(&two, &url).start());
    assert!(!one.file("keymill.db").exists(), "the ledger is elsewhere");
    let mut seen = HashSet::new();
    for server in [&a, &b, &a, &b] {
        take_new(server, "links", 2_000, &mut seen);
        take_new(server, "tickets", 2_000, &mut seen);
    }
    a.create(json!({"name": "promo", "scheme": "pool", "alphabet": "base36", "length": 8}));
    let key = b.take("promo", 1).remove(0);
    for server in [&a, &b] {
        let known = server.get(&format!("/v1/keyspaces/promo/keys/{key}")).json();
        assert_eq!(known["node"], two.node(), "{known}");
        assert!(["in_stock", "issued", "uncertain"].contains(&known["state"].as_str().unwrap()), "{known}");
    }
    b.terminate();
    let known = a.get(&format!("/v1/keyspaces/promo/keys/{key}")).json();
    assert_eq!((&known["state"], &known["node"]), (&json!("issued"), &json!(two.node())), "{known}");
    let nodes = a.get("/v1/nodes").json();
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 2, "{nodes}");
}

#[test]
fn what_the_ledger_is_worth_is_shown_and_its_password_is_not() {
    let url = postgres("shown").replace("keymill@", "keymill:s3cret@");
    let home = Home::new();
    let server = node(&home, &url).start();
    let banner = server.said("ledger");
    assert!(
        banner.contains("postgres at postgres://keymill:***@127.0.0.1") && banner.contains("(strict)"),
        "{banner}"
    );
    let health = server.get("/healthz").json();
    assert_eq!(
        (&health["ledger"]["store"], &health["ledger"]["grade"]),
        (&json!("postgres"), &json!("strict"))
    );
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("keymill_ledger_info{store=\"postgres\",grade=\"strict\"} 1"), "{metrics}");
    let through: Value = server.get("/v1/ledger").json();
    let direct: Value =
        serde_json::from_str(&home.run(&["ledger", "show", "--json", "--ledger", &url]).ok()).unwrap();
    assert_eq!((&through["id"], &through["incarnation"]), (&direct["id"], &direct["incarnation"]));
    assert!(direct["incarnation"].as_str().unwrap().contains("timeline 1"), "{direct}");
    let backup = server.post("/v1/ledger/backup", "{}");
    assert!(backup.status == 422 && backup.text().contains("own tool"), "{backup:?}");
    let checked = home.run(&["serve", "--check", "--ledger", &url]).ok();
    assert!(checked.contains("***"), "{checked}");
    for text in [banner, server.log(), through.to_string(), checked] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    let wrong = node(&Home::new(), "postgres://a:s3cret@127.0.0.1:1/x?nonsense=1").run();
    assert!(wrong.code == Some(1) && wrong.stderr.contains("nonsense"), "{wrong:?}");
    assert!(!wrong.stderr.contains("s3cret"), "{wrong:?}");
}

#[test]
fn tables_are_made_by_hand_where_a_start_must_not() {
    let url = postgres("by_hand");
    let home = Home::new();
    let careful = node(&home, &url).environment("KEYMILL_LEDGER__MIGRATE", "false");
    let refused = careful.run();
    assert!(refused.code == Some(1) && refused.stderr.contains("keymill ledger migrate"), "{refused:?}");
    let shown = home.run(&["ledger", "show", "--ledger", &url]);
    assert!(
        shown.code == Some(1) && shown.stderr.contains("keymill ledger migrate"),
        "looking makes nothing: {shown:?}"
    );
    let first = home.run(&["ledger", "migrate", "--ledger", &url]).ok();
    assert!(first.contains("from version 0 to"), "{first}");
    let second = home.run(&["ledger", "migrate", "--ledger", &url]).ok();
    assert!(second.contains("up to date"), "{second}");
    careful.start().take("links", 10);
}

#[test]
fn an_engine_that_may_forget_needs_an_explicit_yes() {
    let engine = Postgres::start_with(&["fsync=off"]).unwrap();
    let home = Home::new();
    let refused = node(&home, &engine.url()).run();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for named in ["fsync is off", "ledger.lossy"] {
        assert!(refused.stderr.contains(named), "`{named}` is not named: {refused:?}");
    }
    let server = node(&home, &engine.url()).environment("KEYMILL_LEDGER__LOSSY", "accepted").start();
    assert_eq!(server.get("/healthz").json()["ledger"]["grade"], "lossy");
}

#[test]
fn a_newer_process_of_the_same_name_ends_the_older() {
    let url = postgres("same_name");
    let (one, two) = (Home::new(), Home::new());
    let mut older = node(&one, &url).arguments(&["--node", "twin"]).start();
    let mut seen = HashSet::new();
    take_new(&older, "tickets", 500, &mut seen);
    let newer = node(&two, &url).arguments(&["--node", "twin"]).start();
    take_new(&newer, "tickets", 5_000, &mut seen);
    let status = older.has_ended(PATIENCE).unwrap_or_else(|| panic!("it goes on: {}", older.log()));
    assert_eq!(status.code(), Some(1));
    assert!(older.log().contains("was started again elsewhere"), "{}", older.log());
    take_new(&newer, "tickets", 5_000, &mut seen);
}

/// Which worker made the ID.
#[track_caller]
fn worker(server: &Server, id: &str) -> u64 {
    let known = server.get(&format!("/v1/keyspaces/events/keys/{id}")).json();
    known["id"]["worker"].as_u64().unwrap_or_else(|| panic!("{known}"))
}

/// Takes IDs until one is made by a worker that is not `old`.
fn until_another_worker(server: &Server, old: u64, seen: &mut HashSet<String>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = server.try_take("events", 50);
        if answer.status == 200 {
            let ids = answer.keys();
            for id in &ids {
                assert!(seen.insert(id.clone()), "{id} came again");
            }
            if worker(server, &ids[0]) != old {
                return;
            }
        }
        assert!(Instant::now() < deadline, "it leased no other worker: {answer:?}\n{}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_node_that_was_stopped_beyond_its_lease_repeats_nothing_and_leases_again() {
    let url = postgres("stopped");
    let (one, two) = (Home::new(), Home::new());
    let tuning = "[keyspaces.events]\nscheme = \"snowflake\"\nlease_ttl = \"1s\"\noutage_budget = \"2s\"\n";
    let sleeper =
        node(&one, &url).arguments(&["--config", one.write("k.toml", tuning).to_str().unwrap()]).start();
    let mut seen = HashSet::new();
    for id in sleeper.take("events", 500) {
        assert!(seen.insert(id));
    }
    let held = worker(&sleeper, seen.iter().next().unwrap());
    sleeper.signal(Signal::STOP);
    // Another insists on that very worker, and gets it once the lease is over.
    let same = format!("{tuning}worker = {held}\n");
    let heir = node(&two, &url)
        .arguments(&["--config", two.write("k.toml", &same).to_str().unwrap()])
        .start_unready();
    let deadline = Instant::now() + PATIENCE;
    let taken = loop {
        let answer = heir.try_take("events", 500);
        if answer.status == 200 {
            break answer.keys();
        }
        assert!(Instant::now() < deadline, "{answer:?}\n{}", heir.log());
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(worker(&heir, &taken[0]), held);
    sleeper.signal(Signal::CONT);
    for id in taken {
        assert!(seen.insert(id.clone()), "{id} came again");
    }
    until_another_worker(&sleeper, held, &mut seen);
    for id in heir.take("events", 2_000).into_iter().chain(sleeper.take("events", 2_000)) {
        assert!(seen.insert(id.clone()), "{id} came again");
    }
}
