//! `keymill audit export`: what the ledger knows of who took what, as a file.

use serde_json::Value;

mod harness;
use harness::Home;

#[test]
fn claims_of_numbers_and_of_time_are_written_down() {
    let home = Home::new();
    let server = home.start();
    server.until_stocked(&["links"]);
    server.take("links", 10);
    server.take("events", 1);
    let first = home.node();
    server.terminate();
    let server = home.start();
    server.until_stocked(&["links"]);
    let url = server.url();
    let export = |more: &[&str]| home.run(&[&["--server", &url, "audit", "export"], more].concat());

    let csv = export(&["links"]).ok();
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("track,start,end,node,epoch,reserved_at,issued_up_to,last_issued_at,state")
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let settled = rows
        .iter()
        .find(|row| row[8] == "settled")
        .unwrap_or_else(|| panic!("the first life stopped cleanly: {csv}"));
    assert_eq!((settled[0], settled[3]), ("links", first.as_str()));
    assert!(rows.iter().all(|row| row[1].parse::<u64>().unwrap() < row[2].parse().unwrap()), "{csv}");
    let issued: u64 = settled[6].parse::<u64>().unwrap() - settled[1].parse::<u64>().unwrap();
    assert!(issued >= 10, "{csv}");

    let out = home.path().join("events.jsonl");
    export(&["events", "--format", "jsonl", "--out", out.to_str().unwrap()]).ok();
    let text = std::fs::read_to_string(out).unwrap();
    let claims: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        !claims.is_empty()
            && claims.iter().all(|claim| claim["track"].as_str().unwrap().starts_with("events/"))
    );

    let refused = export(&["nothing"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("no keyspace"), "{refused:?}");
}
