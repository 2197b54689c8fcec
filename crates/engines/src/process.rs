//! A program that is started for a test, and ends with it.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long an engine may take to answer for the first time, on a machine that is busy with tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running program. Killed with the value, or with the process that holds it: a static is never dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    watch: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output in `log`.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{name} could not be started; `cargo xtask test` installs it"))?;
        let watch = watch(&child, log).inspect_err(|_| drop(child.kill()))?;
        Ok(Self { child, watch, name: name.to_owned(), log: log.to_owned() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.id())?).context("a process has an id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Ends it at once, as a power cut would end its machine.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.watch.kill()?;
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until it has ended by itself, for [`PATIENCE`] at most.
    pub fn wait(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > until {
                bail!("{} does not end: {}", self.name, self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until `is_up`, for [`PATIENCE`] at most; a program that has ended is told at once, with its log.
    pub fn wait_until(&mut self, mut is_up: impl FnMut() -> bool) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !is_up() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended ({status}): {}", self.name, self.log_tail());
            }
            if Instant::now() > until {
                bail!("{} does not answer: {}", self.name, self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(2_000)..]).into_owned()
    }
}

/// Waits for the end of this process, however it comes, and then kills `child` and removes its
/// [`directory`]: the pipe that it reads from is closed by the kernel.
fn watch(child: &Child, log: &Path) -> anyhow::Result<Child> {
    let script = r#"read -r _; kill -9 "$1"; sleep 1; case "$2" in */keymill-engine.*) rm -rf "$2";; esac"#;
    let watch = Command::new("sh")
        .args(["-c", script, "sh", &child.id().to_string()])
        .arg(log.parent().unwrap_or(Path::new("")))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    watch.context("there is no shell to watch over an engine")
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watch first: once the child is waited for, its id may be somebody else's.
        let _ = self.watch.kill();
        let _ = self.watch.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that engines which refuse to run as root may enter.
pub fn directory() -> anyhow::Result<TempDir> {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::Builder::new().prefix("keymill-engine.").tempdir()?;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755))?;
    Ok(dir)
}

/// A port nobody has at the moment.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A command that runs as `user` where we are root: some engines refuse to be.
pub fn command_as(user: &str, program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--init-groups"]).arg(program);
    command
}

/// Runs a command to its end and gives back what it printed.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{name} could not be started; `cargo xtask test` installs it"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub fn accepts(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Duration::from_secs(1)).is_ok()
}
