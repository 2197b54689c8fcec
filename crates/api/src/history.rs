//! Where a level stood.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/keyspaces/{ks}/history`: a point for each look of this node's watcher, the oldest first. It is forgotten
/// when the node stops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LevelHistory {
    pub keyspace: String,
    /// How often the watcher looks (`watch.interval`).
    pub interval_seconds: f64,
    pub points: Vec<LevelPoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LevelPoint {
    pub time: String,
    pub level: String,
    /// Keys a second; absent while it was not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}
