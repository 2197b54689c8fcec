//! What is known of a key: turned back into its number, looked up in a small table.

use std::sync::Arc;

use keymill_id::Number;
use keymill_ledger::{ClaimRow, ClaimState, HoleKind, LedgerError, NodeName, Timestamp, ops};
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
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub number: Number,
    pub state: KeyState,
    pub node: Option<NodeName>,
    pub reserved_at: Option<Timestamp>,
    /// It left after this, and before that.
    pub issued_after: Option<Timestamp>,
    pub issued_before: Option<Timestamp>,
}

impl Inspection {
    fn bare(number: Number, state: KeyState) -> Self {
        Self { number, state, node: None, reserved_at: None, issued_after: None, issued_before: None }
    }
}

impl Node {
    /// `None`: the keyspace cannot spell that text.
    pub async fn inspect(
        self: &Arc<Self>,
        served: &Arc<Served>,
        text: &str,
    ) -> Result<Option<Inspection>, LedgerError> {
        let Some(number) = served.mint.number_of(text) else { return Ok(None) };
        let track = served.track.clone();
        if let Some(kind) = self.ledger().hole(ops::HoleAt { track: track.clone(), number }).await? {
            let state = if kind == HoleKind::Alias { KeyState::Alias } else { KeyState::Withheld };
            return Ok(Some(Inspection::bare(number, state)));
        }
        // Held here: looked at before the ledger, so that a key which leaves meanwhile counts as issued.
        let held = served.holds(number);
        let epoch = self.pen().epoch().await;
        let claim = self.ledger().claim(ops::ClaimAt { track: track.clone(), number }).await?;
        let Some(claim) = claim.filter(|claim| number < claim.end) else {
            let cursor = self.ledger().track(ops::TrackAt { track }).await?.unwrap_or_default().cursor;
            let state = if number < cursor { KeyState::Burned } else { KeyState::NeverIssued };
            return Ok(Some(Inspection::bare(number, state)));
        };
        let ours = claim.node == *self.name() && claim.epoch == epoch && claim.state == ClaimState::Open;
        let state = match served.mint.spell_one(number) {
            None => KeyState::Burned, // a blocked word is spelled by no one
            Some(_) if ours && held => KeyState::InStock,
            Some(_) if ours => KeyState::Issued,
            Some(_) => judge(&claim, number),
        };
        let left = state == KeyState::Issued;
        Ok(Some(Inspection {
            number,
            state,
            issued_after: left.then_some(claim.reserved_at),
            issued_before: if left { claim.last_issued_at.or(Some(self.now())) } else { None },
            node: Some(claim.node),
            reserved_at: Some(claim.reserved_at),
        }))
    }
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
