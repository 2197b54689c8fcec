//! What is known of a key: turned back into its number, looked up in a small table.

use std::sync::Arc;

use keymill_id::{Definition, FreeScheme, Kind, Layout, Number};
use keymill_ledger::{
    ClaimRow, ClaimState, HoleKind, LedgerError, NodeName, Timestamp, Track, WorkerId, ops,
};
use serde::{Deserialize, Serialize};

use crate::{node::Node, served::Served};

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    NeverIssued,
    InStock,
    Issued,
    Burned,
    /// Reserved; its node died, and no record says whether this one went out.
    Uncertain,
    Alias,
    Withheld,
    /// Nobody keeps a record of these: UUIDs and ULIDs.
    Untracked,
}

/// What an ID says by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdParts {
    pub time: Timestamp,
    pub region: u32,
    pub worker: u32,
    pub sequence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// What the ledger counts; for a time-ordered ID its tick.
    pub number: Option<Number>,
    pub state: KeyState,
    pub node: Option<NodeName>,
    pub reserved_at: Option<Timestamp>,
    /// It left after this, and before that.
    pub issued_after: Option<Timestamp>,
    pub issued_before: Option<Timestamp>,
    pub id: Option<IdParts>,
}

impl Inspection {
    pub fn bare(number: Option<Number>, state: KeyState) -> Self {
        Self {
            number,
            state,
            node: None,
            reserved_at: None,
            issued_after: None,
            issued_before: None,
            id: None,
        }
    }
}

impl Node {
    /// `None`: the keyspace cannot spell that text.
    pub async fn inspect(
        self: &Arc<Self>,
        served: &Arc<Served>,
        text: &str,
    ) -> Result<Option<Inspection>, LedgerError> {
        let mint = match &served.definition {
            Definition::Snowflake(snowflake) => {
                return self.inspect_id(served, snowflake.layout(), text).await;
            }
            Definition::Free(scheme) => {
                let known = is_spelled(*scheme, text);
                return Ok(known.then(|| Inspection::bare(None, KeyState::Untracked)));
            }
            // Which keys content has is for the registry to say.
            Definition::Digest(_) => {
                let known = served.digest().is_some_and(|digest| digest.key_of(text).is_some());
                return Ok(known.then(|| Inspection::bare(None, KeyState::Untracked)));
            }
            Definition::Pool(_) | Definition::Sequence(_) => served.mint().expect("it is milled"),
        };
        let Some(number) = mint.number_of(text) else { return Ok(None) };
        let track = Track::of(served.name.clone());
        if let Some(kind) = self.ledger().hole(ops::HoleAt { track: track.clone(), number }).await? {
            let state = if kind == HoleKind::Alias { KeyState::Alias } else { KeyState::Withheld };
            return Ok(Some(Inspection::bare(Some(number), state)));
        }
        // Held here: looked at before the ledger, so that a key which leaves meanwhile counts as issued.
        let held = served.holds(number);
        let epoch = self.pen().epoch().await;
        let claim = self.ledger().claim(ops::ClaimAt { track: track.clone(), number }).await?;
        let Some(claim) = claim.filter(|claim| number < claim.end) else {
            let cursor = self.ledger().track(ops::TrackAt { track }).await?.unwrap_or_default().cursor;
            let state = if number < cursor { KeyState::Burned } else { KeyState::NeverIssued };
            return Ok(Some(Inspection::bare(Some(number), state)));
        };
        let ours = claim.node == *self.name() && claim.epoch == epoch && claim.state == ClaimState::Open;
        let state = match mint.spell_one(number) {
            None => KeyState::Burned, // a blocked word is spelled by no one
            Some(_) if ours && held => KeyState::InStock,
            Some(_) if ours => KeyState::Issued,
            Some(_) => judge(&claim, number),
        };
        let left = state == KeyState::Issued;
        Ok(Some(Inspection {
            id: None,
            number: Some(number),
            state,
            issued_after: left.then_some(claim.reserved_at),
            issued_before: if left { claim.last_issued_at.or(Some(self.now())) } else { None },
            node: Some(claim.node),
            reserved_at: Some(claim.reserved_at),
        }))
    }
}

impl Node {
    /// A time-ordered ID says when and by whom it would have been made; the claim says who held that time.
    async fn inspect_id(
        self: &Arc<Self>,
        served: &Arc<Served>,
        layout: &Layout,
        text: &str,
    ) -> Result<Option<Inspection>, LedgerError> {
        let canonical = |id: &u64| id.to_string() == text;
        let Some(parts) = text.parse().ok().filter(canonical).and_then(|id| layout.decompose(id)) else {
            return Ok(None);
        };
        let (Some(number), Ok(worker)) = (Number::new(parts.tick), u16::try_from(parts.worker)) else {
            return Ok(None);
        };
        let worker = WorkerId(worker);
        let id = IdParts {
            time: Timestamp(layout.unix_ms_of(parts.tick)),
            region: parts.region,
            worker: parts.worker,
            sequence: parts.sequence,
        };
        let track = Track::of_worker(served.name.clone(), worker);
        let ahead = served.timed().is_some_and(|timed| timed.holds(worker, parts.tick));
        let claim = self.ledger().claim(ops::ClaimAt { track: track.clone(), number }).await?;
        let Some(claim) = claim.filter(|claim| number < claim.end) else {
            return Ok(Some(Inspection {
                id: Some(id),
                ..Inspection::bare(Some(number), KeyState::NeverIssued)
            }));
        };
        // A tick that was used is shared by up to a whole sequence of IDs: no record tells which went out.
        let state = match judge(&claim, number) {
            _ if ahead => KeyState::InStock,
            KeyState::Issued | KeyState::InStock => KeyState::Uncertain,
            other => other,
        };
        Ok(Some(Inspection {
            id: Some(id),
            number: Some(number),
            state,
            node: Some(claim.node),
            reserved_at: Some(claim.reserved_at),
            issued_after: None,
            issued_before: None,
        }))
    }
}

/// Whether a text is what that scheme spells.
fn is_spelled(scheme: FreeScheme, text: &str) -> bool {
    keymill_id::readings(text, None, u64::MAX).iter().any(|reading| match scheme {
        FreeScheme::Uuid4 => reading.kind == Kind::Uuid && reading.version == Some(4),
        FreeScheme::Uuid7 => reading.kind == Kind::Uuid && reading.version == Some(7),
        FreeScheme::Ulid => reading.kind == Kind::Ulid,
    })
}

/// What the claim alone says of a number in it.
fn judge(claim: &ClaimRow, number: Number) -> KeyState {
    match claim.state {
        ClaimState::Settled if claim.unissued.iter().any(|block| block.contains(number)) => KeyState::Burned,
        ClaimState::Settled => KeyState::Issued,
        _ if number < claim.issued_up_to => KeyState::Issued,
        ClaimState::Open => KeyState::InStock,
        ClaimState::Lost => KeyState::Uncertain,
    }
}
