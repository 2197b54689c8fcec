//! A node stops cleanly: its claims are settled, its workers are free, its name is at rest.

use keymill_id::Block;

use super::{Operation, Progress, Stamp, heartbeat};
use crate::{ClaimRow, ClaimState, LedgerError, Rows, Track};

/// The last write of a process. Give back first: what is unissued here is burned.
#[derive(Debug, Clone)]
pub struct Stop {
    pub stamp: Stamp,
    pub progress: Vec<Progress>,
    pub settlements: Vec<Settlement>,
}

/// What a node still held on a track when it stopped, after its give-back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub track: Track,
    pub unissued: Vec<Block>,
}

impl Operation for Stop {
    type Answer = ();
    const NAME: &'static str = "stop";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<(), LedgerError> {
        let (_, mut node) = self.stamp.check(rows).await?;
        node.stopped = true;
        node.report.keyspaces.clear();
        rows.put_node(&node).await?;
        heartbeat::record(rows, &self.stamp, &self.progress).await?;
        for claim in rows.open_claims(&self.stamp.node).await? {
            let unissued = self
                .settlements
                .iter()
                .filter(|settlement| settlement.track == claim.track)
                .flat_map(|settlement| &settlement.unissued)
                .filter_map(|block| Block::new(block.start().max(claim.start), block.end().min(claim.end)))
                .collect();
            rows.put_claim(&ClaimRow {
                issued_up_to: claim.end,
                state: ClaimState::Settled,
                unissued,
                ..claim
            })
            .await?;
        }
        for settlement in &self.settlements {
            if let Some(mut track) = rows.track(&settlement.track).await? {
                track.burned += settlement.unissued.iter().map(|block| block.count()).sum::<u64>();
                rows.put_track(&settlement.track, &track).await?;
            }
        }
        super::lease::release_all(rows, &self.stamp.node).await
    }
}
