//! The engine is away: before the first start, and in the middle of everything.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use keymill_engines::{mariadb::MariaDb, postgres::Postgres};
use rustix::process::Signal;

use crate::{
    harness::{Home, PATIENCE, Server},
    node, take_new,
};

#[test]
fn a_node_starts_without_its_engine_and_serves_once_it_is_there() {
    let mut engine = Postgres::start().unwrap();
    engine.crash().unwrap();
    let (one, two) = (Home::new(), Home::new());
    let (a, b) = (node(&one, &engine.url()).start_unready(), node(&two, &engine.url()).start_unready());
    for server in [&a, &b] {
        let reasons = server.until_unready("ledger_unavailable");
        let detail = reasons["reasons"][0]["detail"].as_str().unwrap();
        assert!(detail.contains("postgres") && detail.contains("refused"), "it says why: {reasons}");
        assert_eq!(server.get("/healthz").status, 200, "the process lives");
        let refused = server.try_take("links", 1);
        assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true), "{refused:?}");
    }
    engine.restart().unwrap();
    let mut seen = HashSet::new();
    for server in [&a, &b] {
        server.until_ready();
        for keyspace in ["links", "tickets", "events"] {
            take_new(server, keyspace, 1_000, &mut seen);
        }
    }
    assert!(!one.file("keymill.db").exists());
}

/// Takes tickets one batch at a time until there is none; returns how many tickets there were.
fn use_up(server: &Server, batch: u32, seen: &mut HashSet<String>) -> usize {
    let deadline = Instant::now() + PATIENCE;
    let before = seen.len();
    loop {
        let answer = server.try_take("tickets", batch);
        if answer.status != 200 {
            assert_eq!(answer.status, 503, "{answer:?}");
            assert!(["ledger_unavailable", "out_of_stock"].contains(&answer.code().as_str()), "{answer:?}");
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
            return seen.len() - before;
        }
        for key in answer.keys() {
            assert!(seen.insert(key.clone()), "ticket {key} came again");
        }
        assert!(Instant::now() < deadline, "the stock has no end");
    }
}

/// Serves its stock while the engine is away, then says "try again", then heals by itself.
fn outlives_an_outage(url: &str, mut crash: impl FnMut(), mut restart: impl FnMut()) {
    let home = Home::new();
    let launch = node(&home, url).environment("KEYMILL_LIMITS__TAKE_TIMEOUT", "200ms");
    let server = launch.start();
    let mut seen: HashSet<String> = server.take("tickets", 100).into_iter().collect();
    server.until_stocked(&["tickets"]);
    crash();
    let stock = use_up(&server, 100, &mut seen) + use_up(&server, 1, &mut seen);
    assert!(stock >= 100, "{stock} keys are no stock");
    assert_eq!(server.get("/healthz").status, 200);
    let unready = server.until_unready("ledger_unavailable");
    let checks = unready["checks"].as_array().unwrap();
    let stock = checks.iter().find(|check| check["check"] == "stock").unwrap();
    assert_eq!(stock["state"], "failed", "{unready}");
    assert!(stock["detail"].as_str().unwrap().contains("`tickets`"), "{unready}");
    assert!(stock["next"].as_str().unwrap().contains("bring the ledger's engine back"), "{unready}");
    server.logged("retrying");
    restart();
    let deadline = Instant::now() + PATIENCE;
    while server.try_take("tickets", 1_000).status != 200 {
        assert!(Instant::now() < deadline, "it does not heal: {}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
    for key in server.take("tickets", 5_000) {
        assert!(seen.insert(key.clone()), "ticket {key} came again");
    }
    server.logged("the ledger answers again");
    server.terminate();
}

#[test]
fn a_node_serves_its_stock_while_postgres_is_away_and_heals() {
    let engine = std::cell::RefCell::new(Postgres::start().unwrap());
    let url = engine.borrow().url();
    outlives_an_outage(
        &url,
        || engine.borrow_mut().crash().unwrap(),
        || engine.borrow_mut().restart().unwrap(),
    );
}

/// Nothing is refused: connections hang, and so does what was sent on them.
#[test]
fn a_node_serves_its_stock_while_postgres_hangs_and_heals() {
    let engine = Postgres::start().unwrap();
    let signal = |signal| engine.signal_all(signal).unwrap();
    outlives_an_outage(&engine.url(), || signal(Signal::STOP), || signal(Signal::CONT));
}

#[test]
fn a_node_serves_its_stock_while_mariadb_is_away_and_heals() {
    let engine = std::cell::RefCell::new(MariaDb::start().unwrap());
    let url = engine.borrow().url();
    outlives_an_outage(
        &url,
        || engine.borrow_mut().crash().unwrap(),
        || engine.borrow_mut().restart().unwrap(),
    );
}

/// The audit is brought forward every ten seconds; this outage is longer.
#[test]
fn keys_that_left_during_an_outage_are_in_the_books_afterwards() {
    let mut engine = Postgres::start().unwrap();
    let homes = [Home::new(), Home::new()];
    let [a, b] = homes.each_ref().map(|home| node(home, &engine.url()).start());
    a.until_stocked(&["tickets"]);
    engine.crash().unwrap();
    let key = a.take("tickets", 1).remove(0);
    thread::sleep(Duration::from_secs(12));
    engine.restart().unwrap();
    let deadline = Instant::now() + 2 * PATIENCE;
    while b.get(&format!("/v1/keyspaces/tickets/keys/{key}")).json()["state"] != "issued" {
        assert!(Instant::now() < deadline, "the other node never hears of it");
        thread::sleep(Duration::from_millis(200));
    }
}
