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

/// `GET /readyz`: whether the node serves keys, and what it looked at to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    pub ready: bool,
    /// Why it does not; absent if it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    pub code: Code,
    pub detail: String,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// `node`, `ledger`, `stock`, `clock` or `configuration`.
    #[schema(example = "ledger")]
    pub check: String,
    pub state: CheckState,
    /// What was seen, if it is not as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    Ok,
    /// Keys are served all the same.
    Warning,
    /// No keys are served because of it.
    Failed,
}
