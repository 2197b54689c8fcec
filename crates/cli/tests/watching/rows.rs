//! A server watches the rows of its own pools: its filler is started anew in process, and if that does not help,
//! somebody is told.

use std::{
    thread,
    time::{Duration, Instant},
};

use keymill_engines::redis::{FORGETFUL, Redis};
use serde_json::{Value, json};

use super::receiver::{A_WHILE, Receiver};
use crate::harness::{Home, PATIENCE, Server};

const CAPACITY: u64 = 5000;

/// A server that watches often and tells `receiver`, and a full pool of rows in `redis`.
fn start(home: &Home, receiver: &Receiver, redis: &Redis, marks: (u64, u64)) -> Server {
    let config = format!(
        "[watch]\ninterval = \"200ms\"\n[[watch.sinks]]\ntype = \"webhook\"\nurl = \"{}\"\n",
        receiver.url()
    );
    let config = home.write("keymill.toml", &config);
    let server = home.server().arguments(&["--config", config.to_str().unwrap()]).start();
    server.create(json!({
        "name": "codes", "scheme": "pool", "store": "redis", "capacity": CAPACITY,
        "redis_url": format!("redis://127.0.0.1:{}", redis.port()),
        "restart_below": marks.0, "page_below": marks.1,
    }));
    until_level(&server, |level| level == Some(CAPACITY));
    server
}

#[track_caller]
fn until_level(server: &Server, is_so: impl Fn(Option<u64>) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let level = server.show("codes").get("level").and_then(|level| level.as_str()?.parse().ok());
        if is_so(level) {
            return;
        }
        assert!(Instant::now() < deadline, "the level is {level:?}: {}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
}

fn kinds(receiver: &Receiver) -> Vec<(String, String)> {
    let field = |told: &Value, name: &str| told[name].as_str().unwrap_or_default().to_owned();
    let told = receiver.heard().iter().map(|heard| heard.json()).collect::<Vec<_>>();
    told.iter().map(|told| (field(told, "kind"), field(told, "status"))).collect()
}

#[test]
fn a_filler_that_cannot_write_is_started_anew_in_process_and_then_paged_and_resolved() {
    let (home, receiver) = (Home::new(), Receiver::start());
    let redis = Redis::start(FORGETFUL).unwrap();
    let server = start(&home, &receiver, &redis, (4000, 10));
    thread::sleep(A_WHILE);
    assert_eq!(receiver.heard().len(), 0, "a full pool is no news: {}", server.log());

    redis.cli(&["config", "set", "maxmemory", "1"]).unwrap();
    server.take("codes", 2000);
    let page = receiver.until(1)[0].json();
    assert_eq!(
        (page["keyspace"].as_str(), page["kind"].as_str()),
        (Some("codes"), Some("filler_stuck")),
        "{page}"
    );
    assert_eq!(server.log().matches("restarting its filler").count(), 3, "{}", server.log());

    redis.cli(&["config", "set", "maxmemory", "0"]).unwrap();
    receiver.until(2);
    until_level(&server, |level| level == Some(CAPACITY));
    thread::sleep(A_WHILE);
    let told = [("filler_stuck", "firing"), ("filler_stuck", "resolved")];
    assert_eq!(kinds(&receiver), told.map(|(kind, status)| (kind.to_owned(), status.to_owned())));
    // Filled by a filler that was started anew three times, and by no two at once for long.
    assert_eq!(redis.cli(&["llen", "codes"]).unwrap().trim(), CAPACITY.to_string());
}

#[test]
fn rows_that_cannot_be_counted_are_not_measured_however_many_there_were() {
    let (home, receiver) = (Home::new(), Receiver::start());
    let mut redis = Redis::start(FORGETFUL).unwrap();
    let server = start(&home, &receiver, &redis, (4000, 1000));
    redis.kill().unwrap();
    let page = receiver.until(1)[0].json();
    assert_eq!((page["keyspace"].as_str(), page["kind"].as_str()), (Some("codes"), Some("blind")), "{page}");
    until_level(&server, |level| level.is_none());
    assert!(!server.get("/metrics").text().contains("keymill_level_keys{keyspace=\"codes\"}"));
    let once = home.run(&["watch", "--once", "--json", "--target", &server.url()]);
    assert_eq!(once.code, Some(1), "{once:?}");
    let report: Value = serde_json::from_str(&once.stdout).unwrap();
    assert_eq!(report["findings"][0]["kind"], "blind", "{report}");

    redis.restart().unwrap();
    receiver.until(2);
    until_level(&server, |level| level == Some(CAPACITY));
    thread::sleep(A_WHILE);
    assert_eq!(kinds(&receiver).len(), 2, "{:?}", receiver.heard());
}
