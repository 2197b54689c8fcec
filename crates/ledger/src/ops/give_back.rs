//! A clean stop returns what it did not issue: exactly, or not at all.

use keymill_id::Number;

use super::{Operation, Stamp};
use crate::{ClaimRow, LedgerError, Rows, Track, TrackRow};

/// Lowers the cursor to `from`, if nobody has touched the track since `revision`.
///
/// `from` is the start of the unissued run of the node's *own* blocks that ends at the cursor; that no
/// other node's block and no gap lies in between is the caller's to know. Once this was sent, the
/// numbers are dead to the sender, whatever the answer: its witness is lowered to `from` *before*, or
/// a reply that got lost would look like a rewind at the next start.
#[derive(Debug, Clone)]
pub struct GiveBack {
    pub stamp: Stamp,
    pub track: Track,
    pub from: Number,
    /// What this node's last reserve or give-back on the track left behind.
    pub revision: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenBack {
    /// So many numbers will be issued by someone else.
    Taken { count: u64, revision: u64 },
    /// Someone was there in between: the numbers are burned.
    Burned,
}

impl TrackRow {
    /// The row after a give-back and how many numbers that was; `None` if it must be refused.
    ///
    /// The *revision* is compared, not the cursor: another node may have reserved and given back in
    /// between, and then the same cursor stands over somebody else's numbers.
    pub fn give_back(&self, from: Number, revision: u64) -> Option<(Self, u64)> {
        if self.revision != revision || from >= self.cursor {
            return None;
        }
        let count = self.cursor.get() - from.get();
        let reserved = self.reserved.checked_sub(count)?;
        Some((Self { cursor: from, revision: self.revision + 1, reserved, ..*self }, count))
    }
}

impl Operation for GiveBack {
    type Answer = GivenBack;
    const NAME: &'static str = "give_back";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<GivenBack, LedgerError> {
        self.stamp.check(rows).await?;
        let Some(row) = rows.track(&self.track).await? else {
            return Err(LedgerError::UnknownKeyspace { keyspace: self.track.keyspace.clone() });
        };
        let Some((mut after, count)) = row.give_back(self.from, self.revision) else {
            return Ok(GivenBack::Burned);
        };
        // The same fact, seen a second time: what goes back was ours, all of it, without a gap.
        let mut end = row.cursor;
        while end > self.from {
            let ours = |claim: &ClaimRow| {
                claim.node == self.stamp.node && claim.epoch == self.stamp.epoch && claim.end == end
            };
            let newest = rows.claims(&self.track, None, 1).await?.pop();
            let Some(mut claim) = newest.filter(ours) else { return Err(self.not_ours(end)) };
            end = claim.start;
            if claim.start >= self.from {
                rows.remove_claim(&self.track, claim.start).await?;
                after.claims = after.claims.checked_sub(1).ok_or_else(|| self.not_ours(end))?;
            } else {
                claim.end = self.from;
                claim.issued_up_to = claim.issued_up_to.min(self.from);
                rows.put_claim(&claim).await?;
            }
        }
        rows.put_track(&self.track, &after).await?;
        Ok(GivenBack::Taken { count, revision: after.revision })
    }
}

impl GiveBack {
    fn not_ours(&self, end: Number) -> LedgerError {
        let Self { stamp, track, from, .. } = self;
        let detail = format!(
            "node `{}` gives back {from} and up on `{track}`, but its claims do not hold what ends at {end}",
            stamp.node
        );
        LedgerError::Corrupt { store: "shared", detail }
    }
}
