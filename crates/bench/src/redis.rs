//! What people use today: a Redis list of keys, popped one at a time and in hundreds.
//!
//! Keymill is asked over HTTP, so the single take pays for HTTP's framing; the batch shows what a key
//! itself costs. Redis' list has to be filled first, which is not counted here.

use std::{
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::Context;

use crate::{
    compare,
    process::{Server, free_port},
};

const KEYS: u32 = 2_000_000;
const POPS: u32 = 300_000;
const BATCH: u32 = 100;

pub(crate) fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let port = free_port()?;
    let redis = Server::start(
        Command::new("redis-server")
            .arg("--port")
            .arg(port.to_string())
            .args(["--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(dir.path()),
        format!("127.0.0.1:{port}"),
    )?;
    fill(port)?;
    let one = pop(&redis, port, POPS, &["LPOP", "keys"])?;
    let hundred = pop(&redis, port, POPS / BATCH, &["LPOP", "keys", &BATCH.to_string()])? / f64::from(BATCH);
    compare("redis LPOP, CPU a key", one, "us", "", 1.0, "-");
    compare("redis LPOP keys 100, CPU a key", hundred, "us", "", 1.0, "-");

    let keymill = Server::keymill(&dir.path().join("data"))?;
    let script = dir.path().join("batch.lua");
    let body = format!("wrk.method = \"POST\"\nwrk.body = '{{\"count\":{BATCH}}}'\n");
    std::fs::write(&script, body)?;
    let cost = crate::http::load(&keymill, "/v1/keyspaces/links/keys", &script)?.micros / f64::from(BATCH);
    compare("keymill, 100 keys a request, CPU a key", cost, "us", "redis LPOP keys 100", cost / hundred, "-");
    Ok(())
}

/// Microseconds of server CPU per command.
fn pop(redis: &Server, port: u16, commands: u32, command: &[&str]) -> anyhow::Result<f64> {
    let before = redis.cpu_seconds()?;
    let status = Command::new("redis-benchmark")
        .args(["-p", &port.to_string(), "-c", "50", "-q", "-n", &commands.to_string()])
        .args(command)
        .stdout(Stdio::null())
        .status()
        .context("redis-benchmark could not be started")?;
    anyhow::ensure!(status.success(), "redis-benchmark failed");
    Ok((redis.cpu_seconds()? - before) * 1e6 / f64::from(commands))
}

/// Fills the list the way a filler would: pipelined, in large pushes.
fn fill(port: u16) -> anyhow::Result<()> {
    let mut child = Command::new("redis-cli")
        .args(["-p", &port.to_string(), "--pipe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("redis-cli could not be started")?;
    let mut input = child.stdin.take().context("stdin was piped")?;
    for start in (0..KEYS).step_by(1000) {
        let mut push = String::from("RPUSH keys");
        for key in start..start + 1000 {
            let _ = write!(push, " k{key:06}");
        }
        writeln!(input, "{push}\r")?;
    }
    drop(input);
    anyhow::ensure!(child.wait()?.success(), "redis-cli failed");
    Ok(())
}
