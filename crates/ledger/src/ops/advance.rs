//! Out of a halt: every node says what it remembers, then the cursors are lifted above all of it.

use std::collections::BTreeMap;

use keymill_id::{Block, Number};

use super::Operation;
use crate::{
    HoleKind, LedgerError, NodeName, NodeReport, NodeRow, Rows, Timestamp, Track, TrackRow, WitnessRow,
};

/// A node writes its witness into a halted ledger. It has burned its stock before.
#[derive(Debug, Clone)]
pub struct ReportWitness {
    pub node: NodeName,
    pub witness: WitnessRow,
}

impl Operation for ReportWitness {
    type Answer = ();
    const NAME: &'static str = "report_witness";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<(), LedgerError> {
        if rows.head().await?.halted.is_none() {
            return Err(LedgerError::NotHalted);
        }
        let reported = rows.witnesses().await?.into_iter().find(|(node, _)| *node == self.node);
        let witness = reported.map_or_else(|| self.witness.clone(), |(_, row)| row.and(&self.witness));
        rows.put_witness(&self.node, &witness).await
    }
}

impl WitnessRow {
    /// All that either of two reports knows: one that comes late or twice takes nothing away.
    pub fn and(self, other: &Self) -> Self {
        let mut ends: BTreeMap<Track, Number> = self.ends.into_iter().collect();
        for (track, end) in &other.ends {
            let known = ends.entry(track.clone()).or_default();
            *known = (*known).max(*end);
        }
        let mut holes = self.holes;
        holes.extend(other.holes.iter().filter(|hole| !holes.contains(hole)).cloned().collect::<Vec<_>>());
        Self {
            epoch: self.epoch.max(other.epoch),
            beat: self.beat.max(other.beat),
            ends: ends.into_iter().collect(),
            holes,
        }
    }
}

/// Lifts cursors and revisions above every witness, puts their holes back and ends the halt.
#[derive(Debug, Clone)]
pub struct Advance {
    /// Nodes that will not report: gone for good. Each adds its numbers to every track.
    pub without: Vec<(NodeName, u64)>,
    pub dry_run: bool,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advanced {
    pub track: Track,
    pub from: Number,
    pub to: Number,
}

impl Operation for Advance {
    type Answer = Vec<Advanced>;
    const NAME: &'static str = "advance";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<Vec<Advanced>, LedgerError> {
        let mut head = rows.head().await?;
        if head.halted.is_none() {
            return Err(LedgerError::NotHalted);
        }
        let witnesses: BTreeMap<NodeName, WitnessRow> = rows.witnesses().await?.into_iter().collect();
        let known = rows.nodes().await?;
        let nodes: Vec<NodeName> = missing(&known, &witnesses, &self.without);
        if !nodes.is_empty() {
            return Err(LedgerError::AwaitingNodes { nodes });
        }

        let skip: u64 = self.without.iter().map(|(_, skip)| *skip).fold(0, u64::saturating_add);
        let lifted = lift(rows.tracks().await?, witnesses.values(), skip);
        let report = lifted
            .iter()
            .filter(|(_, (from, to))| from.cursor != to.cursor)
            .map(|(track, (from, to))| Advanced { track: track.clone(), from: from.cursor, to: to.cursor })
            .collect();
        if self.dry_run {
            return Ok(report);
        }

        for (track, (_, row)) in &lifted {
            rows.put_track(track, row).await?;
        }
        for (node, witness) in &witnesses {
            for (track, number, kind) in &witness.holes {
                if rows.hole(track, *number).await?.is_none() {
                    rows.put_hole(track, *number, *kind).await?;
                    let mut row = rows.track(track).await?.unwrap_or_default();
                    row.holes += 1;
                    rows.put_track(track, &row).await?;
                }
            }
            rows.put_node(&remember(known.iter().find(|row| row.name == *node), node, witness, self.at))
                .await?;
        }
        for (track, (_, row)) in &lifted {
            spend_names(rows, track, row.cursor).await?;
        }
        rows.clear_witnesses().await?;
        head.incarnation = rows.incarnation().await?;
        head.halted = None;
        head.advances += 1;
        head.changes += 1;
        rows.put_head(&head).await?;
        Ok(report)
    }
}

/// Names below the lifted cursor are granted to nobody from here on: a name may have been withheld while the
/// ledger had forgotten that the pool issued that very key.
async fn spend_names<R: Rows>(rows: &mut R, track: &Track, cursor: Number) -> Result<(), LedgerError> {
    let Some(passed) = Block::new(Number::ZERO, cursor) else { return Ok(()) };
    for number in rows.holes(track, passed).await? {
        if rows.hole(track, number).await? == Some(HoleKind::Alias) {
            rows.put_hole(track, number, HoleKind::Spent).await?;
        }
    }
    Ok(())
}

/// Nodes that may hold numbers, did not report, and were not named as gone.
pub fn missing(
    known: &[NodeRow],
    witnesses: &BTreeMap<NodeName, WitnessRow>,
    without: &[(NodeName, u64)],
) -> Vec<NodeName> {
    known
        .iter()
        .filter(|row| !row.stopped)
        .map(|row| &row.name)
        .filter(|name| !witnesses.contains_key(name) && without.iter().all(|(gone, _)| gone != *name))
        .cloned()
        .collect()
}

/// Every track as it is and as it must become: above all that any witness was granted. Revisions rise
/// too, so that a give-back from before the halt finds a stranger's track. A track that only a witness
/// knows is made, so that its keyspace's name is never used for another shuffle.
pub fn lift<'w>(
    tracks: Vec<(Track, TrackRow)>,
    witnesses: impl Iterator<Item = &'w WitnessRow>,
    skip: u64,
) -> BTreeMap<Track, (TrackRow, TrackRow)> {
    let mut lifted: BTreeMap<Track, (TrackRow, TrackRow)> =
        tracks.into_iter().map(|(track, row)| (track, (row, row))).collect();
    for (track, end) in witnesses.flat_map(|witness| &witness.ends) {
        let (_, to) = lifted.entry(track.clone()).or_default();
        to.cursor = to.cursor.max(*end);
    }
    for (_, to) in lifted.values_mut() {
        to.cursor = to.cursor.checked_add(skip).unwrap_or(Number::MAX);
        // Far above anything that was handed out in the part that was lost.
        to.revision += REVISION_LEAP;
    }
    lifted
}

/// No track is changed this often between a copy and its restore.
const REVISION_LEAP: u64 = 1 << 40;

/// The node's row, lifted to what it remembers, so that its next start finds nothing missing.
fn remember(row: Option<&NodeRow>, name: &NodeName, witness: &WitnessRow, at: Timestamp) -> NodeRow {
    let mut row = row.cloned().unwrap_or_else(|| NodeRow {
        name: name.clone(),
        epoch: 0,
        beat: 0,
        started_at: at,
        last_seen: at,
        stopped: false,
        report: NodeReport::default(),
    });
    row.epoch = row.epoch.max(witness.epoch);
    row.beat = row.beat.max(witness.beat);
    row
}
