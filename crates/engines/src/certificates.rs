//! Certificates for engines that speak TLS: an authority of the test's own, and a server and a client that it
//! vouches for.

use std::{path::PathBuf, process::Command, time::Duration};

use tempfile::TempDir;

use crate::process::{directory, run};

/// PEM files: `ca.pem`, `server.pem` and `server.key` for 127.0.0.1, `client.pem` and `client.key`.
#[derive(Debug)]
pub struct Certificates {
    dir: TempDir,
}

impl Certificates {
    pub fn make() -> anyhow::Result<Self> {
        let made = Self { dir: directory()? };
        made.openssl("req -x509 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem")?;
        for name in ["server", "client"] {
            std::fs::write(made.file("names"), "subjectAltName=IP:127.0.0.1\n")?;
            made.openssl(&format!("req -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"))?;
            made.sign(name, 2)?;
        }
        Ok(made)
    }

    /// Replaces the certificate of `server` or `client` by one whose time is over.
    pub fn expire(&self, name: &str) -> anyhow::Result<()> {
        self.sign(name, 0)?;
        // It is good for the second in which it was made.
        std::thread::sleep(Duration::from_millis(2100));
        Ok(())
    }

    fn sign(&self, name: &str, days: u32) -> anyhow::Result<()> {
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} -extfile names -out {name}.pem"
        ))
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Gives a key to whom the engine runs as, who alone may read it.
    pub fn hand_to(&self, user: &str, key: &str) -> anyhow::Result<()> {
        let mut install = Command::new("install");
        install.args(["-m", "600"]);
        if rustix::process::geteuid().is_root() {
            install.args(["-o", user, "-g", user]);
        }
        let handed = self.file("handed");
        run(install.arg(self.file(key)).arg(&handed))?;
        Ok(std::fs::rename(handed, self.file(key))?)
    }

    fn openssl(&self, arguments: &str) -> anyhow::Result<()> {
        let mut command = Command::new("openssl");
        command.current_dir(self.dir.path()).args(arguments.split_whitespace());
        if arguments.starts_with("req") {
            command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
        }
        run(&mut command).map(drop)
    }
}
