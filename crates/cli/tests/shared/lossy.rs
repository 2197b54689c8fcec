//! Redis as a ledger: refused unless accepted, and when it forgets its last writes the nodes notice, burn, and
//! skip ahead by themselves.

use std::collections::HashSet;

use keymill_engines::redis::{DURABLE, FORGETFUL, Redis};

use crate::{
    harness::{Home, Launch},
    node, take_new,
};

fn url(redis: &Redis) -> String {
    format!("redis://127.0.0.1:{}/0", redis.port())
}

/// Quick heartbeats, so that the halt is short.
fn accepted(home: &Home, redis: &Redis) -> Launch {
    node(home, &url(redis))
        .environment("KEYMILL_LEDGER__LOSSY", "accepted")
        .environment("KEYMILL_LEDGER__HEARTBEAT", "200ms")
        .environment("KEYMILL_LEDGER__TIMEOUT", "500ms")
}

#[test]
fn redis_needs_an_explicit_yes_and_its_settings_are_told() {
    let redis = Redis::start(DURABLE).unwrap();
    let home = Home::new();
    let refused = node(&home, &url(&redis)).run();
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("ledger.lossy"), "{refused:#?}");
    let server = accepted(&home, &redis).start();
    assert_eq!(server.get("/healthz").json()["ledger"]["grade"], "lossy");
    server.logged("appendfsync");
}

#[test]
fn a_redis_that_lost_its_last_writes_is_noticed_and_skips_ahead() {
    let mut redis = Redis::start(FORGETFUL).unwrap();
    let homes = [Home::new(), Home::new()];
    let servers = homes.each_ref().map(|home| accepted(home, &redis).start());
    let mut seen = HashSet::new();
    for server in &servers {
        take_new(server, "tickets", 100, &mut seen);
    }
    redis.cli(&["save"]).unwrap();
    for _ in 0..5 {
        for server in &servers {
            take_new(server, "tickets", 5_000, &mut seen);
        }
    }
    redis.kill().unwrap();
    redis.restart().unwrap();
    for server in &servers {
        server.logged("the ledger is halted");
    }
    for server in &servers {
        server.until_ready();
        for _ in 0..3 {
            take_new(server, "tickets", 5_000, &mut seen);
        }
    }
}

#[test]
fn a_node_that_remembers_a_ledger_makes_no_other_where_it_was() {
    let redis = Redis::start(DURABLE).unwrap();
    let home = Home::new();
    let server = accepted(&home, &redis).start();
    server.take("tickets", 10);
    server.terminate();
    redis.cli(&["flushall"]).unwrap();
    let refused = accepted(&home, &redis).run();
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("this node remembers one"), "{refused:#?}");
    assert_eq!(redis.cli(&["dbsize"]).unwrap().trim(), "0", "nothing was written");
}
