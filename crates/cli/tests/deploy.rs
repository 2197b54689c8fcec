//! What is there to deploy fits what the server has: alerts that Prometheus takes and that fire when they should,
//! and no name that `/metrics` does not know.

use std::{collections::BTreeSet, path::PathBuf, process::Command};

use serde_json::{Value, json};

mod harness;
use harness::{Home, PATIENCE, finish};

fn deploy() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn promtool(arguments: &[&str]) -> String {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(deploy().join("prometheus"));
    finish(command, PATIENCE).ok()
}

/// Names of ours in a text, as `/metrics` has them.
fn names_in(text: &str) -> BTreeSet<String> {
    let word = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let words = text.split(|byte| !word(byte));
    words
        .filter(|word| word.starts_with("keymill_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

/// Every name that a server tells.
fn told() -> BTreeSet<String> {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "promo", "scheme": "pool", "page_below": 1000}));
    server.until_stocked(&["links", "promo"]);
    server.take("links", 1);
    let text = server.get("/metrics").text();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let samples =
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(['{', ' ']).next());
    families.chain(samples).map(str::to_owned).collect()
}

#[test]
fn the_alerts_are_rules_and_do_what_they_say() {
    assert!(promtool(&["check", "rules", "alerts.yml"]).contains("SUCCESS"));
    assert!(promtool(&["test", "rules", "alerts_test.yml"]).contains("SUCCESS"));
}

#[test]
fn alerts_and_dashboard_use_only_names_that_the_server_tells() {
    let read = |path: &str| std::fs::read_to_string(deploy().join(path)).unwrap();
    let told = told();
    let alerts = read("prometheus/alerts.yml");
    let dashboard = read("grafana/keymill.json");
    for (document, text) in [("alerts.yml", alerts.as_str()), ("keymill.json", dashboard.as_str())] {
        let used = names_in(text);
        assert!(used.len() > 10, "{document}: {used:?}");
        let unknown: Vec<_> = used.difference(&told).collect();
        assert!(unknown.is_empty(), "{document} uses {unknown:?}, which /metrics does not have");
    }
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "every panel has an id of its own");
}

#[test]
fn prometheus_can_read_what_the_server_tells() {
    let home = Home::new();
    let server = home.start();
    server.take("links", 1);
    let page = home.write("metrics", &server.get("/metrics").text());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("promtool check metrics < {}", page.display())]);
    let checked = finish(command, PATIENCE);
    assert!(!checked.stderr.contains("error while linting"), "{checked:?}");
}
