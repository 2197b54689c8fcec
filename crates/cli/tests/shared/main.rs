//! Many real nodes over one real engine: they share a ledger, lose it, find it again, and find out when it
//! has forgotten something.

use std::{collections::HashSet, sync::OnceLock};

use keymill_engines::postgres::Postgres;

#[path = "../harness/mod.rs"]
mod harness;

mod failover;
mod flickr;
mod lossy;
mod nodes;
mod outage;
mod quorum;
mod storm;

use harness::{Home, Launch, Server};

/// A PostgreSQL for tests that do it no harm, with tables of each test's own.
fn postgres(prefix: &str) -> String {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    let server = SERVER.get_or_init(|| Postgres::start().expect("PostgreSQL starts"));
    format!("{}?table_prefix={prefix}", server.url())
}

/// A node on that ledger.
fn node(home: &Home, url: &str) -> Launch {
    home.server().arguments(&["--ledger", url])
}

/// Takes keys, none of which may have been seen before.
#[track_caller]
fn take_new(server: &Server, keyspace: &str, count: u32, seen: &mut HashSet<String>) {
    for key in server.take(keyspace, count) {
        assert!(seen.insert(format!("{keyspace} {key}")), "{keyspace} key {key} came again");
    }
}
