//! Guards against what would otherwise be noticed only later: tuning that burns a keyspace at one crash, IDs
//! from the future, a second server on a linked ledger, a witness that went missing.

use std::os::unix::fs::symlink;

mod harness;
use harness::Home;

#[test]
fn tuning_that_a_crash_would_pay_for_is_refused() {
    let home = Home::new();
    let server = home.start();
    let before = server.get("/v1/keyspaces/events").json()["tuning"].clone();
    for body in
        [r#"{"outage_budget":"9999d"}"#, r#"{"stock_min":"2G","stock_max":"3G"}"#, r#"{"stock_max":"1T"}"#]
    {
        let answer = server.ask("PATCH", "/v1/keyspaces/events", Some(body));
        assert_eq!((answer.status, answer.code().as_str()), (422, "invalid_field"), "{body}: {answer:?}");
    }
    assert_eq!(server.get("/v1/keyspaces/events").json()["tuning"], before, "nothing was changed");
}

#[test]
fn a_layout_whose_time_is_over_or_has_not_come_is_refused() {
    let home = Home::new();
    let server = home.start();
    for body in [
        r#"{"name":"late","scheme":"snowflake","layout":"time:20 worker:2 sequence:4"}"#,
        r#"{"name":"early","scheme":"snowflake","epoch":"9999-01-01T00:00:00Z","layout":"time:32 sequence:22"}"#,
    ] {
        let answer = server.post("/v1/keyspaces", body);
        assert_eq!((answer.status, answer.code().as_str()), (422, "invalid_field"), "{body}: {answer:?}");
    }
}

#[test]
fn a_backup_reads_its_body_and_refuses_what_it_does_not_know() {
    let home = Home::new();
    let server = home.start();
    assert_eq!(server.post("/v1/ledger/backup", r#"{"bogus":1}"#).code(), "invalid_field");
    assert_eq!(server.post("/v1/ledger/backup", "not json").code(), "invalid_request");
    assert_eq!(server.post("/v1/ledger/backup", "{}").status, 200);
}

#[test]
fn a_link_to_a_ledger_in_use_is_the_same_ledger() {
    let (home, other) = (Home::new(), Home::new());
    let server = home.start();
    let link = other.path().join("linked.db");
    symlink(home.file("keymill.db"), &link).unwrap();
    let url = format!("sqlite:{}", link.display());
    let refused = other.server().arguments(&["--ledger", &url]).run();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("in use by") && refused.stderr.contains(&home.node()), "{refused:?}");
    assert_eq!(server.take("tickets", 1), ["1"]);
}

#[test]
fn a_witness_that_is_gone_is_missed_aloud() {
    let home = Home::new();
    home.start().terminate();
    std::fs::remove_file(home.file("witness")).unwrap();
    let server = home.start();
    assert!(server.log().contains("its witness is gone"), "{}", server.log());
}
