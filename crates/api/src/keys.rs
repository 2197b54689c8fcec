//! Taking keys, and asking what became of one.

use keymill_issuer::{Inspection, KeyState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Code, LinkView, Refusal, rfc3339};

/// `POST /v1/keyspaces/{ks}/keys`
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeRequest {
    /// How many keys, 1 unless said otherwise.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000, example = 3)]
    pub count: Option<serde_json::Number>,
}

impl TakeRequest {
    /// The count, if it is a whole number from 1 to `max`.
    pub fn count(&self, max: u32) -> Result<u32, Refusal> {
        let Some(number) = &self.count else { return Ok(1) };
        let out_of_range = || {
            let detail =
                format!("`count` must be from 1 to {max}, and is {number}; ask several times for more");
            Refusal::field(Code::CountOutOfRange, "count", detail)
        };
        if number.is_f64() {
            let detail = format!("`count` must be a whole number, and is {number}");
            return Err(Refusal::field(Code::InvalidField, "count", detail));
        }
        let count = number.as_u64().and_then(|count| u32::try_from(count).ok());
        count.filter(|count| (1..=max).contains(count)).ok_or_else(out_of_range)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakeAnswer {
    #[schema(example = "links")]
    pub keyspace: String,
    /// Exactly as many as asked for. Strings, because JavaScript rounds numbers above 2^53.
    #[schema(example = json!(["aZ3k9Qp"]))]
    pub keys: Vec<String>,
}

/// `GET /v1/keyspaces/{ks}/keys/{key}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    pub keyspace: String,
    pub key: String,
    /// What the ledger counts (for a time-ordered ID its tick); a string, because it may exceed 2^53.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    #[schema(value_type = String, example = "issued")]
    pub state: KeyState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_before: Option<String>,
    /// What a time-ordered ID says by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<IdView>,
    /// Where it leads, if it was bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkView>,
    /// What refers to it: legacy IDs, content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdView {
    pub time: String,
    pub region: u32,
    pub worker: u32,
    pub sequence: u64,
}

impl KeyView {
    pub fn new(keyspace: &str, key: &str, found: &Inspection) -> Self {
        Self {
            keyspace: keyspace.to_owned(),
            key: key.to_owned(),
            number: found.number.map(|number| number.to_string()),
            state: found.state,
            node: found.node.as_ref().map(ToString::to_string),
            reserved_at: found.reserved_at.map(rfc3339),
            issued_after: found.issued_after.map(rfc3339),
            issued_before: found.issued_before.map(rfc3339),
            id: found.id.map(|id| IdView {
                time: rfc3339(id.time),
                region: id.region,
                worker: id.worker,
                sequence: id.sequence,
            }),
            link: None,
            refs: Vec::new(),
        }
    }
}
