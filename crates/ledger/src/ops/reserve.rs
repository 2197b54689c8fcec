//! The essential operation: take numbers off a track, for ever.

use std::num::NonZeroU64;

use keymill_id::{Block, Number};

use super::{Operation, Stamp, stamp};
use crate::{ClaimRow, ClaimState, LedgerError, Rows, Timestamp, Track, TrackRow};

/// How long consecutive blocks of one node extend one claim. Longer: fewer rows. Shorter: `inspect`
/// tells more exactly when a key left.
pub const CLAIM_SPAN_MS: u64 = 3_600_000;

/// Reserves up to `count` numbers, starting at the cursor or at `at_least`, whichever is higher.
#[derive(Debug, Clone)]
pub struct Reserve {
    pub stamp: Stamp,
    pub track: Track,
    /// Used for time only: a window starts no earlier than its clock says.
    pub at_least: Number,
    pub count: NonZeroU64,
    /// The first number that does not exist. The last block before it may be smaller than asked for.
    pub ceiling: Number,
    /// The highest end this node was granted here: a cursor below it has gone back.
    pub witnessed: Number,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    pub block: Block,
    /// Numbers of the block that must not be issued, in order.
    pub holes: Vec<Number>,
    /// The track's revision after this reserve: what a give-back must find.
    pub revision: u64,
}

impl TrackRow {
    /// The row after a reserve, and the block; `None` when nothing is left below `ceiling`.
    pub fn reserve(&self, at_least: Number, count: NonZeroU64, ceiling: Number) -> Option<(Self, Block)> {
        let start = self.cursor.max(at_least);
        let end = start.checked_add(count.get()).unwrap_or(Number::MAX).min(ceiling);
        let block = Block::new(start, end)?;
        let row = Self {
            cursor: end,
            revision: self.revision + 1,
            reserved: self.reserved + block.count(),
            ..*self
        };
        // Stopping beats a duplicate: a cursor only ever rises here, and past the whole block.
        assert!(block.start() >= self.cursor && row.cursor == block.end() && row.cursor > self.cursor);
        Some((row, block))
    }
}

impl Operation for Reserve {
    type Answer = Reserved;
    const NAME: &'static str = "reserve";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<Reserved, LedgerError> {
        let (head, node) = self.stamp.admit(rows).await?;
        // The track first, its holes afterwards: a hole made while we waited for the track is seen.
        let row = match rows.track(&self.track).await? {
            Some(row) => row,
            None if self.track.worker.is_some() => TrackRow::default(),
            None => return Err(LedgerError::UnknownKeyspace { keyspace: self.track.keyspace.clone() }),
        };
        if row.cursor < self.witnessed {
            let reason = format!(
                "track `{}` went back: node `{}` was granted numbers up to {}, the cursor is {}",
                self.track, self.stamp.node, self.witnessed, row.cursor
            );
            return Err(stamp::halt(rows, head, reason, self.stamp.at).await?);
        }
        rows.put_node(&node).await?;
        let Some((mut after, block)) = row.reserve(self.at_least, self.count, self.ceiling) else {
            return Err(LedgerError::Exhausted { track: self.track.clone(), ceiling: self.ceiling });
        };
        let holes = if after.holes == 0 { Vec::new() } else { rows.holes(&self.track, block).await? };
        let last = rows.claim_at(&self.track, row.cursor).await?;
        let claim = match last.filter(|claim| self.extends(claim, block, self.stamp.at)) {
            Some(claim) => ClaimRow { end: block.end(), ..claim },
            None => {
                after.claims += 1;
                ClaimRow {
                    track: self.track.clone(),
                    start: block.start(),
                    end: block.end(),
                    node: self.stamp.node.clone(),
                    epoch: self.stamp.epoch,
                    reserved_at: self.stamp.at,
                    issued_up_to: block.start(),
                    last_issued_at: None,
                    state: ClaimState::Open,
                    unissued: Vec::new(),
                }
            }
        };
        rows.put_track(&self.track, &after).await?;
        rows.put_claim(&claim).await?;
        Ok(Reserved { block, holes, revision: after.revision })
    }
}

impl Reserve {
    fn extends(&self, claim: &ClaimRow, block: Block, at: Timestamp) -> bool {
        claim.node == self.stamp.node
            && claim.epoch == self.stamp.epoch
            && claim.state == ClaimState::Open
            && claim.end == block.start()
            && at.since(claim.reserved_at) < CLAIM_SPAN_MS
    }
}
