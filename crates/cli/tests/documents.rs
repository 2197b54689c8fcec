//! The documents are true: every `keymill`, `curl` and `redis-cli` line in them runs against a real server.

use std::process::Command;

mod harness;
use harness::{Home, finish};

const DOCUMENTS: [(&str, &str); 7] = [
    ("README.md", include_str!("../../../README.md")),
    ("docs/choosing.md", include_str!("../../../docs/choosing.md")),
    ("docs/operations.md", include_str!("../../../docs/operations.md")),
    ("docs/names.md", include_str!("../../../docs/names.md")),
    ("docs/rows.md", include_str!("../../../docs/rows.md")),
    ("docs/api.md", include_str!("../../../docs/api.md")),
    ("CONTRIBUTING.md", include_str!("../../../CONTRIBUTING.md")),
];

/// Lines of `sh` blocks, without their comments.
fn commands(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && !line.trim().is_empty() {
            lines.push(line.split(" # ").next().unwrap_or(line).trim().to_owned());
        }
    }
    lines
}

#[test]
fn every_command_in_the_documents_runs() {
    let home = Home::new();
    let server = home.start();
    let resp = server.resp.expect("the Redis protocol is on by default");
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_keymill")).parent().unwrap().to_owned();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut ran = 0;
    for (document, text) in DOCUMENTS {
        for line in commands(text) {
            if line.starts_with("cargo ") {
                continue; // building and testing is what runs this very test
            }
            let program = line.split(' ').next().unwrap_or_default();
            assert!(["keymill", "curl", "redis-cli"].contains(&program), "{document}: what is `{line}`?");
            let line = line.replace("127.0.0.1:7070", &server.address.to_string());
            let line = line.replace("redis-cli -p 7071", &format!("redis-cli -e -p {}", resp.port()));
            let line = line.replacen("curl ", "curl --silent --show-error --fail ", 1);
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).current_dir(home.path());
            shell.env("PATH", &path).env("KEYMILL_SERVER", server.url());
            let finished = finish(shell, harness::PATIENCE);
            assert_eq!(finished.code, Some(0), "{document}: `{line}` failed: {finished:?}");
            ran += 1;
        }
    }
    assert!(ran >= 8, "only {ran} commands were found");
    println!("{ran} commands ran");
}

#[test]
fn what_readme_says_of_cargo_is_what_ci_runs() {
    let ci = include_str!("../../../.ci/run");
    let workflow = include_str!("../../../.github/workflows/ci.yml");
    assert!(DOCUMENTS[0].1.contains("cargo xtask test") && ci.contains("cargo xtask test"));
    assert!(workflow.contains(".ci/run"));
    for command in ["cargo fmt --all --check", "cargo clippy --workspace --all-targets -- -D warnings"] {
        assert!(ci.contains(command), "{command}");
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let home = Home::new();
    for command in [
        "serve",
        "take",
        "inspect",
        "decode",
        "plan",
        "bench",
        "completions",
        "keyspace create",
        "ledger advance",
    ] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.push("--help");
        let help = home.run(&arguments).ok();
        assert!(help.contains("Example") && help.contains("keymill "), "{command}: {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.run(&["completions", shell]).ok().contains("keymill"));
    }
}
