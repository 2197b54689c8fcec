//! Pools as rows: how they fare, filling them, and bringing in keys that were made elsewhere.

use keymill_issuer::rowed::{DrawGlance, FillGlance, Imported};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Keys of one import.
pub const IMPORT_KEYS_MAX: usize = 10_000;

/// How the rows of a pool fare, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowsView {
    /// Keys this node pushed since it was started.
    pub pushed: String,
    /// How often this node found that the store may have forgotten something, and began anew.
    pub begun_anew: u64,
    /// Every number of the space was pushed; only imports can add rows.
    pub used_up: bool,
    /// Why the pool is not filled, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl From<FillGlance> for RowsView {
    fn from(glance: FillGlance) -> Self {
        let FillGlance { pushed, begun_anew, used_up, trouble, .. } = glance;
        Self { pushed: pushed.to_string(), begun_anew, used_up, trouble }
    }
}

/// What random draws cost this node since it was started, next to what they should.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RandomView {
    pub draws: u64,
    /// Draws of numbers that were taken.
    pub collisions: u64,
    /// Draws a key; null before the first.
    pub observed_attempts: Option<f64>,
    /// 1 / (1 − fill); null once nothing is left.
    pub predicted_attempts: Option<f64>,
}

impl From<DrawGlance> for RandomView {
    fn from(glance: DrawGlance) -> Self {
        let DrawGlance { draws, collisions, observed_attempts, predicted_attempts } = glance;
        let rounded = |attempts: f64| (attempts * 1000.0).round() / 1000.0;
        Self {
            draws,
            collisions,
            observed_attempts: observed_attempts.map(rounded),
            predicted_attempts: predicted_attempts.map(rounded),
        }
    }
}

/// `POST /v1/keyspaces/{ks}/fill`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FillRequest {
    /// Rows there shall be; as many as `capacity` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// How far a fill is. The call answers within a second and may be repeated: it adds nothing twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FillAnswer {
    pub keyspace: String,
    /// Rows there are; null if they could not be counted yet.
    pub level: Option<String>,
    /// Rows there shall be.
    pub target: String,
    /// There are that many, or the space is used up.
    pub done: bool,
    /// Every number of the space was pushed.
    pub used_up: bool,
    /// Why it does not go on, if it does not; it is tried again all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// `POST /v1/keyspaces/{ks}/import`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// At most 10 000.
    pub keys: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportAnswer {
    pub keyspace: String,
    /// In the order of the keys.
    pub outcomes: Vec<ImportOutcome>,
}

/// What became of one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportOutcome {
    /// `added`; `known`: it was imported before; `taken`: the keyspace issued or granted it; `invalid`.
    pub outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl From<Imported> for ImportOutcome {
    fn from(imported: Imported) -> Self {
        let (outcome, detail) = match imported {
            Imported::Added => ("added", None),
            Imported::Known => ("known", Some("it was imported before".to_owned())),
            Imported::Taken(why) => ("taken", Some(why.to_owned())),
            Imported::Invalid(why) => ("invalid", Some(why)),
        };
        Self { outcome: outcome.to_owned(), detail }
    }
}
