//! Keyspaces: what one says to create them, and what is told of them.

use keymill_id::{KeyspaceName, Stated};
use keymill_issuer::tuning::Tuning;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    Code, Refusal,
    body::from_object,
    rows::{RandomView, RowsView},
};

/// Tuning that this version carries out.
const TUNING: &[&str] = Tuning::NAMES;

const NODE_ONLY: &str = "`worker` is one node's own; set it in that node's config";

pub fn tuning_names() -> &'static [&'static str] {
    TUNING
}

/// A keyspace as a request, a config section or flags state it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyspaceSpec {
    pub name: KeyspaceName,
    pub stated: Stated,
    pub tuning: Tuning,
}

impl KeyspaceSpec {
    /// From an object with `name` in it: the body of `POST /v1/keyspaces`.
    pub fn from_body(mut fields: Map<String, Value>) -> Result<Self, Refusal> {
        if fields.contains_key("worker") {
            return Err(Refusal::field(Code::InvalidField, "worker", NODE_ONLY));
        }
        let name = match fields.remove("name") {
            Some(Value::String(name)) => name,
            Some(_) => return Err(Refusal::field(Code::InvalidField, "name", "`name` must be a string")),
            None => return Err(Refusal::field(Code::InvalidField, "name", "`name` is missing")),
        };
        Self::from_fields(&name, fields)
    }

    /// From a name and the fields beside it: a config's `[keyspaces.NAME]`.
    pub fn from_fields(name: &str, fields: Map<String, Value>) -> Result<Self, Refusal> {
        let name = KeyspaceName::parse(name)
            .map_err(|error| Refusal::field(Code::InvalidField, "name", error.to_string()))?;
        let (mut frozen, mut tuning) = (Map::new(), Map::new());
        for (field, value) in fields {
            if TUNING.contains(&field.as_str()) {
                tuning.insert(field, value);
            } else if Stated::field_names().any(|known| known == field) {
                frozen.insert(field, value);
            } else {
                let detail = format!("`{}` is not a field of a keyspace", field.escape_debug());
                return Err(Refusal::field(Code::InvalidField, &field, detail));
            }
        }
        Ok(Self { name, stated: from_object(frozen)?, tuning: tuning_from(tuning)? })
    }
}

/// Reads tuning alone: the body of `PATCH`. `null` means: back to the default.
pub(crate) fn tuning_from(fields: Map<String, Value>) -> Result<Tuning, Refusal> {
    let tuning: Tuning = from_object(fields)?;
    match tuning.contradiction() {
        Some((field, message)) => Err(Refusal::field(Code::InvalidField, field, message)),
        None => Ok(tuning),
    }
}

/// Checks the body of a `PATCH` and returns it for the ledger to keep.
pub fn tuning_patch(fields: Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    for field in fields.keys() {
        if Stated::field_names().any(|known| known == field) {
            let detail = format!("`{field}` is frozen; it was settled when the keyspace was created");
            return Err(Refusal::field(Code::InvalidField, field, detail));
        }
        if field == "worker" {
            return Err(Refusal::field(Code::InvalidField, field, NODE_ONLY));
        }
        if !TUNING.contains(&field.as_str()) {
            let detail = format!("`{}` is not tuning; there is {}", field.escape_debug(), TUNING.join(", "));
            return Err(Refusal::field(Code::InvalidField, field, detail));
        }
    }
    let stated = fields.clone().into_iter().filter(|(_, value)| !value.is_null()).collect();
    tuning_from(stated)?;
    Ok(fields)
}

