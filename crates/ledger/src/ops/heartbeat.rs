//! A node is alive, says what it holds, and brings the audit forward.

use keymill_id::Number;

use super::{Operation, Stamp};
use crate::{ClaimRow, LedgerError, NodeReport, Rows, Timestamp, Track};

#[derive(Debug, Clone)]
pub struct Heartbeat {
    pub stamp: Stamp,
    pub report: NodeReport,
    /// How far each track got since the last time; empty most of the time.
    pub progress: Vec<Progress>,
}

/// How far a node got on a track. For people only: nothing is reserved or given back from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub track: Track,
    /// Every number below that this process was granted has been issued or burned.
    pub issued_up_to: Number,
    /// Keys issued and numbers burned since the last progress.
    pub issued: u64,
    pub burned: u64,
    pub last_issued_at: Timestamp,
}

/// What a heartbeat brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// When this moved, keyspaces or tokens changed: look again.
    pub changes: u64,
    /// The ledger's clock.
    pub now: Timestamp,
}

impl Operation for Heartbeat {
    type Answer = Pulse;
    const NAME: &'static str = "heartbeat";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<Pulse, LedgerError> {
        let (head, mut node) = self.stamp.check(rows).await?;
        node.report = self.report.clone();
        rows.put_node(&node).await?;
        record(rows, &self.stamp, &self.progress).await?;
        Ok(Pulse { changes: head.changes, now: rows.clock(self.stamp.at).await? })
    }
}

/// Brings the claims and sums of `stamp`'s node forward.
pub(super) async fn record<R: Rows>(
    rows: &mut R,
    stamp: &Stamp,
    progress: &[Progress],
) -> Result<(), LedgerError> {
    if progress.is_empty() {
        return Ok(());
    }
    for claim in rows.open_claims(&stamp.node).await? {
        let Some(step) = progress.iter().find(|step| step.track == claim.track) else { continue };
        let issued_up_to = step.issued_up_to.clamp(claim.issued_up_to, claim.end);
        if issued_up_to > claim.issued_up_to {
            let last_issued_at = Some(step.last_issued_at);
            rows.put_claim(&ClaimRow { issued_up_to, last_issued_at, ..claim }).await?;
        }
    }
    for step in progress {
        if let Some(mut track) = rows.track(&step.track).await? {
            track.issued += step.issued;
            track.burned += step.burned;
            rows.put_track(&step.track, &track).await?;
        }
    }
    Ok(())
}
