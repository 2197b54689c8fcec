//! What can go wrong with a ledger, told apart by what the caller does next.

use keymill_id::{KeyspaceName, Number};

use crate::{LedgerId, NodeName, Track, WorkerId};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Back off and retry: by promise 3 that is safe even if the call took effect.
    #[error("the {store} ledger did not answer `{operation}`: {source}")]
    Unavailable {
        store: &'static str,
        operation: &'static str,
        #[source]
        source: BoxError,
    },
    /// Burn the stock, report the witness, and wait for `keymill ledger advance`.
    #[error("the ledger is halted: {reason}")]
    Halted { reason: String },
    /// Stop: a newer process of the same name has taken over.
    #[error(
        "node `{node}` was started again elsewhere (epoch {newer}); this process is epoch {epoch} and must stop"
    )]
    Fenced { node: NodeName, epoch: u64, newer: u64 },
    /// Drop it: a later write of the same node has overtaken this message.
    #[error("a later write of node `{node}` overtook this one (beat {beat}, ledger at {ledger})")]
    Overtaken { node: NodeName, beat: u64, ledger: u64 },
    /// Nothing can ever refill this track.
    #[error("track `{track}` is used up at {ceiling}")]
    Exhausted { track: Track, ceiling: Number },
    /// Stop issuing and wake someone: the store broke promise 1 or 2.
    #[error("the {store} ledger contradicts itself: {detail}")]
    Corrupt { store: &'static str, detail: String },
    /// Stop the process: a write to the disk failed half way, and what is on it is no longer known.
    #[error("the {store} ledger's disk failed: {detail}; restart after checking the disk")]
    Broken { store: &'static str, detail: String },
    /// Check the configuration: this engine, as it is set up or addressed, cannot keep a ledger. `detail`
    /// says what was found and what to change.
    #[error("the {store} ledger cannot be used: {detail}")]
    Refused { store: &'static str, detail: String },
    /// Check the configuration: this data dir remembers another ledger.
    #[error("this node's witness belongs to ledger {remembered}, but the store holds ledger {found}")]
    ForeignLedger { remembered: LedgerId, found: LedgerId },
    /// Check the configuration: the ledger belongs to another region.
    #[error("the ledger belongs to region {kept}, but this node says region {stated}")]
    RegionConflict { kept: u16, stated: u16 },
    #[error("region {region} is in use by the ledger behind {at}; give this one another `ledger.region`")]
    RegionElsewhere { region: u16, at: String },
    #[error("keyspace `{keyspace}` is not in the ledger")]
    UnknownKeyspace { keyspace: KeyspaceName },
    #[error("keyspace `{root}` is the root already, and a ledger has one")]
    RootTaken { root: KeyspaceName },
    /// Choose another name: with another shuffle secret the old keys would come again.
    #[error("the ledger once held keyspace `{keyspace}` and lost its definition; choose another name")]
    LostKeyspace { keyspace: KeyspaceName },
    #[error("the ledger holds {limit} keyspaces already (retired ones count); raise limits.keyspaces")]
    TooManyKeyspaces { limit: u64 },
    /// Use an engine that holds more.
    #[error(
        "the {store} ledger holds {limit} holes already (names, route words, imported and drawn keys), \
         and no more; PostgreSQL, MariaDB and SQLite have no such limit"
    )]
    TooManyHoles { store: &'static str, limit: u64 },
    #[error("worker {worker} of `{keyspace}` is held by {holder}")]
    WorkerTaken { keyspace: KeyspaceName, worker: WorkerId, holder: String },
    #[error("all {capacity} workers of `{keyspace}` are in use or not yet free again")]
    NoWorker { keyspace: KeyspaceName, capacity: u32 },
    /// Lease again: someone else may hold the worker by now.
    #[error("the lease on worker {worker} of `{keyspace}` is lost")]
    LeaseLost { keyspace: KeyspaceName, worker: WorkerId },
    /// Wait, or name the nodes that are gone for good.
    #[error(
        "{} not reported since the halt: {}; start them, or name each with --without NODE --skip N",
        if nodes.len() == 1 { "one node has" } else { "these nodes have" },
        nodes.iter().map(NodeName::as_str).collect::<Vec<_>>().join(", ")
    )]
    AwaitingNodes { nodes: Vec<NodeName> },
    /// Nothing to advance: the ledger is not halted.
    #[error("the ledger is not halted; there is nothing to advance")]
    NotHalted,
    /// Use the engine's own tool.
    #[error(
        "the {store} ledger cannot do `{operation}`; use the engine's own tool, and `keymill ledger advance` \
         after a restore"
    )]
    Unsupported { store: &'static str, operation: &'static str },
    /// Another process has it open.
    #[error("{what} is in use by {by}; stop that process, or choose another with --data-dir")]
    InUse { what: String, by: String },
}

impl LedgerError {
    /// Whether the transaction that ended in this error is committed all the same: the mark that the
    /// ledger is halted must outlive the call that found the reason.
    pub fn commits(&self) -> bool {
        matches!(self, Self::Halted { .. })
    }

    /// Whether asking again later can help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Overtaken { .. })
    }
}
