//! Who writes in a ledger and what they write on.

use std::{fmt, str::FromStr, sync::Arc};

use keymill_id::KeyspaceName;
use serde::{Deserialize, Serialize};

/// The longest node name, in characters: a DNS label, so that a hostname fits.
pub const NODE_NAME_MAX: usize = 63;

/// A node: one process that reserves numbers. Two processes of one name fence each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a node name: 1 to {NODE_NAME_MAX} of A-Z a-z 0-9 . _ -, starting with a letter or digit",
    .0.escape_debug()
)]
pub struct NodeNameError(String);

impl NodeName {
    pub fn parse(text: &str) -> Result<Self, NodeNameError> {
        let symbol = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let valid = text.len() <= NODE_NAME_MAX
            && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
            && text.bytes().all(symbol);
        if valid { Ok(Self(text.into())) } else { Err(NodeNameError(text.to_owned())) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = NodeNameError;
    fn from_str(text: &str) -> Result<Self, NodeNameError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for NodeName {
    type Error = NodeNameError;
    fn try_from(text: String) -> Result<Self, NodeNameError> {
        Self::parse(&text)
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Which worker made an ID. Leased from the ledger, never derived from an IP, a hostname or a pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub u16);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A durable cursor's name: `links` for a keyspace that counts, `events/17` for a worker that counts ticks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Track {
    pub keyspace: KeyspaceName,
    pub worker: Option<WorkerId>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a track: KEYSPACE or KEYSPACE/WORKER", .0.escape_debug())]
pub struct TrackError(String);

impl Track {
    pub fn of(keyspace: KeyspaceName) -> Self {
        Self { keyspace, worker: None }
    }

    pub fn of_worker(keyspace: KeyspaceName, worker: WorkerId) -> Self {
        Self { keyspace, worker: Some(worker) }
    }
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.worker {
            None => self.keyspace.fmt(f),
            Some(worker) => write!(f, "{}/{worker}", self.keyspace),
        }
    }
}

impl FromStr for Track {
    type Err = TrackError;
    fn from_str(text: &str) -> Result<Self, TrackError> {
        let wrong = || TrackError(text.to_owned());
        let (keyspace, worker) = match text.split_once('/') {
            None => (text, None),
            Some((keyspace, worker)) => (keyspace, Some(WorkerId(worker.parse().map_err(|_| wrong())?))),
        };
        Ok(Self { keyspace: KeyspaceName::parse(keyspace).map_err(|_| wrong())?, worker })
    }
}

impl TryFrom<String> for Track {
    type Error = TrackError;
    fn try_from(text: String) -> Result<Self, TrackError> {
        text.parse()
    }
}

impl From<Track> for String {
    fn from(track: Track) -> Self {
        track.to_string()
    }
}

/// What makes this ledger this one and no other: random, made once, kept in every witness.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LedgerId(pub String);

impl fmt::Display for LedgerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z. Always passed in: nothing in this crate reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to here; none if the clock went back.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
