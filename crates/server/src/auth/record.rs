//! A token as it is made, shown once, and kept: `km_<id>_<secret>`, of which the ledger holds the id and a
//! SHA-256 of the whole.
//!
//! A plain hash is enough, and nothing slower is needed: the secret has 256 random bits, so there is no
//! dictionary to try.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use keymill_api::{CreatedToken, NewToken, Scope, TokenView, rfc3339};
use keymill_ledger::{Timestamp, TokenRow};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Tokens in a ledger: each node holds all of them in memory.
pub const TOKENS_MAX: usize = 10_000;

const PREFIX: &[u8] = b"km_";
const ID_LENGTH: usize = 8;
const SECRET_BYTES: usize = 32;
/// As base64url spells them.
const SECRET_LENGTH: usize = 43;
const TOKEN_LENGTH: usize = PREFIX.len() + ID_LENGTH + 1 + SECRET_LENGTH;

/// What the ledger keeps of a token beside its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub name: String,
    pub scopes: Vec<Scope>,
    pub keyspaces: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Of the token's whole text, as base64url.
    pub sha256: String,
}

impl Record {
    pub(super) fn read(row: &TokenRow) -> Option<Self> {
        serde_json::from_value(row.body.clone()).ok()
    }

    pub(super) fn hash(&self) -> Option<[u8; 32]> {
        URL_SAFE_NO_PAD.decode(&self.sha256).ok()?.try_into().ok()
    }

    fn view(self, id: &str) -> TokenView {
        TokenView {
            id: id.to_owned(),
            name: self.name,
            scopes: self.scopes,
            keyspaces: self.keyspaces,
            rate: self.rate,
            created_at: rfc3339(self.created_at),
            expires_at: self.expires_at.map(rfc3339),
        }
    }
}

pub(super) fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The id in a text that has the form of a token.
pub(super) fn id_of(text: &[u8]) -> Option<&str> {
    let rest = text.strip_prefix(PREFIX).filter(|_| text.len() == TOKEN_LENGTH)?;
    let (id, rest) = rest.split_at(ID_LENGTH);
    (rest[0] == b'_').then(|| std::str::from_utf8(id).ok()).flatten()
}

/// Why no token is made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// Revoke one first.
    #[error("the ledger holds {TOKENS_MAX} tokens, which is the most; revoke one first")]
    Full,
    /// Nothing that could be guessed is handed out instead.
    #[error("no randomness to be had from the system: {0}")]
    NoRandomness(#[from] getrandom::Error),
}

/// Makes a token beside those there are: what its holder is shown, once, and what the ledger keeps.
pub fn make(
    wanted: &NewToken,
    there: &[TokenRow],
    now: Timestamp,
) -> Result<(CreatedToken, TokenRow), MakeError> {
    if there.len() >= TOKENS_MAX {
        return Err(MakeError::Full);
    }
    loop {
        let (created, row) = draw(wanted, now)?;
        if there.iter().all(|other| other.id != row.id) {
            return Ok((created, row));
        }
    }
}

fn draw(wanted: &NewToken, now: Timestamp) -> Result<(CreatedToken, TokenRow), getrandom::Error> {
    let (mut name, mut secret) = ([0; ID_LENGTH], [0; SECRET_BYTES]);
    getrandom::fill(&mut name)?;
    getrandom::fill(&mut secret)?;
    let symbol = |byte: u8| char::from(b"abcdefghijklmnopqrstuvwxyz234567"[usize::from(byte % 32)]);
    let id: String = name.into_iter().map(symbol).collect();
    let token = format!("km_{id}_{}", URL_SAFE_NO_PAD.encode(secret));
    let mut scopes = wanted.scopes.clone();
    scopes.sort_unstable();
    scopes.dedup();
    let record = Record {
        name: wanted.name.clone(),
        scopes,
        keyspaces: wanted.keyspaces.clone(),
        rate: wanted.rate.map(|rate| rate.0),
        created_at: now,
        expires_at: wanted.expires_in.map(|seconds| now.after(seconds.saturating_mul(1000))),
        sha256: URL_SAFE_NO_PAD.encode(hash(token.as_bytes())),
    };
    let body = serde_json::to_value(&record).expect("records are plain data");
    let row = TokenRow { id: id.clone(), body };
    Ok((CreatedToken { token, view: record.view(&id) }, row))
}

/// What is told of a token; `None` if a later version wrote it.
pub fn view(row: &TokenRow) -> Option<TokenView> {
    Some(Record::read(row)?.view(&row.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_form_and_the_ledger_never_sees_it() {
        let wanted: NewToken =
            serde_json::from_str(r#"{"name": "a", "scopes": ["admin", "take", "admin"]}"#).unwrap();
        let (made, row) = make(&wanted, &[], Timestamp(7)).unwrap();
        assert_eq!(made.token.len(), 3 + 8 + 1 + 43);
        assert_eq!(id_of(made.token.as_bytes()), Some(row.id.as_str()));
        assert!(!row.body.to_string().contains(&made.token[12..]), "only its hash is kept");
        assert_eq!(made.view.scopes, [Scope::Take, Scope::Admin], "each once");
        let record = Record::read(&row).unwrap();
        assert_eq!(record.hash(), Some(hash(made.token.as_bytes())));
        assert_eq!(view(&row), Some(made.view.clone()));
        assert!(!format!("{made:?}").contains(&made.token), "it is in no log");
    }

    #[test]
    fn a_ledger_holds_so_many_tokens_and_says_so_of_the_next() {
        let wanted: NewToken = serde_json::from_str(r#"{"name": "a", "scopes": ["take"]}"#).unwrap();
        let row = |n: usize| TokenRow { id: format!("{n:08}"), body: serde_json::Value::Null };
        let mut there: Vec<_> = (1..TOKENS_MAX).map(row).collect();
        let (_, last) = make(&wanted, &there, Timestamp(7)).unwrap();
        there.push(last);
        let full = make(&wanted, &there, Timestamp(7)).unwrap_err().to_string();
        assert_eq!(full, "the ledger holds 10000 tokens, which is the most; revoke one first");
        there.pop();
        assert!(make(&wanted, &there, Timestamp(7)).is_ok(), "one was revoked");
    }

    #[test]
    fn other_texts_have_no_id() {
        let long = format!("km_abcdefgh-{}", "x".repeat(43));
        for text in ["", "km_", "km_abcdefgh_", &long, &format!("{long}x"), "Bearer"] {
            assert_eq!(id_of(text.as_bytes()), None, "{text}");
        }
        assert_eq!(id_of(&[0xff; TOKEN_LENGTH]), None);
    }
}