/// What `POST /v1/keyspaces` takes, for the OpenAPI document. The server reads [`KeyspaceSpec`].
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NewKeyspace)]
pub struct KeyspaceFields {
    #[schema(example = "promo", pattern = "^[a-z0-9][a-z0-9_-]{0,62}$")]
    pub name: String,
    #[schema(value_type = String, example = "pool")]
    pub scheme: String,
    /// `true` in at most one keyspace: it answers `GET /{key}`.
    pub root: Option<bool>,
    /// `base62` `base58` `base56` `base36` `crockford32` `base64url` `decimal` or `custom:SYMBOLS`.
    #[schema(example = "base36")]
    pub alphabet: Option<String>,
    /// Symbols without prefix and check character.
    #[schema(example = 8)]
    pub length: Option<u32>,
    /// `shuffled` or `sequential`.
    pub order: Option<String>,
    /// At most 16 of A-Z a-z 0-9 _ -.
    pub prefix: Option<String>,
    /// Appends one ISO 7064 MOD N+1,N symbol.
    pub check: Option<bool>,
    /// A list of words, or `"default"`.
    #[schema(value_type = Option<Value>)]
    pub blocklist: Option<Value>,
    /// When every key of this length is used, the next length follows.
    pub grow: Option<bool>,
    /// Where a pool's keys lie: `virtual` (spelled when needed), `table` or `redis`.
    pub store: Option<String>,
    /// What the tables of a `table` pool begin with.
    pub table_prefix: Option<String>,
    /// The key of a `redis` pool; the keyspace's name unless said.
    pub redis_key: Option<String>,
    /// `list` or `set`.
    pub redis_type: Option<String>,
    /// What spells a digest's keys: `sha256` `md5` `blake3`.
    pub hash: Option<String>,
    /// What is hashed before the content.
    pub salt: Option<String>,
    /// Whether equal content has one key: `global` `owner` `never`.
    pub dedupe: Option<String>,
    /// What counts as equal: `url` `url_decoded` `none`.
    pub canonical: Option<String>,
    /// The first ticket of a sequence.
    #[schema(value_type = Option<Value>, example = "1")]
    pub offset: Option<Value>,
    /// The distance between tickets.
    #[schema(value_type = Option<Value>, example = "1")]
    pub step: Option<Value>,
    /// `default` `twitter` `sonyflake` `js53` `regional`, or fields: `time:41 region:4 worker:6 sequence:12`.
    pub layout: Option<String>,
    /// How long a tick lasts: `1ms`.
    pub tick: Option<String>,
    /// Where time starts: `2026-01-01T00:00:00Z`.
    pub epoch: Option<String>,
    pub region: Option<u32>,
    /// How long the stock lasts without the ledger.
    #[schema(example = "60s")]
    pub outage_budget: Option<String>,
    /// The least a node holds: a number, or `"20M"`.
    #[schema(value_type = Option<Value>, example = 1024)]
    pub stock_min: Option<Value>,
    /// The most a node holds.
    #[schema(value_type = Option<Value>, example = "100M")]
    pub stock_max: Option<Value>,
    /// Worker ids a node holds at a time.
    pub workers: Option<u16>,
    /// `wait` `logical` `fail`
    pub on_rollback: Option<String>,
    pub rollback_wait: Option<String>,
    /// `wait` `borrow`
    pub on_overflow: Option<String>,
    pub sequence_start: Option<u32>,
    pub lease_ttl: Option<String>,
    pub recycle_delay: Option<String>,
    pub forward_max: Option<String>,
    /// Keys a second that each node lets out: a number, or `"20K"`.
    #[schema(value_type = Option<Value>, example = 5000)]
    pub rate_limit: Option<Value>,
    /// When a pool of rows is empty: `wait` `refuse` `random`.
    pub on_empty: Option<String>,
    /// How many keys the filler keeps in a pool of rows.
    #[schema(value_type = Option<Value>, example = "1M")]
    pub capacity: Option<Value>,
    /// The Redis of a `redis` pool. Shown without its password.
    pub redis_url: Option<String>,
    /// Below this level the filler is started anew: keys (`"20M"`) or time (`"2h"`).
    #[schema(value_type = Option<Value>, example = "20M")]
    pub restart_below: Option<Value>,
    /// Below this level a human is told.
    #[schema(value_type = Option<Value>, example = "2h")]
    pub page_below: Option<Value>,
    /// The longest name that people may choose, up to 64.
    pub alias_length_max: Option<u8>,
    /// Refuse names that look like one that is there.
    pub confusable_guard: Option<bool>,
    /// How links answer: 301, 302, 307 or 308.
    pub redirect: Option<u16>,
    /// Where those go who ask for a link that is not there.
    pub not_found_url: Option<String>,
    /// How long links last unless their maker says.
    #[schema(example = "30d")]
    pub expires_in: Option<String>,
    /// Refuse links into private networks.
    pub deny_private_targets: Option<bool>,
}

/// `GET /v1/keyspaces/{ks}`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyspaceView {
    pub name: String,
    pub scheme: String,
    /// `active` or `retired`
    pub state: String,
    /// What was settled when it was created, the shuffle secret left out.
    #[schema(value_type = Object)]
    pub definition: Value,
    pub fingerprint: String,
    /// What may change, with the defaults filled in.
    #[schema(value_type = Object)]
    pub tuning: Value,
    pub created_at: String,
    /// Keys the space can spell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Numbers never reserved, plus this node's stock; of time-ordered IDs what is left of their time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Numbers in this node's memory.
    pub stock: String,
    /// Keys a second over all nodes, by their last heartbeat.
    pub rate: f64,
    /// How long the level lasts at this rate; null when nobody takes keys.
    pub runway_seconds: Option<f64>,
    pub exhausted_at: Option<String>,
    /// How the rows of a row pool fare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowsView>,
    /// What random draws cost, where `on_empty` is `random`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomView>,
    pub claims: ClaimsSummary,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimsSummary {
    pub count: u64,
    pub reserved: String,
    pub issued: String,
    pub burned: String,
    pub holes: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyspaceList {
    pub keyspaces: Vec<KeyspaceView>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}
