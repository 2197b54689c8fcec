//! The ledger, its nodes and its claims, for people.

use keymill_ledger::{ClaimRow, ClaimState, Grade, LeaseRow, NodeRow, Timestamp, ops};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::rfc3339;

/// `GET /v1/ledger`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerView {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub store: String,
    #[schema(value_type = String, example = "strict")]
    pub grade: Grade,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
    /// `ok`, `halted` or `unreachable`
    pub state: String,
    /// Why it is halted or cannot be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<u16>,
    pub tracks: Vec<TrackView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrackView {
    pub track: String,
    pub cursor: String,
    pub revision: u64,
}

/// `POST /v1/ledger/advance`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdvanceRequest {
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Nodes that are gone for good and cannot say what they held.
    #[serde(default)]
    pub without: Vec<GoneNode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GoneNode {
    pub node: String,
    /// How many numbers to skip on every track for what it may have issued.
    pub skip: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdvanceAnswer {
    pub advanced: Vec<AdvancedView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdvancedView {
    pub track: String,
    pub from: String,
    pub to: String,
}

impl From<ops::Advanced> for AdvancedView {
    fn from(ops::Advanced { track, from, to }: ops::Advanced) -> Self {
        Self { track: track.to_string(), from: from.to_string(), to: to.to_string() }
    }
}

/// `GET /v1/nodes`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    pub nodes: Vec<NodeView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    pub name: String,
    /// How often it was started.
    pub epoch: u64,
    /// `live`, or `stopped` after a clean stop.
    pub state: String,
    pub started_at: String,
    pub last_seen: String,
    pub version: String,
    pub address: String,
    pub keyspaces: Vec<NodeKeyspaceView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeKeyspaceView {
    pub keyspace: String,
    pub stock: String,
    pub rate: f64,
}

impl From<NodeRow> for NodeView {
    fn from(row: NodeRow) -> Self {
        let keyspaces = row.report.keyspaces.iter().map(|report| NodeKeyspaceView {
            keyspace: report.keyspace.to_string(),
            stock: report.stock.to_string(),
            rate: report.rate,
        });
        Self {
            name: row.name.to_string(),
            epoch: row.epoch,
            state: if row.stopped { "stopped" } else { "live" }.to_owned(),
            started_at: rfc3339(row.started_at),
            last_seen: rfc3339(row.last_seen),
            keyspaces: keyspaces.collect(),
            version: row.report.version,
            address: row.report.address,
        }
    }
}

/// `GET /v1/workers?keyspace=`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerList {
    pub workers: Vec<WorkerView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerView {
    pub keyspace: String,
    pub worker: u16,
    pub holder: String,
    /// `live`, `expired` or `released`
    pub state: String,
    /// How often it changed hands.
    pub term: u64,
    pub expires_at: String,
}

impl WorkerView {
    pub fn new(row: LeaseRow, now: Timestamp) -> Self {
        let state = match (row.released, row.is_live(now)) {
            (true, _) => "released",
            (false, true) => "live",
            (false, false) => "expired",
        };
        Self {
            keyspace: row.keyspace.to_string(),
            worker: row.worker.0,
            state: state.to_owned(),
            term: row.term,
            expires_at: rfc3339(row.expires_at),
            holder: row.holder,
        }
    }
}

/// `GET /v1/claims?keyspace=`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimList {
    pub claims: Vec<ClaimView>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimView {
    pub track: String,
    pub start: String,
    pub end: String,
    pub node: String,
    pub epoch: u64,
    pub reserved_at: String,
    pub issued_up_to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_issued_at: Option<String>,
    /// `open`, `settled` once it was issued to its end or its node stopped cleanly, `lost` after a crash.
    #[schema(value_type = String, example = "open")]
    pub state: ClaimState,
}

/// `GET /v1/keyspaces/{ks}/issued`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IssuedList {
    pub issued: Vec<IssuedView>,
    pub next_cursor: Option<String>,
}

/// A key that was written down before it left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IssuedView {
    pub key: String,
    pub node: String,
    pub issued_at: String,
}

impl From<ClaimRow> for ClaimView {
    fn from(row: ClaimRow) -> Self {
        Self {
            track: row.track.to_string(),
            start: row.start.to_string(),
            end: row.end.to_string(),
            node: row.node.to_string(),
            epoch: row.epoch,
            reserved_at: rfc3339(row.reserved_at),
            issued_up_to: row.issued_up_to.to_string(),
            last_issued_at: row.last_issued_at.map(rfc3339),
            // Of what was issued to its end, nothing is left to be known.
            state: if row.issued_up_to >= row.end { ClaimState::Settled } else { row.state },
        }
    }
}
