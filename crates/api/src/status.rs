//! Health and readiness: whether the process lives, and whether it is of use.

use keymill_ledger::Grade;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Code;

/// `GET /healthz`: the process lives. It claims nothing that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    pub status: String,
    pub version: String,
    pub node: String,
    pub ledger: HealthLedger,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthLedger {
    /// Tells it from other ledgers; absent until the node has joined it, as is the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whose time-ordered IDs these are, where that was ever said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<u16>,
    pub store: String,
    #[schema(value_type = String, example = "strict")]
    pub grade: Grade,
    /// `ok`, `halted` or `unreachable`, as of the last write that was tried: heartbeats are, all the time.
    pub state: String,
    /// When the ledger last answered a write; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
}

/// `GET /readyz`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    pub ready: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    pub code: Code,
    pub detail: String,
}
