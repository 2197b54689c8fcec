//! What a ledger holds, row by row, and the one view of it that an operation gets.
//!
//! Every store offers the same rows; what is done with them is written once, in `ops`. A store is
//! therefore a file that can read and write these rows in one transaction, and nothing more.

use std::{fmt, future::Future};

use keymill_id::{Block, KeyspaceName, Number};
use serde::{Deserialize, Serialize};

use crate::{LedgerError, LedgerId, NodeName, Timestamp, Track, WorkerId};

/// The ledger itself: who it is and whether it may be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub id: LedgerId,
    pub created_at: Timestamp,
    /// The engine this ledger was last written on. Another one means a failover or a restored copy.
    pub incarnation: String,
    /// Set once something contradicted what a node remembers. Only `advance` takes it away.
    pub halted: Option<Halt>,
    /// How often the ledger was advanced after a halt.
    pub advances: u64,
    /// The first region a node named; kept for ever.
    pub region: Option<u16>,
    /// Raised by every change of a keyspace or a token, so that a heartbeat tells who must look again.
    pub changes: u64,
    /// The keyspace that answers `GET /{key}`.
    pub root: Option<KeyspaceName>,
    /// Keyspaces ever created; retired ones stay.
    pub keyspaces: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    pub reason: String,
    pub since: Timestamp,
}

/// A node, as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRow {
    pub name: NodeName,
    /// Raised at each start: a newer process of the same name fences the older.
    pub epoch: u64,
    /// A counter that only this node raises, with each write.
    pub beat: u64,
    pub started_at: Timestamp,
    pub last_seen: Timestamp,
    /// It stopped cleanly and holds nothing.
    pub stopped: bool,
    /// What it last said of itself.
    pub report: NodeReport,
}

/// What a node says of itself with each heartbeat. For people: nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeReport {
    pub version: String,
    /// Where its HTTP front end answers.
    pub address: String,
    pub keyspaces: Vec<KeyspaceReport>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyspaceReport {
    pub keyspace: KeyspaceName,
    pub stock: u64,
    /// Keys a second.
    pub rate: f64,
}

/// A durable cursor, its revision, and sums kept so that nobody has to add up claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TrackRow {
    /// Every number below was reserved, skipped or given away; none at or above ever was.
    pub cursor: Number,
    /// Raised by every change, so that a late give-back finds it moved.
    pub revision: u64,
    pub claims: u64,
    pub reserved: u64,
    pub issued: u64,
    pub burned: u64,
    pub holes: u64,
}

/// Why a number is withheld from its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoleKind {
    /// A name someone chose; the registry's insert grants it.
    Alias,
    /// A word that is a route of the server.
    Route,
    /// A key that was made elsewhere and became a row of the pool.
    Import,
    /// A key that was in use before the keyspace was.
    Used,
    /// A key drawn at random while a row pool was dry.
    Drawn,
    /// A name that an advance found below the cursor: the pool may have issued it in the part that was
    /// lost, so nobody is granted it any more. Whoever has it keeps it.
    Spent,
}

/// Who holds which numbers since when, and how far they are known to have left the house.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRow {
    pub track: Track,
    pub start: Number,
    pub end: Number,
    pub node: NodeName,
    pub epoch: u64,
    pub reserved_at: Timestamp,
    /// Every number of the claim below this one was issued or burned. For people only: nothing is
    /// reserved, resumed or given back from it.
    pub issued_up_to: Number,
    pub last_issued_at: Option<Timestamp>,
    pub state: ClaimState,
    /// What a clean stop left over and could not give back; exact once the claim is settled.
    pub unissued: Vec<Block>,
}

/// How a claim ended, if it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimState {
    /// Its node holds it.
    Open,
    /// Its node stopped cleanly and told what was left.
    Settled,
    /// Its node died; nobody knows what left after `issued_up_to`.
    Lost,
}

impl fmt::Display for ClaimState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Settled => "settled",
            Self::Lost => "lost",
        })
    }
}

/// A keyspace as it was created, and what may change about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyspaceRow {
    pub name: KeyspaceName,
    /// The frozen definition as it is stored: JSON, the shuffle secret included.
    pub definition: String,
    pub fingerprint: String,
    pub tuning: serde_json::Map<String, serde_json::Value>,
    pub retired: bool,
    pub created_at: Timestamp,
}

/// A hold on a worker id. It keeps ids tidy and says who is alive; uniqueness rests on windows alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRow {
    pub keyspace: KeyspaceName,
    pub worker: WorkerId,
    pub holder: String,
    /// Raised by each new holder: a lease is renewed only by the one who has the number.
    pub term: u64,
    pub expires_at: Timestamp,
    pub released: bool,
}

/// An API token; the ledger keeps it and reads only the id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    pub id: String,
    pub body: serde_json::Value,
}

/// What a node remembers outside the ledger, written into it once the ledger was found to have gone back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WitnessRow {
    pub epoch: u64,
    pub beat: u64,
    /// The highest end of a block it was granted, per track.
    pub ends: Vec<(Track, Number)>,
    pub holes: Vec<(Track, Number, HoleKind)>,
}

