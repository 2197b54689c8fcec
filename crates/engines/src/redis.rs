//! A Redis server, and replicas of it, from Debian's `redis-server` and `redis-tools`.

use std::process::Command;

use anyhow::Context;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::{Process, directory, free_port, run};

/// Settings of a server that keeps all it acknowledged.
pub const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
/// Settings of a server that keeps what it had at its last `SAVE`.
pub const FORGETFUL: &[&str] = &["--appendonly", "no", "--save", ""];

#[derive(Debug)]
pub struct Redis {
    process: Option<Process>,
    settings: Vec<String>,
    port: u16,
    dir: TempDir,
}

impl Redis {
    /// Starts a server with `settings` as `redis-server` takes them, and waits until it answers.
    pub fn start(settings: &[&str]) -> anyhow::Result<Self> {
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut redis = Self { process: None, settings, port: free_port()?, dir: directory()? };
        redis.restart()?;
        Ok(redis)
    }

    /// A replica of this server, up to date when it is returned.
    pub fn replica(&self) -> anyhow::Result<Self> {
        let primary = self.port.to_string();
        let mut replica = Self::start(&["--save", "", "--replicaof", "127.0.0.1", &primary])?;
        let port = replica.port;
        let process = replica.process.as_mut().context("it was just started")?;
        process.wait_until(|| {
            cli(port, &["info", "replication"]).is_ok_and(|info| info.contains("master_link_status:up"))
        })?;
        // The server must know it too: it counts whom to wait for.
        let (ours, server) = (format!("port={port},state=online"), self.port);
        process
            .wait_until(|| cli(server, &["info", "replication"]).is_ok_and(|info| info.contains(&ours)))?;
        Ok(replica)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it at once: what is not on its disk is lost.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill(),
            None => Ok(()),
        }
    }

    /// Starts it on what it has on its disk, and waits until it has read that.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--dir"])
            .arg(self.dir.path())
            .args(&self.settings);
        let mut process = Process::start("redis-server", &mut command, &self.dir.path().join("log"))?;
        let port = self.port;
        // One that wants a password has answered too.
        process.wait_until(|| {
            cli(port, &["ping"]).is_ok_and(|pong| pong.contains("PONG") || pong.contains("NOAUTH"))
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Stops it in its tracks, as a machine that hangs does.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.process.as_ref().context("it is not running")?.signal(Signal::STOP)
    }

    pub fn resume(&self) -> anyhow::Result<()> {
        self.process.as_ref().context("it is not running")?.signal(Signal::CONT)
    }

    /// Runs one command and gives back what `redis-cli` prints.
    pub fn cli(&self, command: &[&str]) -> anyhow::Result<String> {
        cli(self.port, command)
    }
}

fn cli(port: u16, command: &[&str]) -> anyhow::Result<String> {
    run(Command::new("redis-cli").args(["-p", &port.to_string()]).args(command))
}
