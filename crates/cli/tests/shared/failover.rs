//! PostgreSQL fails over to a standby that lags behind: writes it had acknowledged are gone. Nothing is
//! issued until the ledger was advanced above all that the nodes remember; with the guards taken away, the
//! same failover repeats tickets.

use std::{collections::HashSet, fs};

use keymill_engines::postgres::Postgres;

use crate::{
    harness::{Home, Server},
    node, take_new,
};

/// A node on a primary with a standby that was cut off before the last keys were taken.
struct Lagging {
    home: Home,
    primary: Postgres,
    standby: Postgres,
    seen: HashSet<String>,
}

fn launch(home: &Home, url: &str) -> Server {
    node(home, url).environment("KEYMILL_LEDGER__LOSSY", "accepted").start_unready()
}

/// Returns with the node still running, or killed.
fn lag_behind(kill: bool) -> (Lagging, Option<Server>) {
    let primary = Postgres::start().unwrap();
    let standby = primary.standby().unwrap();
    let home = Home::new();
    let server = launch(&home, &primary.url());
    server.until_ready();
    assert_eq!(server.get("/healthz").json()["ledger"]["grade"], "lossy");
    let mut seen = HashSet::new();
    take_new(&server, "tickets", 100, &mut seen);
    standby.wait_for(&primary).unwrap();
    standby.cut_off().unwrap();
    for _ in 0..5 {
        take_new(&server, "tickets", 5_000, &mut seen);
    }
    let server = if kill {
        server.kill();
        None
    } else {
        Some(server)
    };
    (Lagging { home, primary, standby, seen }, server)
}

impl Lagging {
    /// The standby takes the primary's place.
    fn fail_over(self) -> (Home, Postgres, HashSet<String>) {
        let Self { home, primary, mut standby, seen } = self;
        standby.take_over(primary).unwrap();
        (home, standby, seen)
    }
}

fn advance(home: &Home, url: &str) {
    home.run(&["ledger", "advance", "--yes", "--ledger", url]).ok();
}

#[test]
fn another_timeline_halts_a_running_node_until_the_ledger_is_advanced() {
    let (lagging, server) = lag_behind(false);
    let server = server.unwrap();
    let (home, engine, mut seen) = lagging.fail_over();
    let reasons = server.until_unready("ledger_halted");
    assert!(reasons.to_string().contains("timeline 2"), "{reasons}");
    let refused = server.try_take("tickets", 1);
    assert_eq!((refused.status, refused.code().as_str()), (503, "ledger_halted"), "{refused:?}");
    let shown = home.run(&["ledger", "show", "--ledger", &engine.url()]).ok();
    assert!(shown.contains("halted") && shown.contains("failover"), "{shown}");
    advance(&home, &engine.url());
    server.until_ready();
    take_new(&server, "tickets", 5_000, &mut seen);
    server.terminate();
}

#[test]
fn a_lost_write_halts_even_where_the_engine_says_it_is_the_same() {
    let (lagging, _) = lag_behind(true);
    let (home, engine, mut seen) = lagging.fail_over();
    forget_the_incarnation(&engine);
    let server = launch(&home, &engine.url());
    let reasons = server.until_unready("ledger_halted");
    assert!(reasons.to_string().contains("went back"), "{reasons}");
    advance(&home, &engine.url());
    server.until_ready();
    take_new(&server, "tickets", 5_000, &mut seen);
}

#[test]
fn control_without_witness_and_incarnation_the_same_failover_repeats_tickets() {
    let (lagging, _) = lag_behind(true);
    let (home, engine, mut seen) = lagging.fail_over();
    forget_the_incarnation(&engine);
    fs::remove_file(home.file("witness")).unwrap();
    let server = launch(&home, &engine.url());
    server.until_ready();
    let again =
        server.take("tickets", 5_000).into_iter().filter(|key| !seen.insert(format!("tickets {key}")));
    let again = again.count();
    println!("guards off: {again} tickets came again");
    assert!(again > 0, "the failover lost nothing, and the tests above prove nothing");
}

/// As if the engine had no identity: the ledger believes that it was always here.
fn forget_the_incarnation(engine: &Postgres) {
    engine
        .sql("UPDATE keymill_head SET incarnation = replace(incarnation, 'timeline 1', 'timeline 2')")
        .unwrap();
}
