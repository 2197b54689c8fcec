//! Claims, found by number and by node.
//!
//! An open claim stands a second time under its node, so that a stop or a start finds its own without a
//! look at anybody else's. Only a node changes its claims, and it writes its row with each change: the
//! node's guard is the claims' guard too.

use keymill_id::Number;

use super::{
    Engine,
    rows::KeyedRows,
    spelling::{self, Span},
};
use crate::{ClaimRow, ClaimState, LedgerError, Track, TrackRow};

/// Whether a node has to settle it yet.
fn is_open(claim: &ClaimRow) -> bool {
    claim.state == ClaimState::Open && claim.issued_up_to < claim.end
}

impl<E: Engine> KeyedRows<E> {
    pub(super) async fn write_claim(&mut self, row: &ClaimRow) -> Result<(), LedgerError> {
        let key = spelling::at(&spelling::claims(&row.track), row.start.get());
        let open = spelling::open_claim(&row.node, &row.track, row.start);
        // Whoever changes a claim has read it, by one key or the other; one that nobody read is new.
        if !self.has_read(&key) && !self.has_read(&open) {
            self.make_room_for_claim(&row.track).await?;
        }
        self.put(key, row);
        if is_open(row) {
            self.put(open, row);
            Ok(())
        } else {
            self.remove(&open).await.map(drop)
        }
    }

    pub(super) async fn drop_claim(&mut self, track: &Track, start: Number) -> Result<(), LedgerError> {
        let key = spelling::at(&spelling::claims(track), start.get());
        if let Some(row) = self.plain::<ClaimRow>(&key).await? {
            self.remove(&spelling::open_claim(&row.node, track, start)).await?;
            self.remove(&key).await?;
        }
        Ok(())
    }

    /// Folds the two oldest claims of a full track into one. What left of it is no longer known.
    async fn make_room_for_claim(&mut self, track: &Track) -> Result<(), LedgerError> {
        let row: Option<TrackRow> = self.plain(&spelling::track(track)).await?;
        if row.is_none_or(|row| row.claims <= E::CLAIMS_MAX) {
            return Ok(());
        }
        let oldest = Span::under(&spelling::claims(track)).up(2);
        let mut oldest = self.list::<ClaimRow>(&oldest).await?.into_iter();
        let (Some((key, first)), Some((folded, second))) = (oldest.next(), oldest.next()) else {
            return Ok(());
        };
        if is_open(&first) || is_open(&second) {
            return Ok(()); // somebody still holds it; the next claim tries again
        }
        self.remove(&folded).await?;
        let issued_up_to = first.start;
        let (start, unissued) = (first.start, Vec::new());
        let state = ClaimState::Lost;
        self.put(key, &ClaimRow { start, issued_up_to, state, unissued, last_issued_at: None, ..second });
        Ok(())
    }
}
