//! What it costs to ask who may take a key, and how many: the same pops from a server that asks nobody and
//! from one that checks a token, the token's rate and the keyspace's limit. Interleaved, in pairs.

use std::{fs, path::Path, process::Command};

use crate::{
    compare,
    process::{Server, beside},
    resp::{Asked, by_turns},
};

const DEPTH: u32 = 16;
const COMMANDS: u32 = 1_000_000;
/// Limits that are checked and never reached.
const RATE: &str = "1000000000";

pub(crate) fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let (open, guarded) = (dir.path().join("open"), dir.path().join("guarded"));
    let open = Asked::on(Server::keymill(&open)?, &open, None)?;
    let guarded = guarded_server(&guarded)?;
    let (micros, ratio) = by_turns(&open, &guarded, DEPTH, COMMANDS)?;
    compare("LPOP -P 16 with token, rate and limit", micros, "us", "without", ratio, "<= 1.05x");
    Ok(())
}

fn guarded_server(data_dir: &Path) -> anyhow::Result<Asked> {
    let output = Command::new(beside("keymill")?)
        .args(["token", "create", "--name", "bench", "--scope", "take", "--rate", RATE, "--data-dir"])
        .arg(data_dir)
        .output()?;
    let token = String::from_utf8(output.stdout)?.trim().to_owned();
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let config = data_dir.with_extension("toml");
    fs::write(
        &config,
        format!("[auth]\nmode = \"on\"\n[keyspaces.links]\nscheme = \"pool\"\nrate_limit = {RATE}\n"),
    )?;
    let server = Server::keymill_with(data_dir, &["--config", &config.to_string_lossy()])?;
    Asked::on(server, data_dir, Some(token))
}
