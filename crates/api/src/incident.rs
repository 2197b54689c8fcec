//! What the watcher found wrong.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/incidents`: open ones first, then the newest of those that are over. They are one node's, and
/// forgotten when it stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IncidentList {
    pub incidents: Vec<IncidentView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IncidentView {
    pub id: u64,
    /// `open` or `resolved`
    pub state: String,
    /// Absent where the ledger itself is in trouble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyspace: Option<String>,
    /// `low` `dry` `filler_stuck` `below_page_mark` `blind` `ledger_halted`
    #[schema(example = "below_page_mark")]
    pub kind: String,
    /// `warning`: something is being done about it; `critical`: a human has to.
    #[schema(example = "critical")]
    pub severity: String,
    pub summary: String,
    pub since: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<String>,
    /// Whether a sink took the page.
    pub notified: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notified_at: Option<String>,
    /// What sinks know it by.
    pub dedup_key: String,
}
