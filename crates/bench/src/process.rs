//! Servers started for a benchmark, and what they cost.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

/// Ends with the value.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// The `keymill` beside this program.
    pub(crate) fn keymill(data_dir: &Path) -> anyhow::Result<Self> {
        Self::keymill_with(data_dir, &[])
    }

    pub(crate) fn keymill_with(data_dir: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(beside("keymill")?)
            .args(["serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take().context("stdout was piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let address = lines
            .find_map(|line| Some(line.ok()?.split_once("http://")?.1.split_whitespace().next()?.to_owned()))
            .context("keymill did not say where it listens")?;
        Ok(Self { child, address })
    }

    pub(crate) fn start(command: &mut Command, address: String) -> anyhow::Result<Self> {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(&address).is_err() {
            if Instant::now() > until {
                bail!("nothing listens on {address}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { child, address })
    }

    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        cpu_seconds_of(self.child.id())
    }

    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id()))?;
        let pages: u64 = statm.split(' ').nth(1).context("statm has two fields")?.parse()?;
        Ok(pages * rustix::param::page_size() as u64)
    }

    /// Sends a request and returns how many bytes of body came back, and the body's end.
    pub(crate) fn post(&self, path: &str, headers: &str, body: &str) -> anyhow::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(&self.address)?;
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// A program built into the same directory as this one.
/// CPU seconds of a process, user and system, so far.
#[expect(clippy::cast_precision_loss, reason = "seconds")]
pub(crate) fn cpu_seconds_of(id: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    let fields = stat.rsplit_once(')').context("stat has a name")?.1;
    let ticks =
        fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse().unwrap_or(0)).sum::<u64>();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

pub(crate) fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if !path.exists() {
        bail!("{} is missing: run `cargo xtask bench`, which builds it", path.display());
    }
    Ok(path)
}

pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
