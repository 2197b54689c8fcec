//! The configuration is read again at SIGHUP and when its file changes. What may change while the process runs is
//! put into force and logged; what may not is named, and stays as it is. A file that cannot be read or contradicts
//! itself changes nothing. Where no file was read, SIGHUP means what it always meant: stop.
//!
//! The file is looked at, not watched: Kubernetes swaps a link for another, which watchers of files miss.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use keymill_issuer::{Node, Wanted};
use keymill_ledger::Timestamp;
use sha2::{Digest, Sha256};
use tokio::signal::unix::Signal;

use crate::{
    config::{self, Change, Config},
    telemetry::LogLevel,
    trace::Traces,
};

/// How often the file is looked at. It is small.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const KEYSPACES: &str = "keyspaces.";

/// Where the configuration comes from.
pub struct Origin {
    /// `None`: from the environment and flags alone, which never change.
    pub file: Option<PathBuf>,
    /// Reads all of it again.
    pub read: Box<dyn Fn() -> anyhow::Result<Config> + Send + Sync>,
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin").field("file", &self.file).finish_non_exhaustive()
    }
}

/// How the last reading went, for `/readyz`.
#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<Option<Reading>>);

#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub at: Timestamp,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    InForce,
    /// So many settings wait for a restart.
    NeedsRestart(usize),
    /// Nothing of it, or not all of it, could be put into force.
    Refused,
}

impl Readings {
    pub(crate) fn last(&self) -> Option<Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, at: Timestamp, outcome: Outcome) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Reading { at, outcome });
    }
}

/// Puts what is read again into force.
pub(crate) struct Reloader {
    pub file: PathBuf,
    pub read: Box<dyn Fn() -> anyhow::Result<Config> + Send + Sync>,
    /// What is in force.
    pub config: Config,
    pub log_level: LogLevel,
    pub traces: Option<Arc<Traces>>,
    pub node: Weak<Node>,
    pub readings: Arc<Readings>,
}

impl Reloader {
    /// Until the node is gone.
    pub(crate) async fn run(mut self, mut hangups: Signal) {
        let mut file = Watched::new(&self.file);
        loop {
            tokio::select! {
                _ = hangups.recv() => file.skip(),
                () = tokio::time::sleep(LOOK_EVERY) => {
                    if !file.has_changed() {
                        continue;
                    }
                }
            }
            let Some(node) = self.node.upgrade() else { return };
            let outcome = self.read_again(&node).await;
            self.readings.note(node.now(), outcome);
        }
    }

