//! The configuration is read again while the server runs: at SIGHUP, and when its file changes.

use std::{fs, os::unix::fs::symlink, path::Path};

use rustix::process::Signal;
use serde_json::{Value, json};

mod harness;
use harness::{Home, PATIENCE, Server};

/// Starts a server with this file, which is called `keymill.toml`.
fn start(home: &Home, text: &str) -> Server {
    let path = home.write("keymill.toml", text);
    home.server().arguments(&["--config", path.to_str().unwrap()]).start()
}

/// Writes the file anew as a careful editor does, and says so.
fn change(home: &Home, server: &Server, text: &str) {
    let written = home.write("new.toml", text);
    fs::rename(written, home.path().join("keymill.toml")).unwrap();
    server.signal(Signal::HUP);
}

/// What `/readyz` says of the configuration; the server is ready, whatever that is.
#[track_caller]
fn configuration(server: &Server) -> Value {
    let answer = server.get("/readyz");
    assert_eq!(answer.status, 200, "{answer:?}");
    let checks = answer.json()["checks"].as_array().unwrap().clone();
    checks.into_iter().find(|check| check["check"] == "configuration").unwrap()
}

/// Log lines of the server that say this.
fn lines(server: &Server, said: &str) -> Vec<Value> {
    let log = server.log();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["message"].as_str().unwrap().contains(said)).collect()
}

const LINKS: &str = "[keyspaces.links]\nscheme = \"pool\"\nroot = true\nstock_min = 2000\n";

#[test]
fn what_may_change_is_in_force_after_sighup() {
    let home = Home::new();
    let server = start(&home, LINKS);
    let before = server.take("links", 1).remove(0);
    let tuned = LINKS.replace("2000", "3000") + "page_below = \"20M\"\nrate_limit = 5\n";
    change(
        &home,
        &server,
        &format!(
            "{tuned}[log]\nlevel = \"debug\"\n[trace]\nsample_ratio = 0.5\n[keyspaces.promo]\nscheme = \"sequence\""
        ),
    );
    server.logged("log.level: ");
    for (setting, from, to) in [
        ("log.level", "\"info\"", "\"debug\""),
        ("trace.sample_ratio", "0.01", "0.5"),
        ("keyspaces.links.stock_min", "2000", "3000"),
        ("keyspaces.links.page_below", "unset", "\"20M\""),
        ("keyspaces.promo.scheme", "unset", "\"sequence\""),
    ] {
        let said = lines(&server, &format!("{setting}: "));
        assert_eq!(said.len(), 1, "{setting}: {}", server.log());
        assert_eq!(
            (&said[0]["setting"], &said[0]["from"], &said[0]["to"], &said[0]["level"]),
            (&json!(setting), &json!(from), &json!(to), &json!("INFO"))
        );
    }
    assert_eq!(server.take("promo", 2), ["1", "2"]);
    let tuning = server.show("links")["tuning"].clone();
    assert_eq!((&tuning["stock_min"], &tuning["rate_limit"]), (&json!(3000), &json!(5)), "{tuning}");
    assert_ne!(server.take("links", 1).remove(0), before);
    assert_eq!(server.try_take("links", 100).code(), "rate_limited");
    // A connection that is cut off is worth a line to whoever wants to see everything.
    server.connect().write(b"POST /v1/keyspaces/links/keys HTTP/1.1\r\nContent-Le").unwrap();
    server.logged("a connection ended early");
    assert_eq!(configuration(&server), json!({"check": "configuration", "state": "ok"}));

    // What the file no longer says is the ledger's again.
    change(&home, &server, &tuned.replace("rate_limit = 5\n", ""));
    server.logged("keyspaces.promo.scheme: \\\"sequence\\\" → unset");
    assert_eq!(server.show("links")["tuning"].get("rate_limit"), None);
    assert_eq!(server.take("promo", 1), ["3"], "a keyspace is not undone by a file");
    server.terminate();
}

#[test]
fn a_file_is_looked_at_through_links_that_are_swapped() {
    let home = Home::new();
    for (version, text) in [("one", "level = \"info\""), ("two", "level = \"warn\"")] {
        fs::create_dir(home.path().join(version)).unwrap();
        home.write(&format!("{version}/keymill.toml"), &format!("{LINKS}[log]\n{text}\n"));
    }
    let current = home.path().join("current");
    symlink("one", &current).unwrap();
    let server = home.server().arguments(&["--config", "current/keymill.toml"]).start();
    // As Kubernetes does with a config map: a new link, put in the place of the old one.
    let next = home.path().join("next");
    symlink("two", &next).unwrap();
    fs::rename(&next, Path::new(&current)).unwrap();
    server.logged("log.level: ");
    server.terminate();
}

