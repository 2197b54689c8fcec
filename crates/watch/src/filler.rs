//! Layer 1: whoever fills a pool is started anew.

use std::{
    collections::HashSet,
    fmt,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

#[async_trait]
pub trait RestartFiller: fmt::Debug + Send + Sync + 'static {
    /// Starts the keyspace's filler anew. `Ok` says that it was started, not that it fills: that is for the level
    /// to say.
    async fn restart(&self, keyspace: &str) -> Result<(), String>;
}

/// Restarts by a command of the operator's, such as `systemctl restart filler`. It runs in a shell, with the
/// keyspace in `KEYMILL_KEYSPACE`, and is killed with all it started if it takes too long. What it leaves running
/// in the background when it ends stays.
#[derive(Debug)]
pub struct RestartCommand {
    command: String,
    patience: Duration,
    running: Arc<Mutex<HashSet<String>>>,
}

impl RestartCommand {
    pub fn new(command: String, patience: Duration) -> Self {
        Self { command, patience, running: Arc::default() }
    }

    fn spawn(&self, keyspace: &str) -> std::io::Result<Child> {
        Command::new("sh")
            .args(["-c", &self.command])
            .env("KEYMILL_KEYSPACE", keyspace)
            .stdin(Stdio::null())
            // Our own stdout is for answers.
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
    }
}

#[async_trait]
impl RestartFiller for RestartCommand {
    async fn restart(&self, keyspace: &str) -> Result<(), String> {
        let Some(_turn) = Turn::take(&self.running, keyspace) else {
            return Err("the command of the last restart is still running".to_owned());
        };
        let mut child =
            self.spawn(keyspace).map_err(|error| format!("the command could not be started: {error}"))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        match tokio::time::timeout(self.patience, child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(format!("the command ended with {status}")),
            Ok(Err(error)) => Err(format!("the command could not be waited for: {error}")),
            Err(_) => {
                // Not only the shell, but what it started.
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                let _ = child.wait().await;
                Err(format!("the command was killed: it took longer than {:?}", self.patience))
            }
        }
    }
}

/// One command a keyspace at a time.
#[derive(Debug)]
struct Turn {
    running: Arc<Mutex<HashSet<String>>>,
    keyspace: String,
}

impl Turn {
    fn take(running: &Arc<Mutex<HashSet<String>>>, keyspace: &str) -> Option<Self> {
        let is_free = running.lock().expect(UNBROKEN).insert(keyspace.to_owned());
        is_free.then(|| Self { running: running.clone(), keyspace: keyspace.to_owned() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.running.lock().expect(UNBROKEN).remove(&self.keyspace);
    }
}

const UNBROKEN: &str = "nothing panics while it holds this";

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn the_command_knows_its_keyspace_and_says_how_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("restarted");
        let command = format!("printf %s \"$KEYMILL_KEYSPACE\" > {}", path.display());
        RestartCommand::new(command, PATIENCE).restart("links").await.unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "links");
        let failed = RestartCommand::new("exit 3".to_owned(), PATIENCE).restart("links").await;
        assert!(failed.unwrap_err().contains('3'));
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_what_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        let command = format!("sleep 600 & echo $! > {}; wait", path.display());
        let killed = RestartCommand::new(command, Duration::from_millis(500)).restart("links").await;
        assert!(killed.unwrap_err().contains("killed"));
        let pid: u32 = std::fs::read_to_string(path).unwrap().trim().parse().unwrap();
        let deadline = std::time::Instant::now() + PATIENCE;
        // Gone, or a zombie that nobody waits for.
        while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(std::time::Instant::now() < deadline, "it still runs");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn one_command_runs_at_a_time_for_a_keyspace() {
        let command = Arc::new(RestartCommand::new("sleep 5".to_owned(), PATIENCE));
        let first = tokio::spawn({
            let command = command.clone();
            async move { command.restart("links").await }
        });
        while command.running.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(command.restart("links").await.unwrap_err().contains("still running"));
        first.abort();
    }
}