    async fn read_again(&mut self, node: &Arc<Node>) -> Outcome {
        let later = match (self.read)() {
            Ok(later) => later,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "the configuration is left as it is: {error}");
                return Outcome::Refused;
            }
        };
        let changes = self.config.changes(&later);
        if changes.is_empty() {
            tracing::info!("the configuration was read again, and says what is in force");
            return Outcome::InForce;
        }
        let changed = |setting: &str| changes.iter().find(|change| change.setting == setting);
        if let Some(change) = changed(SAMPLE_RATIO) {
            self.follow(later.trace.sample_ratio);
            in_force(change);
        }
        let mut refused = false;
        let keyspaces: Vec<_> = changes.iter().filter(|change| is_keyspace(change)).collect();
        if !keyspaces.is_empty() {
            refused = !self.want(node, &keyspaces, &later).await;
        }
        let fixed: Vec<_> = changes.iter().filter(|change| !may_change(change)).collect();
        if !fixed.is_empty() {
            let settings = fixed.iter().map(|change| change.to_string()).collect::<Vec<_>>().join("; ");
            tracing::warn!(settings, "needs a restart, and stays as it was until then: {settings}");
        }
        // Last: it decides whether what is said of the others is seen.
        if let Some(change) = changed(LOG_LEVEL) {
            self.log_as(change, &later.log.level);
        }
        match (refused, fixed.len()) {
            (true, _) => Outcome::Refused,
            (false, 0) => Outcome::InForce,
            (false, fixed) => Outcome::NeedsRestart(fixed),
        }
    }

    fn follow(&mut self, ratio: f64) {
        if let Some(traces) = &self.traces {
            traces.set_ratio(ratio);
        }
        self.config.trace.sample_ratio = ratio;
    }

    /// The change is said under the level that lets it be seen, if either does.
    fn log_as(&mut self, change: &Change, level: &str) {
        let is_seen = tracing::enabled!(tracing::Level::INFO);
        if is_seen {
            in_force(change);
        }
        self.log_level.set(level);
        if !is_seen {
            in_force(change);
        }
        self.config.log.level = level.to_owned();
    }

    /// Creates keyspaces that are new, and tunes the others. One that the ledger knows otherwise, or cannot be told
    /// of now, is left as it was; false if there is any.
    async fn want(&mut self, node: &Arc<Node>, changes: &[&Change], later: &Config) -> bool {
        let mut wanted = self.config.keyspaces.clone();
        wanted.retain(|name, _| later.keyspaces.contains_key(name));
        let known = self.config.wanted().unwrap_or_default();
        let mut all = true;
        for spec in later.wanted().unwrap_or_default() {
            let Wanted { name, stated, tuning } = &spec;
            let is_new = !known.iter().any(|known| known.name == *name && known.stated == *stated);
            let created =
                if is_new { node.create_keyspace(name, stated, tuning).await.map(drop) } else { Ok(()) };
            match created {
                Ok(()) => {
                    wanted.insert(name.to_string(), later.keyspaces[name.as_str()].clone());
                }
                Err(error) => {
                    all = false;
                    tracing::error!(
                        keyspace = %name, %error,
                        "keyspaces.{name} is left as it was: {error}; change the file, or send SIGHUP to try again"
                    );
                }
            }
        }
        self.config.keyspaces = wanted;
        node.want(self.config.wanted().unwrap_or_default()).await;
        let is_in_force = |change: &&&Change| {
            let name = change.setting[KEYSPACES.len()..].split('.').next().unwrap_or_default();
            self.config.keyspaces.get(name) == later.keyspaces.get(name)
        };
        changes.iter().filter(is_in_force).for_each(|change| in_force(change));
        all
    }
}

const LOG_LEVEL: &str = "log.level";
const SAMPLE_RATIO: &str = "trace.sample_ratio";

fn is_keyspace(change: &Change) -> bool {
    change.setting.starts_with(KEYSPACES)
}

fn may_change(change: &Change) -> bool {
    is_keyspace(change) || [LOG_LEVEL, SAMPLE_RATIO].contains(&change.setting.as_str())
}

fn in_force(change: &Change) {
    let Change { setting, from, to } = change;
    tracing::info!(setting, from, to, "{change}");
}

/// A file, by what is in it.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// What was in it when it was last read; `None` if it could not be.
    read: Option<[u8; 32]>,
    /// What was in it a look ago.
    seen: Option<[u8; 32]>,
}

impl Watched {
    fn new(path: &Path) -> Self {
        let now = content(path);
        Self { path: path.to_owned(), read: now, seen: now }
    }

    /// Once for each change, and not while it is being written: it must stay the same from one look to the next.
    fn has_changed(&mut self) -> bool {
        let now = content(&self.path);
        let is_settled = std::mem::replace(&mut self.seen, now) == now;
        if !is_settled || self.read == now {
            return false;
        }
        self.read = now;
        true
    }

    /// It is about to be read anyway.
    fn skip(&mut self) {
        self.read = content(&self.path);
        self.seen = self.read;
    }
}

fn content(path: &Path) -> Option<[u8; 32]> {
    config::read(path).ok().map(|text| Sha256::digest(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_changed_once_it_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k.toml");
        std::fs::write(&path, "a").unwrap();
        let mut file = Watched::new(&path);
        assert!(!file.has_changed());
        std::fs::write(&path, "b").unwrap();
        assert!(!file.has_changed(), "it may be half written");
        std::fs::write(&path, "bc").unwrap();
        assert!(!file.has_changed(), "and was");
        assert!(file.has_changed());
        assert!(!file.has_changed(), "once");
        std::fs::remove_file(&path).unwrap();
        assert!(!file.has_changed(), "between two names");
        std::fs::write(&path, "bc").unwrap();
        assert!(!file.has_changed() && !file.has_changed(), "it is the same again");
    }
}
