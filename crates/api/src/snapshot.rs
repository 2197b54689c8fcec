//! What the dashboard and `keymill top` are told every second.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{HealthLedger, IncidentView, Reason, WorkerView};

/// `GET /v1/stream`: the data of an event `snapshot`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    pub time: String,
    pub node: String,
    pub version: String,
    pub ledger: HealthLedger,
    /// Why the node does not serve keys, if it does not.
    pub reasons: Vec<Reason>,
    pub keyspaces: Vec<KeyspaceGlance>,
    pub nodes: Vec<NodeGlance>,
    pub workers: Vec<WorkerMap>,
    /// Those that are not over.
    pub incidents: Vec<IncidentView>,
    /// Requests that this process refused, by code.
    pub refusals: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyspaceGlance {
    pub name: String,
    pub scheme: String,
    /// `active` or `retired`
    pub state: String,
    /// What is left; null where it was not measured, absent where nothing is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    pub stock: String,
    /// Keys a second over all nodes.
    pub rate: f64,
    pub runway_seconds: Option<f64>,
    /// `restart_below` and `page_below`, in keys at this rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_keys: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_keys: Option<f64>,
    /// Whether the watcher has an open incident of it.
    pub below: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeGlance {
    pub name: String,
    /// `live`; `silent` when it was not heard from for ten seconds; `stopped` after a clean stop.
    pub state: String,
    pub last_seen: String,
    pub version: String,
    pub address: String,
    /// Over all keyspaces; 0 for callers who may not see them all.
    pub stock: String,
    pub rate: f64,
}

/// The workers of one keyspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerMap {
    pub keyspace: String,
    pub capacity: u32,
    /// How far the windows of this node reach ahead; null while it holds none.
    pub window_seconds: Option<f64>,
    /// How far the clock is behind what was made already; 0 is well.
    pub clock_behind_ms: u64,
    pub workers: Vec<WorkerView>,
}
