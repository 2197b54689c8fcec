//! Numbers that a pool must not issue: aliases, route words, imported and drawn keys.

use keymill_id::Number;

use super::{Operation, Stamp};
use crate::{HoleKind, LedgerError, Rows, Track};

/// Makes holes at or above the cursor. It grants nothing by itself.
#[derive(Debug, Clone)]
pub struct Withhold {
    pub stamp: Stamp,
    pub track: Track,
    pub numbers: Vec<Number>,
    pub kind: HoleKind,
}

/// What became of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// The hole is new, and this call made it.
    Made,
    /// Someone made it earlier. For a random draw that means: draw again.
    AlreadyThere(HoleKind),
    /// The number was reserved before: issued, in somebody's stock, or burned.
    Passed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withholding {
    /// In the order of the numbers asked for.
    pub outcomes: Vec<Withheld>,
    /// The track's revision before and after: a node whose give-back expects `before` may expect
    /// `after` instead, because a hole above the cursor takes nothing from its run.
    pub before: u64,
    pub after: u64,
}

impl Operation for Withhold {
    type Answer = Withholding;
    const NAME: &'static str = "withhold";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<Withholding, LedgerError> {
        self.stamp.check(rows).await?;
        let Some(mut row) = rows.track(&self.track).await? else {
            return Err(LedgerError::UnknownKeyspace { keyspace: self.track.keyspace.clone() });
        };
        let before = row.revision;
        let mut outcomes = Vec::with_capacity(self.numbers.len());
        for &number in &self.numbers {
            let outcome = match rows.hole(&self.track, number).await? {
                Some(kind) => Withheld::AlreadyThere(kind),
                None if number < row.cursor => Withheld::Passed,
                None => {
                    rows.put_hole(&self.track, number, self.kind).await?;
                    row.holes += 1;
                    Withheld::Made
                }
            };
            outcomes.push(outcome);
        }
        if outcomes.contains(&Withheld::Made) {
            // The track is written, not only read: a reserve that holds it is waited for, and one that
            // comes later sees the holes.
            row.revision += 1;
            rows.put_track(&self.track, &row).await?;
        }
        Ok(Withholding { outcomes, before, after: row.revision })
    }
}
