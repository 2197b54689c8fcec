//! A node starts: it shows what it remembers, fences its older self and gets its epoch.

use keymill_id::Number;

use super::{Operation, stamp};
use crate::{
    ClaimState, LedgerError, LedgerId, NodeName, NodeReport, NodeRow, Rows, Timestamp, Track, rows::Head,
};

/// Starts a node. What it remembers of an earlier life is compared before anything is changed.
#[derive(Debug, Clone)]
pub struct Register {
    pub node: NodeName,
    pub remembered: Option<Remembered>,
    pub region: Option<u16>,
    pub report: NodeReport,
    pub at: Timestamp,
}

/// What the node's witness says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    pub ledger: LedgerId,
    pub epoch: u64,
    pub beat: u64,
    pub ends: Vec<(Track, Number)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    pub ledger: LedgerId,
    pub epoch: u64,
    pub beat: u64,
    pub region: Option<u16>,
    pub changes: u64,
}

impl Operation for Register {
    type Answer = Registration;
    const NAME: &'static str = "register";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<Registration, LedgerError> {
        if let Some(remembered) = &self.remembered {
            let found = rows.head().await?.id;
            if found != remembered.ledger {
                return Err(LedgerError::ForeignLedger { remembered: remembered.ledger.clone(), found });
            }
        }
        let mut head = stamp::open_head(rows, self.at).await?;
        let row = rows.node(&self.node).await?;
        if let Some(reason) = self.contradiction(rows, row.as_ref()).await? {
            return Err(stamp::halt(rows, head, reason, self.at).await?);
        }
        match (head.region, self.region) {
            (Some(kept), Some(stated)) if kept != stated => {
                return Err(LedgerError::RegionConflict { kept, stated });
            }
            (None, Some(stated)) => {
                head.region = Some(stated);
                rows.put_head(&head).await?;
            }
            _ => {}
        }
        self.bury_the_old_self(rows).await?;
        let (epoch, beat) = row.map_or((1, 0), |row| (row.epoch + 1, next_life(row.beat)));
        rows.put_node(&NodeRow {
            name: self.node.clone(),
            epoch,
            beat,
            started_at: self.at,
            last_seen: self.at,
            stopped: false,
            report: self.report.clone(),
        })
        .await?;
        let Head { id, region, changes, .. } = head;
        Ok(Registration { ledger: id, epoch, beat, region, changes })
    }
}

/// Beats that a life may count; far more than a process can write.
const BEATS_OF_A_LIFE: u64 = 1 << 32;

/// Where the next life begins to count. Each has a band of its own: if beats just went on, a late write of
/// an old life and a late start could together bring a ledger that went back to the very beat that the
/// present life was acknowledged for, and what it lost would not be noticed.
fn next_life(beat: u64) -> u64 {
    (beat / BEATS_OF_A_LIFE + 1) * BEATS_OF_A_LIFE
}

impl Register {
    /// Why the ledger cannot be the one this node last wrote, if it cannot.
    async fn contradiction<R: Rows>(
        &self,
        rows: &mut R,
        row: Option<&NodeRow>,
    ) -> Result<Option<String>, LedgerError> {
        let Some(remembered) = &self.remembered else { return Ok(None) };
        let node = &self.node;
        let (epoch, beat) = row.map_or((0, 0), |row| (row.epoch, row.beat));
        // Each by itself: a start by somebody else excuses no lost write.
        if epoch < remembered.epoch || beat < remembered.beat {
            return Ok(Some(format!(
                "it went back in time: node `{node}` remembers write {} of start {}, the ledger write {beat} of start {epoch}",
                remembered.beat, remembered.epoch
            )));
        }
        for (track, end) in &remembered.ends {
            let cursor = rows.track(track).await?.map_or(Number::ZERO, |row| row.cursor);
            if cursor < *end {
                return Ok(Some(format!(
                    "track `{track}` went back: node `{node}` was granted numbers up to {end}, the cursor is {cursor}"
                )));
            }
        }
        Ok(None)
    }

    /// What an earlier process of this name held is lost, and its workers are free to be leased.
    async fn bury_the_old_self<R: Rows>(&self, rows: &mut R) -> Result<(), LedgerError> {
        for mut claim in rows.open_claims(&self.node).await? {
            let lost = claim.end.get() - claim.issued_up_to.get();
            claim.state = ClaimState::Lost;
            rows.put_claim(&claim).await?;
            if let Some(mut track) = rows.track(&claim.track).await? {
                track.burned += lost;
                rows.put_track(&claim.track, &track).await?;
            }
        }
        super::lease::release_all(rows, &self.node).await
    }
}
