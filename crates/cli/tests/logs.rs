//! What a server logs over a small life: lines that machines read, each event once, and no secret in any of them.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};

mod harness;
use harness::{Answer, Home, PATIENCE, Server};

const KEYSPACES: &str = "[keyspaces.links]\nscheme = \"pool\"\nroot = true\npage_below = \"1h\"\n\
                         [keyspaces.tickets]\nscheme = \"sequence\"\n[keyspaces.events]\nscheme = \"snowflake\"\n\
                         [keyspaces.tiny]\nscheme = \"pool\"\nalphabet = \"decimal\"\nlength = 2\n\
                         page_below = 50\n";
const TARGET: &str = "https://example.com/a-private-place";

fn ask(server: &Server, token: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    server.connect().send(method, path, &headers, body.as_bytes()).expect("it answers")
}

/// Starts, serves, refuses, is watched, reads its file again and stops. Returns what nobody may read in the log.
fn live(home: &Home, format: &str) -> Vec<String> {
    let config = home.write("keymill.toml", KEYSPACES);
    let data = home.data();
    let scopes = "admin,inspect,take,name";
    let create =
        ["token", "create", "--name", "first", "--scope", scopes, "--data-dir", data.to_str().unwrap()];
    let token = home.run(&create).ok().trim().to_owned();
    let server = home
        .server()
        .arguments(&["--config", config.to_str().unwrap()])
        .environment("KEYMILL_AUTH__MODE", "on")
        .environment("KEYMILL_LOG__FORMAT", format)
        .environment("KEYMILL_WATCH__INTERVAL", "100ms")
        .start();
    let taken = |keyspace: &str, count: u32| {
        let path = format!("/v1/keyspaces/{keyspace}/keys");
        ask(&server, &token, "POST", &path, Some(json!({"count": count}))).keys()
    };
    let mut secrets = vec![token.clone(), TARGET.to_owned(), "a-private-place".to_owned()];
    secrets.extend(taken("links", 20));
    secrets.extend(taken("events", 20));
    let key = secrets[3].clone();

    let bound = ask(
        &server,
        &token,
        "PUT",
        &format!("/v1/keyspaces/links/links/{key}"),
        Some(json!({"url": TARGET})),
    );
    assert_eq!(bound.status, 201, "{bound:?}");
    assert_eq!(ask(&server, &token, "GET", &format!("/{key}"), None).status, 302);
    for alias in ["chosen7", "chosen-longer"] {
        let claimed = ask(&server, &token, "PUT", &format!("/v1/keyspaces/links/keys/{alias}"), None);
        assert_eq!(claimed.status, 201, "{claimed:?}");
        secrets.push(alias.to_owned());
    }
    let referred = ask(
        &server,
        &token,
        "POST",
        "/v1/keyspaces/links/refs",
        Some(json!({"ref": "order-4711", "owner": "someone-we-know"})),
    );
    assert_eq!(referred.status, 201, "{referred:?}");
    secrets.extend(["order-4711".to_owned(), "someone-we-know".to_owned()]);

    // Refused in several ways.
    let wrong = "km_wrongone_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for _ in 0..3 {
        assert_eq!(ask(&server, wrong, "POST", "/v1/keyspaces/links/keys", None).status, 401);
        assert_eq!(ask(&server, &token, "POST", "/v1/keyspaces/nowhere/keys", None).status, 404);
        assert_eq!(ask(&server, &token, "GET", "/nothing-here", None).status, 404);
    }
    secrets.extend([wrong.to_owned(), "nothing-here".to_owned()]);
    while ask(&server, &token, "POST", "/v1/keyspaces/tiny/keys", None).status == 200 {}

    let made =
        ask(&server, &token, "POST", "/v1/tokens", Some(json!({"name": "second", "scopes": ["take"]})));
    assert_eq!(made.status, 201, "{made:?}");
    let second = made.json()["token"].as_str().expect("it is shown once").to_owned();
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(ask(&server, &token, "DELETE", &format!("/v1/tokens/{id}"), None).status, 204);
    secrets.push(second);

    // The level of `tiny` is 0, below its mark.
    server.logged("tiny");
    home.write("keymill.toml", &format!("{KEYSPACES}[log]\nlevel = \"info,keymill_server=info\"\n"));
    server.signal(Signal::HUP);
    server.logged("log.level: ");
    server.terminate();
    secrets
}

#[test]
fn a_life_in_json_is_one_object_a_line_each_event_once_and_no_secret() {
    let home = Home::new();
    let secrets = live(&home, "json");
    let log = std::fs::read_to_string(home.path().join("stderr")).unwrap();
    let mut seen = BTreeSet::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["timestamp", "level", "target", "message"] {
            assert!(event[field].is_string(), "{field}: {line}");
        }
        let timestamp = event["timestamp"].as_str().unwrap();
        assert!(timestamp.ends_with('Z') && timestamp.contains('T'), "{line}");
        assert!(["ERROR", "WARN", "INFO"].contains(&event["level"].as_str().unwrap()), "{line}");
        // A name that came twice would be lost in reading, and the line be longer than what was read.
        assert_eq!(event.to_string().len(), line.len(), "a field is there twice: {line}");
        let message = event["message"].as_str().unwrap().to_owned();
        assert!(seen.insert(message), "it was said before: {line}\n{log}");
    }
    for told in ["serves", "makes IDs", "was made", "was revoked", "below page_below", "stopped: "] {
        assert!(seen.iter().any(|message| message.contains(told)), "no `{told}` in {log}");
    }
    for secret in &secrets {
        assert!(!log.contains(secret.as_str()), "`{secret}` is in {log}");
    }
    assert!(log.contains("\"level_keys\":"), "units are in the names: {log}");
}

#[test]
fn text_is_for_people_and_has_no_colours_in_a_file() {
    let home = Home::new();
    live(&home, "text");
    let log = std::fs::read_to_string(home.path().join("stderr")).unwrap();
    assert!(!log.contains('\u{1b}') && !log.starts_with('{'), "{log}");
    assert!(log.lines().any(|line| line.contains(" INFO ") && line.contains("stopped: ")), "{log}");
}

#[test]
fn a_trouble_that_lasts_is_said_once() {
    let home = Home::new();
    // Three workers are wanted of a layout that has two.
    let config = home.write(
        "keymill.toml",
        "[keyspaces.events]\nscheme = \"snowflake\"\nworkers = 3\nlayout = \"time:41 worker:1 sequence:12\"\n",
    );
    let server = home.server().arguments(&["--config", config.to_str().unwrap()]).start();
    server.logged("retrying");
    let begun = std::time::Instant::now();
    // It tries again every second.
    while server.metric("lease_conflicts_total{keyspace=\"events\"}") < 3.0 {
        assert!(begun.elapsed() < PATIENCE, "{}", server.log());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(server.log().matches("retrying").count(), 1, "{}", server.log());
    server.terminate();
}
