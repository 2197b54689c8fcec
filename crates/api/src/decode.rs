//! What an ID says by itself, and which IDs belong to a time.

use keymill_id::{Kind, Reading};
use keymill_ledger::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::rfc3339;

/// `GET /v1/decode/{id}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecodeAnswer {
    pub id: String,
    /// Likeliest first.
    pub readings: Vec<ReadingView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadingView {
    /// `snowflake`, `uuid` or `ulid`
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// The layout spelled out, from the top bit down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "time:41 worker:10 sequence:12")]
    pub fields: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_safe: Option<bool>,
}

impl From<Reading> for ReadingView {
    fn from(reading: Reading) -> Self {
        let kind = match reading.kind {
            Kind::Snowflake => "snowflake",
            Kind::Uuid => "uuid",
            Kind::Ulid => "ulid",
        };
        Self {
            kind: kind.to_owned(),
            layout: reading.layout,
            fields: reading.fields,
            version: reading.version,
            time: reading.time_ms.map(|time| rfc3339(Timestamp(time))),
            region: reading.region,
            worker: reading.worker,
            sequence: reading.sequence,
            signed_safe: reading.signed_safe,
        }
    }
}

/// `GET …/range?from=&to=` and `GET /v1/decode?at=`: every ID of `from ≤ time < to` lies in `first..=last`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RangeAnswer {
    pub from: String,
    pub to: String,
    pub first: String,
    pub last: String,
}
