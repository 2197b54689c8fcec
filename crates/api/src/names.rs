//! Names, links and references: what one says to make them, and what is told of them.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::{Code, Problem, Refusal};

/// The longest `expires_in`: a hundred years, in seconds.
const EXPIRES_IN_MAX: u64 = 100 * 365 * 24 * 3600;
/// Links, references or names in one batch.
pub const BATCH_MAX: usize = 1000;
/// Used keys in one batch.
pub const USED_MAX: usize = 10_000;

/// `POST /v1/keyspaces/{ks}/links`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLink {
    /// Where it leads: http or https.
    #[schema(example = "https://example.com/a/long/path")]
    pub url: String,
    /// A name of one's own, instead of a key from the pool.
    #[schema(example = "spring-sale")]
    pub alias: Option<String>,
    /// Seconds until it is gone; the keyspace's `expires_in` unless said.
    pub expires_in: Option<u64>,
    /// Who asked, where content is kept apart by owner.
    pub owner: Option<String>,
}

/// `POST /v1/keyspaces/{ks}/links/batch`
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLinks {
    /// At most 1000.
    pub links: Vec<NewLink>,
}

/// `PUT /v1/keyspaces/{ks}/links/{key}`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BindLink {
    pub url: String,
    pub expires_in: Option<u64>,
}

/// `PATCH /v1/keyspaces/{ks}/links/{key}`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeLink {
    pub url: Option<String>,
    /// Seconds from now; `null` means never.
    #[serde(default, deserialize_with = "stated")]
    #[schema(value_type = Option<u64>)]
    pub expires_in: Option<Option<u64>>,
}

/// Tells `null` from nothing at all.
fn stated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkView {
    #[schema(example = "links")]
    pub keyspace: String,
    #[schema(example = "aZ3k9Qp")]
    pub key: String,
    pub url: String,
    /// What to give to people, where `listen.public_url` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_url: Option<String>,
    pub created_at: String,
    /// `null`: never.
    pub expires_at: Option<String>,
    /// How often it was followed, as far as it was counted.
    pub visits: u64,
}

/// One of a batch: the link, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum LinkOutcome {
    Link(LinkView),
    Problem(Problem),
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LinkOutcomes {
    /// In the order of the request.
    pub links: Vec<LinkOutcome>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LinkList {
    pub links: Vec<LinkView>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}

/// `PUT /v1/keyspaces/{ks}/keys/{alias}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AliasView {
    pub keyspace: String,
    pub key: String,
    #[schema(example = "alias")]
    pub state: String,
}

/// A body that says nothing.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoFields {}

/// `POST /v1/keyspaces/{ks}/refs`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRef {
    /// Whatever the caller knows the thing by: a legacy ID, content.
    #[serde(rename = "ref")]
    #[schema(example = "legacy-4711")]
    pub reference: String,
    pub owner: Option<String>,
}

/// `POST /v1/keyspaces/{ks}/refs/batch`
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRefs {
    /// At most 1000.
    pub refs: Vec<NewRef>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefView {
    pub keyspace: String,
    #[serde(rename = "ref")]
    pub reference: String,
    pub key: String,
}

/// One of a batch: the key, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum RefOutcome {
    Ref(RefView),
    Problem(Problem),
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RefOutcomes {
    /// In the order of the request.
    pub refs: Vec<RefOutcome>,
    /// How many of them were new.
    pub created: u64,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RefList {
    pub refs: Vec<RefView>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}

/// `POST /v1/keyspaces/{ks}/used`: keys of an older system that must never be issued.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UsedKeys {
    /// At most 10 000.
    pub keys: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsedAnswer {
    /// Withheld by this request.
    pub imported: u64,
    /// Withheld before.
    pub known: u64,
    /// Those that cannot be: issued by this keyspace, taken as a name, or not spelled as a key can be.
    pub rejected: Vec<RejectedKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RejectedKey {
    /// Its place in the request, from 0.
    pub index: usize,
    pub key: String,
    pub reason: String,
}

/// When something that is to last `expires_in` seconds is over, `now` being in milliseconds.
pub fn expiry_ms(expires_in: Option<u64>, now_ms: u64) -> Result<Option<u64>, Refusal> {
    match expires_in {
        None => Ok(None),
        Some(seconds) if (1..=EXPIRES_IN_MAX).contains(&seconds) => Ok(Some(now_ms + seconds * 1000)),
        Some(seconds) => {
            let detail = format!("`expires_in` must be from 1 to {EXPIRES_IN_MAX} seconds, and is {seconds}");
            Err(Refusal::field(Code::InvalidField, "expires_in", detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_told_from_nothing() {
        let change = |text: &str| serde_json::from_str::<ChangeLink>(text).unwrap().expires_in;
        assert_eq!(change("{}"), None);
        assert_eq!(change(r#"{"expires_in":null}"#), Some(None));
        assert_eq!(change(r#"{"expires_in":60}"#), Some(Some(60)));
    }

    #[test]
    fn an_expiry_has_bounds() {
        assert_eq!(expiry_ms(None, 5), Ok(None));
        assert_eq!(expiry_ms(Some(60), 5), Ok(Some(60_005)));
        assert!(expiry_ms(Some(0), 5).is_err() && expiry_ms(Some(u64::MAX), 5).is_err());
    }
}
