//! A ZooKeeper server, from Debian's `zookeeper`.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    process::Command,
    time::Duration,
};

use anyhow::Context;
use tempfile::TempDir;

use crate::process::{Process, directory, free_port};

#[derive(Debug)]
pub struct Zookeeper {
    process: Option<Process>,
    port: u16,
    dir: TempDir,
}

impl Zookeeper {
    /// Starts a server, and waits until it answers.
    pub fn start() -> anyhow::Result<Self> {
        let mut server = Self { process: None, port: free_port()?, dir: directory()? };
        let data = server.dir.path().join("data");
        fs::create_dir(&data)?;
        let settings = format!(
            "tickTime=500\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n",
            data.display(),
            server.port
        );
        fs::write(server.dir.path().join("zoo.cfg"), settings)?;
        server.restart()?;
        Ok(server)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill(),
            None => Ok(()),
        }
    }

    /// Starts it on what it has on its disk.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        let mut command = Command::new("java");
        command
            .args(["-Xmx128m", "-cp", "/etc/zookeeper/conf_example:/usr/share/java/*"])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.dir.path().join("zoo.cfg"));
        let mut process = Process::start("zookeeper", &mut command, &self.dir.path().join("log"))?;
        let port = self.port;
        process.wait_until(|| serves(port).unwrap_or(false)).context("is the package installed?")?;
        self.process = Some(process);
        Ok(())
    }
}

/// Whether it takes requests; it listens, and says that it is well, a moment before.
fn serves(port: u16) -> io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    // Asked too early, it may never answer; then it is asked again.
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"srvr")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.contains("Mode:"))
}
