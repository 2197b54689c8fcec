//! Idempotency-Key: a retry with the same key and body gets the same answer, and nothing is done twice.
//!
//! The answer is written down in the transaction that grants what it tells of, so that a crash leaves both or
//! neither. A try that does not come back is overtaken after a while; if it then comes back after all, it finds
//! that out before it grants anything.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use keymill_api::{Code, Refusal};
use keymill_registry::{Attempt, BatchReceipt, Begun, Bound, Finished, Receipt, rules::idempotency};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Names, refuse};
use crate::auth::Caller;

pub(crate) const HEADER: &str = "idempotency-key";
/// How long a try may take before another one may overtake it. That is safe at any time, and only wastes what the
/// first one did; but whoever retries after a crash waits for so long.
const TRY_FOR: Duration = Duration::from_secs(10);

/// What is answered, and was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub status: u16,
    pub body: String,
}

impl Said {
    pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        let body = serde_json::to_string(body).expect("answers are plain data");
        Self { status: status.as_u16(), body }
    }
}

/// A request that may be a retry.
#[derive(Debug)]
pub(crate) enum Once {
    /// It does not ask to be recognised.
    Unasked,
    /// The first of its kind, or the first since one that never came back.
    Go(Try),
    Said(Said),
}

/// A try under way.
#[derive(Debug, Clone)]
pub(crate) struct Try {
    scope: String,
    attempt: String,
    until_ms: i64,
}

impl Try {
    fn receipt(&self, said: &Said) -> Receipt {
        Receipt {
            scope: self.scope.clone(),
            attempt: self.attempt.clone(),
            answer: written(said),
            until_ms: self.until_ms,
        }
    }
}

impl Once {
    /// To be written down with what it grants.
    pub(crate) fn receipt(&self, said: &Said) -> Option<Receipt> {
        match self {
            Self::Go(this) => Some(this.receipt(said)),
            Self::Unasked | Self::Said(_) => None,
        }
    }

    /// The same for a batch, whose answer is made from what becomes of each of it.
    pub(super) fn batch_receipt(
        &self,
        answer: impl Fn(&[Bound]) -> Said + Send + Sync + 'static,
    ) -> Option<BatchReceipt> {
        let Self::Go(Try { scope, attempt, until_ms }) = self else { return None };
        let answer = Box::new(move |bound: &[Bound]| written(&answer(bound)));
        Some(BatchReceipt { scope: scope.clone(), attempt: attempt.clone(), until_ms: *until_ms, answer })
    }

    /// Sixteen bytes that are the same for every try of one request, apart for each of a batch, and else random.
    pub(super) fn nonce(&self, index: usize) -> Result<[u8; 16], Refusal> {
        let mut nonce = [0; 16];
        match self {
            Self::Go(this) => {
                nonce.copy_from_slice(&Sha256::digest(format!("{} {index}", this.scope))[..16]);
            }
            Self::Unasked | Self::Said(_) => getrandom::fill(&mut nonce)
                .map_err(|error| Refusal::new(Code::Internal, error.to_string()))?,
        }
        Ok(nonce)
    }
}

impl Names {
    /// `route` and `keyspace` keep the keys of different requests apart, as the caller's token does.
    pub(crate) async fn once(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        route: &str,
        keyspace: &str,
        body: &[u8],
    ) -> Result<Once, Refusal> {
        let mut keys = headers.get_all(HEADER).iter();
        let Some(key) = keys.next() else { return Ok(Once::Unasked) };
        let wrong = |why: String| Refusal::new(Code::InvalidRequest, why);
        if keys.next().is_some() {
            return Err(wrong("there is more than one Idempotency-Key; send one".to_owned()));
        }
        let key = key.to_str().map_err(|_| wrong("an Idempotency-Key is printable ASCII".to_owned()))?;
        idempotency::check(key).map_err(|error| wrong(error.to_string()))?;
        let registry = self.registry()?;
        let at_ms = self.now_ms();
        let attempt = Attempt {
            scope: hash(&[caller.id().as_bytes(), keyspace.as_bytes(), route.as_bytes(), key.as_bytes()]),
            attempt: format!("{}/{}/{}", self.node.name(), self.life, random_id()?),
            body_hash: hash(&[body]),
            at_ms,
            lock_until_ms: at_ms.saturating_add(ms(TRY_FOR)),
            until_ms: at_ms.saturating_add(ms(self.idempotency)),
        };
        let next = Try {
            scope: attempt.scope.clone(),
            attempt: attempt.attempt.clone(),
            until_ms: attempt.until_ms,
        };
        match registry.begin(attempt).await.map_err(refuse)? {
            Begun::Go => Ok(Once::Go(next)),
            Begun::Done { answer } => Ok(Once::Said(said(&answer)?)),
            Begun::InProgress => Err(in_progress()),
            Begun::Mismatch => Err(Refusal::new(
                Code::IdempotencyMismatch,
                "this Idempotency-Key was used with another body; use a new one for another request",
            )),
        }
    }

    /// Writes down what was answered, where nothing was granted along with it.
    pub(crate) async fn conclude(&self, once: &Once, said: Said) -> Result<Said, Refusal> {
        let Once::Go(this) = once else { return Ok(said) };
        match self.registry()?.finish(this.receipt(&said)).await.map_err(refuse)? {
            Finished::Kept => Ok(said),
            Finished::Overtaken { answer } => overtaken(answer.as_deref()),
        }
    }

    /// It was refused: a retry may start afresh. Nothing is lost if this is not heard.
    pub(crate) async fn abandon(&self, once: &Once) {
        if let (Once::Go(this), Ok(registry)) = (once, self.registry()) {
            let _ = registry.abandon(&this.scope, &this.attempt).await;
        }
    }
}

/// Another try answered first: so does this one.
pub(crate) fn overtaken(answer: Option<&str>) -> Result<Said, Refusal> {
    answer.map_or_else(|| Err(in_progress()), said)
}

/// As it is kept; see [`said`].
fn written(said: &Said) -> String {
    serde_json::to_string(said).expect("answers are plain data")
}

fn said(answer: &str) -> Result<Said, Refusal> {
    let unreadable = |_| Refusal::new(Code::Internal, "the answer that was kept cannot be read");
    serde_json::from_str(answer).map_err(unreadable)
}

fn in_progress() -> Refusal {
    Refusal::new(
        Code::IdempotencyInProgress,
        "a request with this Idempotency-Key is under way; try again in a moment",
    )
}

/// Parts of any length cannot be mistaken for others.
fn hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn random_id() -> Result<String, Refusal> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
    Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
