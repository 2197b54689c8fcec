//! A PostgreSQL of one's own, and standbys of it.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    certificates::Certificates,
    process::{PATIENCE, Process, accepts, command_as, directory, free_port, run},
};

/// Commits something, and leaves nothing behind.
const COMMIT: &str = "SELECT pg_logical_emit_message(true, 'keymill', 'a commit')";

/// Settings of every server: durable as by default, many connections, few resources.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=32MB",
    "wal_keep_size=256MB",
];

#[derive(Debug)]
pub struct Postgres {
    process: Option<Process>,
    settings: Vec<String>,
    port: u16,
    data: PathBuf,
    dir: TempDir,
}

impl Postgres {
    /// A fresh cluster, up and answering.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[])
    }

    /// As [`start`](Self::start), with more settings: `name=value`.
    pub fn start_with(settings: &[&str]) -> anyhow::Result<Self> {
        let dir = directory()?;
        let data = own_folder(dir.path())?;
        run(command_as("postgres", &program("initdb")?).arg("-D").arg(&data).args([
            "-U",
            "keymill",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        ]))?;
        Self::up(dir, data, settings)
    }

    /// As [`start`](Self::start), and it speaks TLS with a certificate of a new authority.
    pub fn start_with_tls() -> anyhow::Result<(Self, Certificates)> {
        let mut server = Self::start()?;
        let made = Certificates::make()?;
        made.hand_to("postgres", "server.key")?;
        server.crash()?;
        server.settings = vec![
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", made.file("server.pem").display()),
            format!("ssl_key_file={}", made.file("server.key").display()),
        ];
        server.restart()?;
        Ok((server, made))
    }

    /// A standby that follows this server; asynchronous, unless this server's settings say otherwise.
    pub fn standby(&self) -> anyhow::Result<Self> {
        let dir = directory()?;
        let data = own_folder(dir.path())?;
        run(command_as("postgres", &program("pg_basebackup")?).arg("-D").arg(&data).args([
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
            "-h",
            "127.0.0.1",
            "-U",
            "keymill",
            "-p",
            &self.port.to_string(),
        ]))?;
        Self::up(dir, data, &[])
    }

    fn up(dir: TempDir, data: PathBuf, settings: &[&str]) -> anyhow::Result<Self> {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { process: None, settings, port: free_port()?, data, dir };
        server.restart()?;
        Ok(server)
    }

    /// Starts it again, on the same port and data.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.process = None;
        let mut command = command_as("postgres", &program("postgres")?);
        command.arg("-D").arg(&self.data).args(["-p", &self.port.to_string()]);
        for setting in SETTINGS.iter().copied().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        let mut process = Process::start("postgres", &mut command, &self.dir.path().join("log"))?;
        process.wait_until(|| accepts(self.port) && self.sql("SELECT 1").is_ok())?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it at once, without a checkpoint: it recovers from its log when it is started again.
    pub fn crash(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::QUIT)?;
            process.wait()?;
        }
        Ok(())
    }

    /// Stops it in its tracks, all of it, so that connections hang instead of failing; `Signal::CONT` goes on.
    pub fn signal_all(&self, signal: Signal) -> anyhow::Result<()> {
        let parent = self.process.as_ref().context("it is not running")?;
        for line in run(Command::new("ps").args(["-o", "pid=", "--ppid", &parent.id().to_string()]))?.lines()
        {
            let pid = rustix::process::Pid::from_raw(line.trim().parse()?).context("a process has an id")?;
            // One that has ended in the meantime needs no signal.
            let _ = rustix::process::kill_process(pid, signal);
        }
        parent.signal(signal)
    }

    /// Makes a standby the primary.
    pub fn promote(&self) -> anyhow::Result<()> {
        self.sql("SELECT pg_promote(true, 60)").map(drop)
    }

    /// Crashes `primary` and takes its place, port and all, with whatever had arrived by then.
    pub fn take_over(&mut self, mut primary: Self) -> anyhow::Result<()> {
        primary.crash()?;
        self.crash()?;
        self.port = primary.port;
        self.restart()?;
        self.promote()
    }

    /// Lets a standby receive nothing more: from here on it lags behind.
    pub fn cut_off(&self) -> anyhow::Result<()> {
        self.sql("ALTER SYSTEM SET primary_conninfo = ''")?;
        self.sql("SELECT pg_reload_conf()")?;
        let until = Instant::now() + PATIENCE;
        while self.sql("SELECT count(*) FROM pg_stat_wal_receiver")?.trim() != "0" {
            if Instant::now() > until {
                bail!("the standby still receives");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Lets every commit wait for a standby that never comes.
    pub fn hold_commits(&self) -> anyhow::Result<()> {
        self.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")?;
        self.sql("SELECT pg_reload_conf()")?;
        // Commits are told by a process of the server that reads the setting in its own time: until one is held.
        let until = Instant::now() + PATIENCE;
        loop {
            let held = std::thread::scope(|scope| {
                let commit = scope.spawn(|| self.sql(COMMIT));
                let mut held = false;
                while !commit.is_finished() {
                    held |= self.cancel_held()?;
                }
                anyhow::Ok(held)
            });
            if held? {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("commits do not wait for the standby");
            }
        }
    }

    /// Tells a commit that is held that its standby does not come: it took effect here, and nobody knows where else.
    /// Says whether there was one.
    pub fn cancel_held(&self) -> anyhow::Result<bool> {
        let cancel =
            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        Ok(self.sql(cancel)?.trim() != "0")
    }

    /// Ends [`hold_commits`](Self::hold_commits).
    pub fn release_commits(&self) -> anyhow::Result<()> {
        self.sql("ALTER SYSTEM RESET synchronous_standby_names")?;
        self.sql("SELECT pg_reload_conf()")?;
        // Held until they are told.
        self.sql(COMMIT).map(drop)
    }

    /// Waits until this standby has all that `primary` has written so far.
    pub fn wait_for(&self, primary: &Self) -> anyhow::Result<()> {
        let written = primary.sql("SELECT pg_current_wal_lsn()")?;
        let behind = format!("SELECT pg_last_wal_replay_lsn() >= '{}'", written.trim());
        let until = Instant::now() + PATIENCE;
        while self.sql(&behind)?.trim() != "t" {
            if Instant::now() > until {
                bail!("the standby does not catch up");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Runs statements as the superuser and gives back what they print.
    pub fn sql(&self, statements: &str) -> anyhow::Result<String> {
        run(Command::new(program("psql")?).args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
            "-U",
            "keymill",
            "-d",
            "postgres",
            "-p",
            &self.port.to_string(),
            "-c",
            statements,
        ]))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("postgres://keymill@127.0.0.1:{}/postgres", self.port)
    }
}

/// A folder that only the engine may enter, as it insists.
fn own_folder(dir: &Path) -> anyhow::Result<PathBuf> {
    let data = dir.join("data");
    let mut install = Command::new("install");
    install.args(["-d", "-m", "700"]);
    if rustix::process::geteuid().is_root() {
        install.args(["-o", "postgres", "-g", "postgres"]);
    }
    run(install.arg(&data))?;
    Ok(data)
}

/// Debian keeps the server's programs of each version apart.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let versions = Path::new("/usr/lib/postgresql");
    let mut found: Vec<PathBuf> = std::fs::read_dir(versions)
        .map(|entries| entries.flatten().map(|entry| entry.path().join("bin").join(name)).collect())
        .unwrap_or_default();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().with_context(|| format!("{name} is not installed; `cargo xtask test` installs postgresql"))
}
