//! Tokens: who may do what, in which keyspaces, and how fast.

use keymill_issuer::{meter::RATE_MAX, quantity::Count};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Code, Refusal};

/// What a token lets its holder do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Take keys, and lease workers.
    Take,
    /// Read everything but tokens.
    Inspect,
    /// Aliases, links and refs.
    Name,
    /// The rest: keyspaces, the ledger, tokens.
    Admin,
}

impl Scope {
    pub const ALL: [Self; 4] = [Self::Take, Self::Inspect, Self::Name, Self::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Take => "take",
            Self::Inspect => "inspect",
            Self::Name => "name",
            Self::Admin => "admin",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// The longest name of a token, in characters.
const TOKEN_NAME_MAX: usize = 64;
/// Patterns of keyspaces in one token.
const TOKEN_PATTERNS_MAX: usize = 32;
/// The longest such pattern: a keyspace's name has as many symbols.
const PATTERN_LENGTH_MAX: usize = 63;
/// A token that is to last longer had better have no end.
const TOKEN_SECONDS_MAX: u64 = 100 * 366 * 86_400;

/// `POST /v1/tokens`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// For people: whose it is, what it is for.
    #[schema(example = "checkout")]
    pub name: String,
    #[schema(example = json!(["take", "inspect"]))]
    pub scopes: Vec<Scope>,
    /// Names of keyspaces, in which `*` stands for anything. All keyspaces unless it is said.
    #[serde(default = "everything")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["promo*"]))]
    pub keyspaces: Vec<String>,
    /// Seconds until it is no longer accepted; never unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, example = 7_776_000)]
    pub expires_in: Option<u64>,
    /// Keys a second that each node lets its holder take; no limit unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1, example = 5000)]
    pub rate: Option<Count>,
}

fn everything() -> Vec<String> {
    vec!["*".to_owned()]
}

impl NewToken {
    /// Refused, if it cannot be meant.
    pub fn check(&self) -> Result<(), Refusal> {
        let wrong = |field: &str, detail: String| Err(Refusal::field(Code::InvalidField, field, detail));
        let length = self.name.chars().count();
        if !(1..=TOKEN_NAME_MAX).contains(&length) || self.name.chars().any(char::is_control) {
            return wrong("name", format!("`name` must have 1 to {TOKEN_NAME_MAX} printable characters"));
        }
        if self.scopes.is_empty() {
            let all = Scope::ALL.map(Scope::as_str).join(", ");
            return wrong("scopes", format!("`scopes` must name at least one of {all}"));
        }
        if !(1..=TOKEN_PATTERNS_MAX).contains(&self.keyspaces.len()) {
            return wrong("keyspaces", format!("`keyspaces` must have 1 to {TOKEN_PATTERNS_MAX} patterns"));
        }
        if let Some(index) = self.keyspaces.iter().position(|pattern| !is_pattern(pattern)) {
            let detail = format!(
                "a pattern has 1 to {PATTERN_LENGTH_MAX} of a-z 0-9 _ - and *, and `{}` is none",
                self.keyspaces[index].escape_debug()
            );
            return wrong(&format!("keyspaces/{index}"), detail);
        }
        if self.expires_in.is_some_and(|seconds| !(1..=TOKEN_SECONDS_MAX).contains(&seconds)) {
            return wrong(
                "expires_in",
                format!("`expires_in` must be from 1 to {TOKEN_SECONDS_MAX} seconds"),
            );
        }
        if self.rate.is_some_and(|rate| !(1..=RATE_MAX).contains(&rate.0)) {
            return wrong("rate", format!("`rate` must be from 1 to {RATE_MAX} keys a second"));
        }
        Ok(())
    }
}

fn is_pattern(text: &str) -> bool {
    let symbol = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*".contains(&byte);
    (1..=PATTERN_LENGTH_MAX).contains(&text.len()) && text.bytes().all(symbol)
}

/// A token, without what makes it one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    #[schema(example = "k3mw7q2a")]
    pub id: String,
    pub name: String,
    pub scopes: Vec<Scope>,
    pub keyspaces: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// The only answer that holds a token: nobody can read it again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    #[schema(example = "km_k3mw7q2a_…")]
    pub token: String,
    #[serde(flatten)]
    pub view: TokenView,
}

impl std::fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedToken").field("view", &self.view).finish_non_exhaustive()
    }
}

/// `GET /v1/tokens`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    pub tokens: Vec<TokenView>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(body: serde_json::Value) -> Result<(), String> {
        let token: NewToken = crate::parse(body.to_string().as_bytes()).map_err(|refusal| refusal.detail)?;
        token.check().map_err(|refusal| refusal.errors[0].pointer.clone())
    }

    #[test]
    fn what_cannot_be_meant_names_its_field() {
        assert_eq!(checked(json!({"name": "a", "scopes": ["take"]})), Ok(()));
        for (body, pointer) in [
            (json!({"name": "", "scopes": ["take"]}), "#/name"),
            (json!({"name": "a\nb", "scopes": ["take"]}), "#/name"),
            (json!({"name": "a", "scopes": []}), "#/scopes"),
            (json!({"name": "a", "scopes": ["take"], "keyspaces": []}), "#/keyspaces"),
            (json!({"name": "a", "scopes": ["take"], "keyspaces": ["ok", "Promo"]}), "#/keyspaces/1"),
            (json!({"name": "a", "scopes": ["take"], "expires_in": 0}), "#/expires_in"),
            (json!({"name": "a", "scopes": ["take"], "rate": 0}), "#/rate"),
        ] {
            assert_eq!(checked(body.clone()), Err(pointer.to_owned()), "{body}");
        }
        assert!(checked(json!({"name": "a", "scopes": ["root"]})).unwrap_err().contains("root"));
        assert!(checked(json!({"name": "a", "scopes": ["take"], "secret": 1})).is_err());
    }
}
