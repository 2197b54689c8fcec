//! The watcher, in the server and as a process of its own, on real engines: what is noticed, whom it tells and how
//! often, and that silence is an alarm.

use std::{thread, time::Duration};

use keymill_engines::{postgres::Postgres, redis::Redis};
use serde_json::{Value, json};

mod harness;
mod watching {
    pub(crate) mod process;
    pub(crate) mod receiver;
    pub(crate) mod redis_pool;
    mod rows;
}
use harness::{Home, PATIENCE, Server, sized};
use watching::{
    process::Watching,
    receiver::{A_WHILE, Receiver},
    redis_pool::{CAPACITY, Pool},
};

/// A server whose watcher looks often, with a pool of 3844 keys that is low below 1000.
fn start_server(home: &Home, settings: &str) -> Server {
    let config = home.write("keymill.toml", &format!("[watch]\ninterval = \"200ms\"\n{settings}"));
    let server = home.server().arguments(&["--config", config.to_str().unwrap()]).start();
    server.create(json!({"name": "codes", "scheme": "pool", "length": 2, "page_below": 1000}));
    server
}

fn webhook(url: &str) -> String {
    format!("[[watch.sinks]]\ntype = \"webhook\"\nurl = \"{url}/page\"\n")
}

fn tune(server: &Server, keyspace: &str, tuning: Value) {
    let answer = server.ask("PATCH", &format!("/v1/keyspaces/{keyspace}"), Some(&tuning.to_string()));
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn incidents(server: &Server) -> Vec<Value> {
    server.get("/v1/incidents").json()["incidents"].as_array().unwrap().clone()
}

/// Waits until the newest incident is as `is_so` says.
#[track_caller]
fn until_incident(server: &Server, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let incidents = incidents(server);
        if let Some(incident) = incidents.first().filter(|incident| is_so(incident)) {
            return incident.clone();
        }
        assert!(std::time::Instant::now() < deadline, "{incidents:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until `/healthz` says that of the ledger, as it does with the next heartbeat.
#[track_caller]
fn until_health(server: &Server, state: &str) -> Value {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let ledger = server.get("/healthz").json()["ledger"].clone();
        if ledger["state"] == state {
            return ledger;
        }
        assert!(std::time::Instant::now() < deadline, "{ledger}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn pair(keyspace: &str, status: &str) -> (String, String) {
    (keyspace.to_owned(), status.to_owned())
}

#[test]
fn a_low_keyspace_is_paged_exactly_once_and_resolved_after_healing() {
    let (home, receiver) = (Home::new(), Receiver::start());
    let server = start_server(&home, &webhook(&receiver.url()));
    thread::sleep(A_WHILE);
    assert_eq!(incidents(&server), Vec::<Value>::new(), "a quiet server has none");

    server.take("codes", 3000);
    let page = receiver.until(1)[0].json();
    assert_eq!((page["keyspace"].as_str(), page["severity"].as_str()), (Some("codes"), Some("critical")));
    assert!(page["level"].as_u64().unwrap() < 1000, "{page}");
    assert!(page["summary"].as_str().unwrap().contains("below page_below (1K)"), "{page}");
    let incident = until_incident(&server, |incident| incident["notified"] == true);
    assert_eq!(
        (incident["state"].as_str(), incident["kind"].as_str()),
        (Some("open"), Some("below_page_mark"))
    );
    assert!(server.get("/metrics").text().contains("keymill_incidents_open 1"));
    thread::sleep(A_WHILE);
    assert_eq!(receiver.told(), [pair("codes", "firing")], "one incident is one page");

    // What is left is enough after all.
    tune(&server, "codes", json!({"page_below": 100}));
    let told = receiver.until(2);
    assert_eq!(receiver.told(), [pair("codes", "firing"), pair("codes", "resolved")]);
    assert_eq!(told[0].json()["dedup_key"], told[1].json()["dedup_key"]);
    assert!(told[1].json()["summary"].as_str().unwrap().contains("well again"), "{told:?}");
    let incident = until_incident(&server, |incident| incident["state"] == "resolved");
    assert!(incident["resolved_at"].is_string() && incident["notified_at"].is_string(), "{incident}");
    thread::sleep(A_WHILE);
    assert_eq!(receiver.heard().len(), 2, "resolved once");
}

#[test]
fn a_sink_that_is_down_is_told_when_it_is_back() {
    let (home, address) = (Home::new(), Receiver::nobody());
    let server = start_server(&home, &webhook(&format!("http://{address}")));
    server.take("codes", 3000);
    let incident = until_incident(&server, |incident| incident["state"] == "open");
    assert_eq!(incident["notified"], false);
    server.logged("was not told");
    // There, but not fit to take anything.
    let receiver = Receiver::at(address);
    receiver.answers(503);
    thread::sleep(A_WHILE);
    assert_eq!(receiver.heard().len(), 0);
    receiver.answers(200);
    receiver.until(1);
    until_incident(&server, |incident| incident["notified"] == true);
    thread::sleep(A_WHILE);
    assert_eq!(receiver.told(), [pair("codes", "firing")]);
}

#[test]
fn alertmanager_hears_the_same_alert_until_it_ends() {
    let (home, receiver) = (Home::new(), Receiver::start());
    let sink = format!("[[watch.sinks]]\ntype = \"alertmanager\"\nurl = \"{}\"\n", receiver.url());
    let server = start_server(&home, &sink);
    server.take("codes", 3000);
    let heard = &receiver.until(1)[0];
    assert_eq!((heard.method.as_str(), heard.path.as_str()), ("POST", "/api/v2/alerts"));
    let firing = heard.json()[0].clone();
    assert_eq!(firing["labels"]["alertname"], "KeymillKeyspace");
    assert_eq!(firing["labels"]["keyspace"], "codes");
    assert!(firing["endsAt"].is_null() && firing["startsAt"].is_string(), "{firing}");
    tune(&server, "codes", json!({"page_below": null}));
    let resolved = receiver.until(2)[1].json()[0].clone();
    assert_eq!(resolved["labels"], firing["labels"], "it is known by its labels");
    assert_eq!(resolved["startsAt"], firing["startsAt"]);
    assert!(resolved["endsAt"].is_string(), "{resolved}");
}

#[test]
fn a_heartbeat_leaves_only_while_all_is_well_and_measured_and_its_silence_is_noticed() {
    let (home, receiver) = (Home::new(), Receiver::start());
    let server = start_server(&home, &format!("heartbeat_url = \"{}/beat\"\n", receiver.url()));
    assert_eq!(receiver.until(3)[0].path, "/beat");

    server.take("codes", 3000);
    receiver.until_silent();
    tune(&server, "codes", json!({"page_below": 100}));
    receiver.until_next();

    server.kill();
    receiver.until_silent();
}

#[test]
fn a_watcher_that_is_killed_falls_silent() {
    let (home, receiver, pool) = (Home::new(), Receiver::start(), Pool::start());
    let arguments = ["--target", &pool.target(), "--page-below", "1000", "--heartbeat-url", &receiver.url()];
    let watching = Watching::start(&home, &arguments);
    receiver.until(3);
    watching.kill();
    receiver.until_silent();
}

#[test]
fn a_ledger_that_is_gone_is_one_page_and_nothing_claims_more_than_was_measured() {
    let (home, receiver, beats) = (Home::new(), Receiver::start(), Receiver::start());
    let mut redis = Redis::start(keymill_engines::redis::DURABLE).unwrap();
    let ledger = format!("[ledger]\nurl = \"redis://127.0.0.1:{}/0\"\nlossy = \"accepted\"\n", redis.port());
    let heartbeat = format!("heartbeat_url = \"{}\"\n", beats.url());
    let server = start_server(&home, &format!("{heartbeat}{}{ledger}", webhook(&receiver.url())));
    server.create(json!({"name": "words", "scheme": "pool", "length": 2, "page_below": 1000}));
    beats.until(1);
    assert_eq!(server.get("/healthz").json()["ledger"]["state"], "ok");
    redis.kill().unwrap();
    let page = receiver.until(1)[0].json();
    assert_eq!((page["keyspace"].as_str(), page["kind"].as_str()), (Some("ledger"), Some("blind")), "{page}");
    until_health(&server, "unreachable");
    assert!(
        !server.get("/metrics").text().contains("keymill_level_keys{"),
        "a level that is not known is not told"
    );
    beats.until_silent();
    assert_eq!(receiver.heard().len(), 1, "not one for each keyspace");
    let last = server.get("/healthz").json()["ledger"]["answered_at"].as_str().unwrap().to_owned();
    redis.restart().unwrap();
    receiver.until(2);
    assert_eq!(receiver.told()[1], pair("ledger", "resolved"));
    let answered_at = until_health(&server, "ok")["answered_at"].as_str().unwrap().to_owned();
    assert!(answered_at > last, "{answered_at} is not after {last}");
    beats.until_next();
}

#[test]
fn a_ledger_that_was_never_reached_is_not_said_to_be_well() {
    let home = Home::new();
    let nobody = Receiver::nobody();
    let url = format!("postgres://keymill@{nobody}/keymill");
    let server = home.server().arguments(&["--ledger", &url]).start_unready();
    let health = server.get("/healthz").json();
    assert_eq!(health["ledger"]["state"], "unreachable");
    assert!(health["ledger"].get("answered_at").is_none(), "{health}");
}

#[test]
fn a_quiet_pool_and_a_legitimate_burst_raise_nothing() {
    let (home, receiver, beats, pool) = (Home::new(), Receiver::start(), Receiver::start(), Pool::start());
    let sink = format!("webhook={}", receiver.url());
    let restarted = home.path().join("restarted");
    let command = format!("touch {}", restarted.display());
    let arguments = [
        "--target",
        &pool.target(),
        "--restart-below",
        "3000",
        "--page-below",
        "1000",
        "--restart-command",
        &command,
        "--sink",
        &sink,
        "--heartbeat-url",
        &beats.url(),
    ];
    let watching = Watching::start(&home, &arguments);
    pool.takes(20);
    beats.until(5);
    // Most of it at once; the filler is at work and catches up.
    pool.burst(CAPACITY * 4 / 5);
    beats.until_next();
    let after_burst = beats.heard().len();
    beats.until(after_burst + 5);
    assert_eq!(receiver.heard().len(), 0, "{:?}", receiver.heard());
    assert!(!restarted.exists(), "{}", watching.log());
    assert_eq!(watching.terminate(), Some(0));
}

#[test]
fn a_filler_that_dies_again_and_again_is_restarted_each_time_and_nobody_is_paged() {
    let (home, receiver, beats, pool) = (Home::new(), Receiver::start(), Receiver::start(), Pool::start());
    let sink = format!("webhook={}", receiver.url());
    let restarted = home.path().join("restarted");
    // What a filler does when it comes back: it fills.
    let script = "for i = 1, 9000 do redis.call('RPUSH', 'links', 'refilled' .. i) end";
    let fill = format!("redis-cli -p {} eval \"{script}\" 0 > /dev/null", pool.redis.port());
    let command = format!("echo \"$KEYMILL_KEYSPACE\" >> {}; {fill}", restarted.display());
    let arguments = [
        "--target",
        &pool.target(),
        "--restart-below",
        "5000",
        "--page-below",
        "200",
        "--restart-command",
        &command,
        "--sink",
        &sink,
        "--heartbeat-url",
        &beats.url(),
    ];
    let watching = Watching::start(&home, &arguments);
    pool.fills(0);
    let kills = sized(4, 20);
    for kill in 1..=kills {
        pool.takes(40);
        let deadline = std::time::Instant::now() + PATIENCE;
        while std::fs::read_to_string(&restarted).unwrap_or_default().lines().count() < kill {
            assert!(std::time::Instant::now() < deadline, "kill {kill}: {}", watching.log());
            thread::sleep(Duration::from_millis(10));
        }
        pool.takes(0);
        // A heartbeat leaves once all is well again.
        beats.until_next();
        beats.until_next();
    }
    let done = std::fs::read_to_string(&restarted).unwrap();
    assert_eq!(done, "links\n".repeat(kills), "once each: {}", watching.log());
    assert_eq!(receiver.heard().len(), 0);
}

#[test]
fn a_filler_that_runs_but_cannot_write_is_caught_by_the_level() {
    let (home, receiver, pool) = (Home::new(), Receiver::start(), Pool::start());
    let sink = format!("webhook={}", receiver.url());
    let tried = home.path().join("tried");
    let command = format!("echo again >> {}", tried.display());
    let arguments = [
        "--target",
        &pool.target(),
        "--restart-below",
        "8000",
        "--page-below",
        "10",
        "--restart-command",
        &command,
        "--sink",
        &sink,
    ];
    let watching = Watching::start(&home, &arguments);
    watching.logged("watching");
    // Redis takes out, and takes nothing in any more; the filler goes on trying.
    pool.redis.cli(&["config", "set", "maxmemory", "1"]).unwrap();
    pool.takes(10);
    let page = receiver.until(1)[0].json();
    assert_eq!(page["kind"], "filler_stuck", "{page}");
    assert!(page["level"].as_u64().unwrap() > 10, "long before the page mark: {page}");
    assert!(pool.failed() > 0, "the filler did try");
    assert_eq!(std::fs::read_to_string(&tried).unwrap().lines().count(), 3, "{}", watching.log());
    pool.redis.cli(&["config", "set", "maxmemory", "0"]).unwrap();
    receiver.until(2);
    thread::sleep(A_WHILE);
    assert_eq!(receiver.told(), [pair("links", "firing"), pair("links", "resolved")]);
    assert!(pool.level() > CAPACITY / 2);
}

#[test]
fn a_redis_that_is_gone_is_not_measured_and_that_is_a_finding() {
    let (home, receiver, mut pool) = (Home::new(), Receiver::start(), Pool::start());
    let sink = format!("webhook={}", receiver.url());
    let target = pool.target();
    let arguments = ["--target", &target, "--page-below", "1000", "--sink", &sink];
    let watching = Watching::start(&home, &arguments);
    watching.logged("watching");
    pool.redis.kill().unwrap();
    let page = receiver.until(1)[0].json();
    assert_eq!((page["kind"].as_str(), page["level"].clone()), (Some("blind"), Value::Null), "{page}");
    let once = home.run(&["watch", "--once", "--json", "--target", &target, "--page-below", "1000"]);
    assert_eq!(once.code, Some(1), "{once:?}");
    let report: Value = serde_json::from_str(&once.stdout).unwrap();
    assert!(
        report["samples"][0]["level"].is_null() && report["samples"][0]["unmeasured"].is_string(),
        "{report}"
    );
    assert_eq!(report["findings"][0]["kind"], "blind");
    // It comes back empty, and the filler fills it.
    pool.redis.restart().unwrap();
    receiver.until(2);
    thread::sleep(A_WHILE);
    assert_eq!(receiver.told(), [pair("links", "firing"), pair("links", "resolved")]);
}

#[test]
fn a_redis_that_hangs_is_not_measured_either() {
    let (home, receiver, pool) = (Home::new(), Receiver::start(), Pool::start());
    let sink = format!("webhook={}", receiver.url());
    let watching =
        Watching::start(&home, &["--target", &pool.target(), "--page-below", "1000", "--sink", &sink]);
    watching.logged("watching");
    pool.redis.pause().unwrap();
    assert_eq!(receiver.until(1)[0].json()["kind"], "blind");
    pool.redis.resume().unwrap();
    receiver.until(2);
    assert_eq!(receiver.told(), [pair("links", "firing"), pair("links", "resolved")]);
}

#[test]
fn a_server_is_watched_from_outside_with_its_own_marks() {
    let (home, receiver) = (Home::new(), Receiver::start());
    let server = home.start();
    let url = server.url();
    server.create(json!({"name": "codes", "scheme": "pool", "length": 2, "page_below": 1000}));
    let once = home.run(&["watch", "--once", "--json", "--target", &url]).ok();
    let report: Value = serde_json::from_str(&once).unwrap();
    let sample = &report["samples"][0];
    assert_eq!(
        (sample["keyspace"].as_str(), sample["level"].as_str()),
        (Some("codes"), Some("3844")),
        "{report}"
    );
    assert_eq!(report["samples"].as_array().unwrap().len(), 1, "only those with marks");

    let sink = format!("webhook={}", receiver.url());
    let template = home.write(
        "page.json",
        r#"{"keyspace": "{{keyspace}}", "status": "{{status}}", "act": "{{event_action}}"}"#,
    );
    let watching = Watching::start(
        &home,
        &["--target", &url, "--sink", &sink, "--template", template.to_str().unwrap()],
    );
    watching.logged("watching");
    server.take("codes", 3000);
    assert_eq!(
        receiver.until(1)[0].json(),
        json!({"keyspace": "codes", "status": "firing", "act": "trigger"})
    );
    let once = home.run(&["watch", "--once", "--target", &url]);
    assert_eq!(once.code, Some(1), "{once:?}");
    assert!(
        once.stdout.contains("critical: `codes` has") && once.stdout.contains("below page_below"),
        "{once:?}"
    );
    server.kill();
    assert_eq!(
        receiver.until(2)[1].json()["keyspace"],
        "server",
        "a server that is gone is a page of its own"
    );
}

#[test]
fn a_server_that_wants_a_token_is_shown_one() {
    let home = Home::new();
    let data = home.data();
    let token = home.run(&[
        "token",
        "create",
        "--name",
        "watch",
        "--scope",
        "inspect,admin",
        "--data-dir",
        data.to_str().unwrap(),
    ]);
    let file = home.write("token", token.ok().trim());
    let server = home.server().environment("KEYMILL_AUTH__MODE", "on").start();
    let url = server.url();
    let arguments = ["watch", "--once", "--target", &url, "--keyspace", "links", "--page-below", "1000"];
    let refused = home.run(&arguments);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stdout.contains("401"), "{refused:?}");
    let mut shown = arguments.to_vec();
    shown.extend(["--token-file", file.to_str().unwrap()]);
    assert!(home.run(&shown).ok().contains("links"));
}

#[test]
fn a_table_is_a_pool_too() {
    let home = Home::new();
    let postgres = Postgres::start().unwrap();
    postgres.sql("CREATE TABLE available_keys (key text); INSERT INTO available_keys SELECT generate_series(1, 500)").unwrap();
    let target = format!("{}?table=available_keys", postgres.url());
    let look =
        |mark: &str| home.run(&["watch", "--once", "--json", "--target", &target, "--page-below", mark]);
    let report: Value = serde_json::from_str(&look("100").ok()).unwrap();
    assert_eq!(report["samples"][0]["level"], "500");
    let low = look("1000");
    assert_eq!(low.code, Some(1), "{low:?}");
    assert!(low.stdout.contains("below_page_mark"), "{low:?}");
}

#[test]
fn a_mark_in_time_is_judged_by_what_left_between_two_looks() {
    let (home, pool) = (Home::new(), Pool::start());
    pool.fills(0);
    pool.takes(20);
    let target = pool.target();
    let arguments =
        ["watch", "--once", "--json", "--target", &target, "--page-below", "2h", "--interval", "500ms"];
    let once = home.run(&arguments);
    assert_eq!(once.code, Some(1), "{once:?}");
    let report: Value = serde_json::from_str(&once.stdout).unwrap();
    assert!(report["samples"][0]["rate"].as_f64().unwrap() > 0.0, "{report}");
    let summary = report["findings"][0]["summary"].as_str().unwrap();
    assert!(summary.contains("the pool is exhausted at 2"), "{summary}");
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_watched() {
    let home = Home::new();
    let bad = home.write("bad.json", "{\"text\": {{summary}}}");
    let redis = "redis://127.0.0.1:1/0?key=links";
    for (code, arguments, complaint) in [
        (2, vec!["--target", redis, "--restart-below", "5"], "--restart-command"),
        (2, vec!["--sink", "pager=http://x"], "neither alertmanager nor webhook"),
        (2, vec!["--page-below", "20x"], "number of keys"),
        (1, vec!["--target", redis], "--page-below"),
        (1, vec!["--target", "redis://127.0.0.1:1/0", "--page-below", "5"], "?key=NAME"),
        (1, vec!["--target", "postgres://127.0.0.1:1/x", "--page-below", "5"], "?table=NAME"),
        (1, vec!["--target", "ftp://x", "--page-below", "5"], "none of http"),
        (1, vec!["--target", redis, "--page-below", "5", "--keyspace", "x"], "--keyspace"),
        (1, vec!["--target", redis, "--page-below", "5", "--restart-command", "x"], "--restart-below"),
        (
            1,
            vec!["--target", redis, "--page-below", "50", "--restart-below", "5", "--restart-command", "x"],
            "above the restart mark",
        ),
        (1, vec!["--page-below", "5", "--interval", "1ms"], "watch.interval"),
        (1, vec!["--page-below", "5", "--sink", "webhook=nowhere"], "url is not http"),
        (
            1,
            vec!["--page-below", "5", "--sink", "webhook=http://x", "--template", bad.to_str().unwrap()],
            "not JSON once it is filled in",
        ),
    ] {
        let mut all = vec!["watch"];
        all.extend(&arguments);
        let refused = home.run(&all);
        assert_eq!(refused.code, Some(code), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(complaint), "{arguments:?}: {refused:?}");
    }
}

#[test]
fn addresses_that_call_people_are_not_shown() {
    let home = Home::new();
    let config = "[watch]\nheartbeat_url = \"https://hc.example/s3cret\"\n[[watch.sinks]]\ntype = \"webhook\"\nurl = \"https://hooks.example/s3cret\"\n";
    let config = home.write("keymill.toml", config);
    let shown = home.server().arguments(&["--config", config.to_str().unwrap(), "--check"]).run().ok();
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("https://hooks.example/***") && shown.contains("watch.sinks[0].url"), "{shown}");
}

#[test]
fn where_a_level_stood_is_remembered_for_charts() {
    let home = Home::new();
    let server = start_server(&home, "");
    let history = |keyspace: &str| server.get(&format!("/v1/keyspaces/{keyspace}/history"));
    let deadline = std::time::Instant::now() + PATIENCE;
    let levels = || -> Vec<u64> {
        let points = history("codes").json()["points"].as_array().unwrap().clone();
        points.iter().map(|point| point["level"].as_str().unwrap().parse().unwrap()).collect()
    };
    let until = |is_so: &dyn Fn(&[u64]) -> bool| {
        while !is_so(&levels()) {
            assert!(std::time::Instant::now() < deadline, "{:?}", levels());
            thread::sleep(Duration::from_millis(20));
        }
    };
    until(&|levels| !levels.is_empty());
    server.take("codes", 1000);
    until(&|levels| levels.last().zip(levels.first()).is_some_and(|(last, first)| last + 1000 <= *first));
    assert_eq!(history("codes").json()["interval_seconds"], 0.2);
    assert_eq!(history("none").status, 404);
}
