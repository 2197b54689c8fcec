//! What `keymill keyspace create` and `tune` take: the fields of the API, as flags. They are sent as they are, so
//! that the server alone says what they may be.

use clap::Args;
use serde::{Serialize, Serializer};

#[derive(Debug, Args, Serialize)]
pub(crate) struct CreateKeyspace {
    pub name: String,
    /// pool, sequence, snowflake, uuid4, uuid7, ulid or digest.
    #[arg(long)]
    pub scheme: String,
    /// Answer GET /{key} from this keyspace; one keyspace of a ledger may.
    #[arg(long)]
    #[serde(skip_serializing_if = "is_off")]
    pub root: bool,
    /// base62 base58 base56 base36 crockford32 base64url decimal or custom:SYMBOLS.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<String>,
    /// Symbols without prefix and check character.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
    /// shuffled or sequential.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// What every key starts with.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Append a check character.
    #[arg(long)]
    #[serde(skip_serializing_if = "is_off")]
    pub check: bool,
    /// Words never to spell, with commas; or `default`.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "words")]
    pub blocklist: Option<String>,
    /// Go on with longer keys when these are used up.
    #[arg(long)]
    #[serde(skip_serializing_if = "is_off")]
    pub grow: bool,
    /// Where a pool's keys lie: virtual (spelled when needed), table or redis.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// What the tables of a `table` pool begin with.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_prefix: Option<String>,
    /// The key of a `redis` pool; the keyspace's name unless said.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_key: Option<String>,
    /// list or set.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_type: Option<String>,
    /// A sequence's first ticket.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<String>,
    /// The distance between a sequence's tickets.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// A snowflake's layout: default twitter sonyflake js53 regional, or fields from the top bit down.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// How long a tick lasts, such as 10ms.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<String>,
    /// Where a snowflake's time starts, such as 2026-01-01T00:00:00Z.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// The region that IDs carry.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<u32>,
    /// What spells a digest's keys: sha256, md5 or blake3.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What is hashed before the content.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
    /// Whether equal content has one key: global, owner or never.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<String>,
    /// What counts as equal: url, url_decoded or none.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub tuning: Tuning,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Tuning {
    /// How long a node's stock lasts without the ledger, such as 60s.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_budget: Option<String>,
    /// The least a node holds, such as 1024 or 10K.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stock_min: Option<String>,
    /// The most a node holds, such as 100M.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stock_max: Option<String>,
    /// Worker ids a node holds at a time.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
    /// When the clock goes back: wait, logical or fail.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_rollback: Option<String>,
    /// How long to wait for it.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_wait: Option<String>,
    /// When a tick is used up: wait or borrow.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_overflow: Option<String>,
    /// A tick's sequence starts in 0..=this.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_start: Option<u32>,
    /// How long a worker stays a node's without a word.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ttl: Option<String>,
    /// How long a worker rests before another node may have it.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recycle_delay: Option<String>,
    /// How far the clock may jump ahead.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_max: Option<String>,
    /// Keys a second that each node lets out, such as 5000 or 50K.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<String>,
    /// How it is recorded what was issued: claim, by ranges, or key, by a row for each too.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<String>,
    /// When a pool of rows is empty: wait, refuse or random.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_empty: Option<String>,
    /// How many keys the filler keeps in a pool of rows, such as 1M.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// The Redis of a `redis` pool.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_url: Option<String>,
    /// Start the filler anew below this level: keys (20M) or time (2h).
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_below: Option<String>,
    /// Tell a human below this level.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_below: Option<String>,
    /// The longest name that people may choose.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias_length_max: Option<u8>,
    /// Refuse names that look like one that is there: true or false.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confusable_guard: Option<bool>,
    /// How links answer: 301, 302, 307 or 308.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<u16>,
    /// Where those go who ask for a link that is not there.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_found_url: Option<String>,
    /// How long links last, such as 30d.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
    /// Refuse links into private networks: true or false.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_private_targets: Option<bool>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_off(switch: &bool) -> bool {
    !switch
}

/// `default` is a list by that name; anything else is the list.
fn words<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    match text.as_deref() {
        Some("default") => serializer.serialize_str("default"),
        text => serializer.collect_seq(text.unwrap_or_default().split(',').map(str::trim)),
    }
}
