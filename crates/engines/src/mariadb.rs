//! A MariaDB of one's own.

use std::{path::Path, process::Command};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    certificates::Certificates,
    process::{Process, accepts, directory, free_port, run},
};

/// Settings of every server: durable as by default, few resources.
const SETTINGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=64M",
    "--max-connections=300",
    "--skip-name-resolve",
];

#[derive(Debug)]
pub struct MariaDb {
    process: Option<Process>,
    settings: Vec<String>,
    port: u16,
    dir: TempDir,
}

impl MariaDb {
    /// A fresh server with a database `keymill` and a user of that name, up and answering.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[])
    }

    /// As [`start`](Self::start), with more settings: `--name=value`.
    pub fn start_with(settings: &[&str]) -> anyhow::Result<Self> {
        let dir = directory()?;
        let data = dir.path().join("data");
        let mut install = Command::new("install");
        install.args(["-d", "-m", "700"]);
        if is_root() {
            install.args(["-o", "mysql", "-g", "mysql"]);
        }
        run(install.arg(&data))?;
        let mut create = Command::new("mariadb-install-db");
        create.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        if is_root() {
            create.arg("--user=mysql");
        }
        // Temporary tables of two installations at once would have the same names in a common place.
        let own = [format!("--datadir={}", data.display()), format!("--tmpdir={}", data.display())];
        run(create.args(own))?;
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { process: None, settings, port: free_port()?, dir };
        server.restart()?;
        server.sql(
            "CREATE DATABASE keymill; CREATE USER keymill@'127.0.0.1' IDENTIFIED BY 'keymill';
             GRANT ALL ON keymill.* TO keymill@'127.0.0.1'",
        )?;
        Ok(server)
    }

    /// As [`start`](Self::start), and it speaks TLS with a certificate of a new authority.
    pub fn start_with_tls() -> anyhow::Result<(Self, Certificates)> {
        let mut server = Self::start()?;
        let made = Certificates::make()?;
        made.hand_to("mysql", "server.key")?;
        server.crash()?;
        server.settings = vec![
            format!("--ssl-cert={}", made.file("server.pem").display()),
            format!("--ssl-key={}", made.file("server.key").display()),
        ];
        server.restart()?;
        Ok((server, made))
    }

    /// Starts it again, on the same port and data.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.process = None;
        let data = self.dir.path().join("data");
        let mut command = Command::new(server());
        command.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
        command.arg(format!("--tmpdir={}", data.display()));
        command.arg(format!("--port={}", self.port)).arg(format!("--socket={}", data.join("s").display()));
        if is_root() {
            command.arg("--user=mysql");
        }
        command.args(SETTINGS).args(&self.settings);
        let mut process = Process::start("mariadbd", &mut command, &self.dir.path().join("log"))?;
        process.wait_until(|| accepts(self.port) && self.sql("SELECT 1").is_ok())?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it at once, as a power cut would: it recovers from its log when it is started again.
    pub fn crash(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::KILL)?;
            process.wait()?;
        }
        Ok(())
    }

    /// Runs statements as root and gives back what they print.
    pub fn sql(&self, statements: &str) -> anyhow::Result<String> {
        run(Command::new("mariadb").args([
            "--no-defaults",
            "-h127.0.0.1",
            "-uroot",
            "--batch",
            "--skip-column-names",
            &format!("-P{}", self.port),
            "-e",
            statements,
        ]))
    }

    pub fn url(&self) -> String {
        format!("mysql://keymill:keymill@127.0.0.1:{}/keymill", self.port)
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Not on every user's path.
fn server() -> &'static Path {
    let sbin = Path::new("/usr/sbin/mariadbd");
    if sbin.exists() { sbin } else { Path::new("mariadbd") }
}