/// One transaction's view of the rows.
///
/// A store promises: `head`, `node` and `track` lock their row until the transaction ends (or the
/// transaction fails if someone else changed it); rows read *after* a track was read include whatever
/// was committed before that lock was had; a row read after it was written here is as it was written;
/// all writes appear together, or not at all, and are durable before the transaction is said to have
/// succeeded.
pub trait Rows: Send {
    /// The engine's own identity, as far as it can be told: it changes on failover and restore.
    fn incarnation(&mut self) -> impl Future<Output = Result<String, LedgerError>> + Send;
    /// The clock that leases are judged by: the engine's where it has one, else `host`.
    fn clock(&mut self, host: Timestamp) -> impl Future<Output = Result<Timestamp, LedgerError>> + Send;

    fn head(&mut self) -> impl Future<Output = Result<Head, LedgerError>> + Send;
    fn put_head(&mut self, row: &Head) -> impl Future<Output = Result<(), LedgerError>> + Send;

    fn node(&mut self, name: &NodeName) -> impl Future<Output = Result<Option<NodeRow>, LedgerError>> + Send;
    fn put_node(&mut self, row: &NodeRow) -> impl Future<Output = Result<(), LedgerError>> + Send;
    fn nodes(&mut self) -> impl Future<Output = Result<Vec<NodeRow>, LedgerError>> + Send;

    fn track(&mut self, track: &Track) -> impl Future<Output = Result<Option<TrackRow>, LedgerError>> + Send;
    fn put_track(
        &mut self,
        track: &Track,
        row: &TrackRow,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;
    fn tracks(&mut self) -> impl Future<Output = Result<Vec<(Track, TrackRow)>, LedgerError>> + Send;

    fn hole(
        &mut self,
        track: &Track,
        number: Number,
    ) -> impl Future<Output = Result<Option<HoleKind>, LedgerError>> + Send;
    /// The holes inside `block`, in order.
    fn holes(
        &mut self,
        track: &Track,
        block: Block,
    ) -> impl Future<Output = Result<Vec<Number>, LedgerError>> + Send;
    /// Written under (track, number); a kind that stands there is replaced.
    fn put_hole(
        &mut self,
        track: &Track,
        number: Number,
        kind: HoleKind,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// The claim that starts highest, at or below `number`.
    fn claim_at(
        &mut self,
        track: &Track,
        number: Number,
    ) -> impl Future<Output = Result<Option<ClaimRow>, LedgerError>> + Send;
    /// Claims from the newest numbers down, starting below `before`.
    fn claims(
        &mut self,
        track: &Track,
        before: Option<Number>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<ClaimRow>, LedgerError>> + Send;
    /// Open claims of `node` whose numbers are not all known to have left.
    fn open_claims(
        &mut self,
        node: &NodeName,
    ) -> impl Future<Output = Result<Vec<ClaimRow>, LedgerError>> + Send;
    /// Written under (track, start); a row that stands there is replaced.
    fn put_claim(&mut self, row: &ClaimRow) -> impl Future<Output = Result<(), LedgerError>> + Send;
    fn remove_claim(
        &mut self,
        track: &Track,
        start: Number,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;

    fn keyspace(
        &mut self,
        name: &KeyspaceName,
    ) -> impl Future<Output = Result<Option<KeyspaceRow>, LedgerError>> + Send;
    fn put_keyspace(&mut self, row: &KeyspaceRow) -> impl Future<Output = Result<(), LedgerError>> + Send;
    fn keyspaces(&mut self) -> impl Future<Output = Result<Vec<KeyspaceRow>, LedgerError>> + Send;

    fn leases(
        &mut self,
        keyspace: &KeyspaceName,
    ) -> impl Future<Output = Result<Vec<LeaseRow>, LedgerError>> + Send;
    /// Every unreleased lease of a holder, in any keyspace.
    fn leases_of(&mut self, holder: &str) -> impl Future<Output = Result<Vec<LeaseRow>, LedgerError>> + Send;
    fn lease(
        &mut self,
        keyspace: &KeyspaceName,
        worker: WorkerId,
    ) -> impl Future<Output = Result<Option<LeaseRow>, LedgerError>> + Send;
    fn put_lease(&mut self, row: &LeaseRow) -> impl Future<Output = Result<(), LedgerError>> + Send;

    fn tokens(&mut self) -> impl Future<Output = Result<Vec<TokenRow>, LedgerError>> + Send;
    fn put_token(&mut self, row: &TokenRow) -> impl Future<Output = Result<(), LedgerError>> + Send;
    fn remove_token(&mut self, id: &str) -> impl Future<Output = Result<bool, LedgerError>> + Send;

    fn witnesses(&mut self) -> impl Future<Output = Result<Vec<(NodeName, WitnessRow)>, LedgerError>> + Send;
    fn put_witness(
        &mut self,
        node: &NodeName,
        row: &WitnessRow,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;
    fn clear_witnesses(&mut self) -> impl Future<Output = Result<(), LedgerError>> + Send;
}
