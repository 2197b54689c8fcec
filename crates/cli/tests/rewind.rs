//! A ledger that went back in time: an older copy was put in its place.
//!
//! Proven here on the real binary: the server sees it, issues nothing, says why everywhere one would
//! look; `ledger advance` shows what it would do, does it, and from then on no key comes again. A
//! stamped backup goes the same way, in its old data dir and in a new one.

use std::{collections::HashSet, fs};

use serde_json::{Value, json};

mod harness;
use harness::{Home, PATIENCE, Server};

/// Takes links and tickets, none of which may have been seen before.
#[track_caller]
fn take_new(server: &Server, count: u32, seen: &mut HashSet<String>) {
    for keyspace in ["links", "tickets"] {
        for key in server.take(keyspace, count) {
            assert!(seen.insert(format!("{keyspace} {key}")), "{keyspace} key {key} came again");
        }
    }
}

/// The cursors as `ledger show` prints them.
#[track_caller]
fn cursors(home: &Home) -> Value {
    let shown: Value = serde_json::from_str(&home.ledger(&["show", "--json"]).ok()).unwrap();
    shown["tracks"].clone()
}

#[track_caller]
fn assert_halted(server: &Server) {
    let ready = server.until_unready("ledger_halted");
    assert_eq!(ready["ready"], false);
    for keyspace in ["links", "tickets"] {
        let refused = server.try_take(keyspace, 1);
        assert_eq!((refused.status, refused.code().as_str()), (503, "ledger_halted"), "{refused:?}");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        assert!(refused.text().contains("keymill ledger advance"), "it says the next step: {refused:?}");
    }
    let create = server.post("/v1/keyspaces", r#"{"name":"new","scheme":"pool"}"#);
    assert_eq!((create.status, create.code().as_str()), (503, "ledger_halted"), "{create:?}");
    let health = server.get("/healthz");
    assert_eq!(health.status, 200, "the process lives");
    assert_eq!(health.json()["ledger"]["state"], "halted");
}

#[test]
fn an_older_copy_halts_the_ledger_until_it_is_advanced() {
    let home = Home::new();
    let mut seen = HashSet::new();
    let server = home.start();
    take_new(&server, 100, &mut seen);
    server.terminate();
    let copied = home.copy_database();
    assert!(copied.wal.is_none(), "a clean stop leaves one file");
    let server = home.start();
    take_new(&server, 5000, &mut seen);
    server.kill();
    home.restore_database(&copied);

    let server = home.server().start_unready();
    assert_halted(&server);
    let shown = home.ledger(&["show"]).ok();
    assert!(shown.contains("halted") && shown.contains("went back"), "{shown}");
    let shown: Value = serde_json::from_str(&home.ledger(&["show", "--json"]).ok()).unwrap();
    assert_eq!(shown["state"], "halted");
    assert!(shown["reason"].as_str().unwrap().contains(&home.node()), "it names the witness: {shown}");

    let before = cursors(&home);
    let planned = home.ledger(&["advance", "--dry-run"]).ok();
    assert!(
        planned.contains("links: would go from") && planned.contains("tickets: would go from"),
        "{planned}"
    );
    assert_eq!(cursors(&home), before, "a dry run changes nothing");
    assert_halted(&server);
    let asked = home.ledger(&["advance"]);
    assert_eq!(asked.code, Some(1), "nobody said yes: {asked:#?}");
    assert_eq!(cursors(&home), before);

    home.ledger(&["advance", "--yes"]).ok();
    server.until_ready();
    assert_eq!(server.get("/healthz").json()["ledger"]["state"], "ok");
    take_new(&server, 5000, &mut seen);
    server.kill();
    let server = home.start();
    take_new(&server, 5000, &mut seen);
    let nothing = home.ledger(&["advance", "--yes"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.stderr.contains("not halted"), "{}", nothing.stderr);
    server.terminate();
}

#[test]
fn the_halt_outlives_restarts_and_can_be_ended_without_a_server() {
    let home = Home::new();
    let mut seen = HashSet::new();
    home.start().kill();
    let copied = home.copy_database();
    assert!(copied.wal.is_some(), "a kill leaves the log beside the file");
    let server = home.start();
    take_new(&server, 3000, &mut seen);
    server.kill();
    home.restore_database(&copied);

    for _ in 0..2 {
        let server = home.server().start_unready();
        assert_halted(&server);
        server.kill();
    }
    let server = home.server().start_unready();
    assert_halted(&server);
    server.terminate();

    let shown = home.ledger(&["show"]).ok();
    assert!(shown.contains("halted"), "the file says so too: {shown}");
    let planned: Value =
        serde_json::from_str(&home.ledger(&["advance", "--dry-run", "--json"]).ok()).unwrap();
    let links = planned["advanced"].as_array().unwrap().iter().find(|track| track["track"] == "links");
    let to: u64 = links.expect("it has to move")["to"].as_str().unwrap().parse().unwrap();
    assert!(to >= 3000, "above all that was issued: {planned}");
    home.ledger(&["advance", "--yes"]).ok();
    let server = home.start();
    take_new(&server, 5000, &mut seen);
}

#[test]
fn a_rewind_while_no_server_ran_is_not_missed_by_an_advance_on_the_file() {
    let home = Home::new();
    let mut seen = HashSet::new();
    home.start().terminate();
    let copied = home.copy_database();
    let server = home.start();
    take_new(&server, 3000, &mut seen);
    server.terminate();
    home.restore_database(&copied);
    // Nobody has looked yet, so the copy does not know that it is one.
    let refused = home.ledger(&["advance", "--yes"]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert_halted(&home.server().start_unready());
    home.ledger(&["advance", "--yes"]).ok();
    take_new(&home.start(), 5000, &mut seen);
}

#[test]
fn a_keyspace_that_was_lost_with_the_copy_is_never_made_again_under_its_name() {
    let home = Home::new();
    home.start().terminate();
    let copied = home.copy_database();
    let server = home.start();
    server.create(json!({"name": "promo", "scheme": "pool"}));
    server.take("promo", 100);
    server.kill();
    home.restore_database(&copied);
    let server = home.server().start_unready();
    assert_halted(&server);
    home.ledger(&["advance", "--yes"]).ok();
    server.until_ready();
    assert_eq!(server.try_take("promo", 1).code(), "keyspace_not_found");
    // Its shuffle is lost: another one would spell the same keys in another order.
    let again = server.post("/v1/keyspaces", r#"{"name":"promo","scheme":"pool"}"#);
    assert_eq!((again.status, again.code().as_str()), (409, "definition_conflict"), "{again:?}");
    assert!(again.text().contains("lost"), "{again:?}");
}

#[test]
fn a_database_without_its_log_never_issues_what_the_log_held() {
    for (stopped_before, expected) in [(true, "went back"), (false, "witness belongs to ledger")] {
        let home = Home::new();
        let mut seen = HashSet::new();
        if stopped_before {
            home.start().terminate();
        }
        let server = home.start();
        take_new(&server, 3000, &mut seen);
        server.kill();
        fs::remove_file(home.file("keymill.db-wal")).unwrap();
        match home.server().spawn().listening() {
            Ok(server) if stopped_before => {
                assert_halted(&server);
                server.logged(expected);
            }
            Ok(mut server) => {
                assert!(server.has_ended(PATIENCE).is_some(), "{}", server.log());
                assert!(server.ended().stderr.contains(expected));
            }
            Err(ended) => assert!(ended.stderr.contains(expected), "{ended:#?}"),
        }
    }
}

#[test]
fn a_backup_of_a_running_server_serves_again_in_its_data_dir_once_advanced() {
    let home = Home::new();
    let mut seen = HashSet::new();
    let server = home.start();
    take_new(&server, 1000, &mut seen);
    let backup = home.path().join("backup.db");
    let said = home.ledger(&["backup", backup.to_str().unwrap()]).ok();
    assert!(said.contains("advance"), "it says what a copy needs: {said}");
    let again = home.ledger(&["backup", backup.to_str().unwrap()]);
    assert_eq!(again.code, Some(1), "an older backup is not written over: {again:#?}");
    let left: Vec<_> = fs::read_dir(home.data())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("backup"))
        .collect();
    assert!(left.is_empty(), "nothing of it stays behind: {left:?}");
    take_new(&server, 5000, &mut seen);
    server.terminate();

    let copied = harness::Copied { database: fs::read(&backup).unwrap(), wal: None };
    home.restore_database(&copied);
    let server = home.server().start_unready();
    assert_halted(&server);
    home.ledger(&["advance", "--yes"]).ok();
    server.until_ready();
    take_new(&server, 5000, &mut seen);
    server.terminate();
}

#[test]
fn a_backup_serves_in_a_new_data_dir_only_without_the_old_node_and_with_a_skip() {
    let home = Home::new();
    let mut seen = HashSet::new();
    let server = home.start();
    take_new(&server, 1000, &mut seen);
    let backup = home.path().join("backup.db");
    home.ledger(&["backup", backup.to_str().unwrap()]).ok();
    take_new(&server, 5000, &mut seen);
    let old = home.node();
    let issued_up_to = server.cursor("links").max(server.cursor("tickets"));
    server.kill();

    let new = Home::new();
    fs::create_dir(new.data()).unwrap();
    fs::copy(&backup, new.file("keymill.db")).unwrap();
    let server = new.server().start_unready();
    assert_halted(&server);
    let refused = new.ledger(&["advance", "--yes"]);
    assert_eq!(refused.code, Some(1));
    for named in [old.as_str(), "--without", "--skip"] {
        assert!(refused.stderr.contains(named), "{named} is not named: {}", refused.stderr);
    }
    assert_halted(&server);
    assert_eq!(new.ledger(&["advance", "--yes", "--without", &old]).code, Some(2), "without needs a skip");
    let skip = issued_up_to.to_string();
    new.ledger(&["advance", "--yes", "--without", &old, "--skip", &skip]).ok();
    server.until_ready();
    take_new(&server, 5000, &mut seen);
    server.terminate();
    take_new(&new.start(), 5000, &mut seen);
}

#[test]
fn ledger_commands_work_on_a_data_dir_without_a_server() {
    let home = Home::new();
    let nothing = home.ledger(&["show"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.stderr.contains("no ledger"), "{}", nothing.stderr);
    assert!(!home.data().exists(), "looking creates nothing");

    let server = home.start();
    server.take("tickets", 7);
    server.terminate();
    let shown: Value = serde_json::from_str(&home.ledger(&["show", "--json"]).ok()).unwrap();
    assert_eq!(shown["state"], "ok");
    let tickets = shown["tracks"].as_array().unwrap().iter().find(|track| track["track"] == "tickets");
    assert_eq!(tickets.unwrap()["cursor"], "7", "all but seven went back");
    let url = format!("sqlite:{}", home.file("keymill.db").display());
    let by_url: Value =
        serde_json::from_str(&home.run(&["ledger", "show", "--json", "--ledger", &url]).ok()).unwrap();
    assert_eq!(by_url, shown);
    let backup = home.path().join("cold.db");
    home.ledger(&["backup", backup.to_str().unwrap()]).ok();
    let copy: Value = serde_json::from_str(
        &home.run(&["ledger", "show", "--json", "--ledger", &format!("sqlite:{}", backup.display())]).ok(),
    )
    .unwrap();
    assert_eq!((&copy["state"], &copy["id"]), (&Value::from("halted"), &shown["id"]));

    // The server's file outlives a kill, and must not send the command to nobody.
    home.start().kill();
    assert!(home.file("server.json").exists());
    assert!(home.ledger(&["show"]).ok().contains("tickets"));
    // What a server holds, no command opens behind its back.
    let server = home.start();
    let refused = home.run(&["ledger", "show", "--ledger", &url]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains(&server.pid().to_string()), "{}", refused.stderr);
}

#[test]
fn a_node_that_remembers_a_ledger_makes_no_other_where_it_was() {
    let home = Home::new();
    home.start().terminate();
    for name in ["keymill.db", "keymill.db-wal", "keymill.db-shm"] {
        let _ = fs::remove_file(home.file(name));
    }
    let refused = home.server().run();
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("this node remembers one"), "{refused:#?}");
    assert!(!home.file("keymill.db").exists(), "nothing was made");
}