#[test]
fn a_broken_file_changes_nothing_and_is_reported_once() {
    let home = Home::new();
    let server = start(&home, LINKS);
    let broken = [
        ("[log]\nlevel = \"debug\"\n[limits\ncount_max = 5\n", "line 3"),
        ("[log]\nlevel = \"debug\"\n[limits]\ncount_maxx = 5\n", "limits.count_maxx (file"),
        (
            "[log]\nlevel = \"debug\"\n[limits]\ntake_timeout = \"0s\"\n",
            "limits.take_timeout must be longer than 0",
        ),
    ];
    for (index, (text, complaint)) in broken.iter().enumerate() {
        change(&home, &server, text);
        server.logged(complaint);
        let said = lines(&server, "the configuration is left as it is");
        assert_eq!(said.len(), index + 1, "{}", server.log());
        assert_eq!(said[index]["level"], "ERROR");
        let check = configuration(&server);
        assert_eq!(check["state"], "warning", "{check}");
        assert!(check["next"].as_str().unwrap().contains("see the log"), "{check}");
    }
    // It is looked at every second, and complained of once.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert_eq!(lines(&server, "the configuration is left").len(), broken.len(), "{}", server.log());
    assert_eq!(lines(&server, "log.level").len(), 0, "nothing of it was put into force");
    change(&home, &server, LINKS);
    server.logged("says what is in force");
    assert_eq!(configuration(&server)["state"], "ok");
    server.terminate();
}

#[test]
fn what_needs_a_restart_is_named_and_stays_as_it_is() {
    let home = Home::new();
    let server = start(&home, LINKS);
    let text = format!(
        "{LINKS}[log]\nlevel = \"warn\"\n[limits]\ncount_max = 5\n[ledger]\nurl = \"postgres://app:s3cret@db.example/keys\"\n\
         [[watch.sinks]]\ntype = \"webhook\"\nurl = \"https://hooks.example/s3cret\"\n"
    );
    change(&home, &server, &text);
    let log = server.logged("needs a restart");
    let said = lines(&server, "needs a restart");
    assert_eq!((said.len(), &said[0]["level"]), (1, &json!("WARN")), "{log}");
    let settings = said[0]["settings"].as_str().unwrap();
    for setting in ["limits.count_max: 10000 → 5", "ledger.url: ", "watch.sinks[0].url: "] {
        assert!(settings.contains(setting), "{settings}");
    }
    assert!(!settings.contains("log.level") && !log.contains("s3cret"), "{log}");
    assert_eq!(lines(&server, "log.level: ").len(), 1, "the rest is in force: {log}");
    assert_eq!(server.take("links", 6).len(), 6, "the old limit holds");
    let check = configuration(&server);
    assert_eq!(check["state"], "warning");
    assert!(check["detail"].as_str().unwrap().contains("4 of its settings"), "{check}");
    server.terminate();
}

#[test]
fn a_keyspace_that_the_ledger_knows_otherwise_is_left_as_it_was() {
    let home = Home::new();
    let server = start(&home, LINKS);
    change(&home, &server, &format!("{LINKS}length = 9\n[keyspaces.promo]\nscheme = \"pool\"\nlength = 4\n"));
    server.logged("keyspaces.links is left as it was: keyspace `links` is defined otherwise in the ledger");
    server.logged("keyspaces.promo.length: unset → 4");
    assert_eq!(lines(&server, "keyspaces.links.length").len(), 0);
    assert_eq!((server.take("links", 1)[0].len(), server.take("promo", 1)[0].len()), (7, 4));
    assert_eq!(configuration(&server)["state"], "warning");
    server.terminate();
}

#[test]
fn sighup_without_a_file_is_a_clean_stop() {
    let home = Home::new();
    let mut server = home.start();
    server.take("links", 1);
    server.signal(Signal::HUP);
    assert!(server.has_ended(PATIENCE).is_some_and(|status| status.success()));
    let ended = server.ended();
    assert!(ended.stderr.contains("numbers given back, 0 burned"), "{ended:?}");
}

#[test]
fn what_is_no_file_is_no_configuration() {
    let home = Home::new();
    let server = start(&home, LINKS);
    let path = home.path().join("keymill.toml");
    fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    server.signal(Signal::HUP);
    server.logged("keymill.toml cannot be read: it is no file");
    server.take("links", 1);
    fs::remove_file(&path).unwrap();
    fs::write(&path, format!("{LINKS}\n#{}", "x".repeat(2 << 20))).unwrap();
    server.signal(Signal::HUP);
    server.logged("it has more than 1048576 bytes");
    server.terminate();
}

#[test]
fn what_a_pager_is_sent_is_not_shown() {
    let home = Home::new();
    let server = start(&home, LINKS);
    let sink = "[[watch.sinks]]\ntype = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\ntemplate = '{\"routing_key\": \"R0UT1NG\"}'\n";
    change(&home, &server, &format!("{LINKS}{sink}"));
    server.logged("watch.sinks[0].template: unset");
    assert!(!server.log().contains("R0UT1NG"));
    let checked = home.run(&["serve", "--check", "--config", "keymill.toml"]).ok();
    assert!(checked.contains("watch.sinks[0].template") && !checked.contains("R0UT1NG"), "{checked}");
    server.terminate();
}
