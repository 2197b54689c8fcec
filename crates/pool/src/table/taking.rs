//! A pop: one move by a node, unless the pool is somebody else's or its database may have forgotten something.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use keymill_issuer::rowed::Era;
use keymill_sql::{Access, SqlError, Statements, Work};

use super::{
    moving::{Moved, Wish},
    record::{Lock, Place, Witness},
};

/// A look from the beginning may take this share of the time: 1 / 10. Where it is cheap it comes whenever rows are
/// missing, and where it is not, rows that lie further back come a little later.
const LOOK_BACK_SHARE: u32 = 10;

/// Where a process takes its rows from.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Rows up to this id were taken, were held by others, or came late.
    position: i64,
    /// When it was last looked for those that came late, and how long that took.
    looked_back: Option<(Instant, Duration)>,
    pub(super) witness: Option<Witness>,
}

impl Reading {
    pub(super) fn next(&self, place: Place, count: u32, node: &str) -> Take {
        let is_due = |(at, took): (Instant, Duration)| at.elapsed() >= took * LOOK_BACK_SHARE;
        Take {
            place,
            count,
            after: self.position,
            looks_back: self.position > 0 && self.looked_back.is_none_or(is_due),
            witness: self.witness.clone(),
            node: node.to_owned(),
            was_tried: AtomicBool::new(false),
        }
    }

    pub(super) fn learn(&mut self, taken: &Taken, took: Duration) {
        self.position = self.position.max(taken.up_to);
        if taken.looked_back {
            self.looked_back = Some((Instant::now(), took));
        }
        if let Some(key) = taken.keys.last() {
            self.witness = Some(Witness { era: taken.era, key: String::from_utf8_lossy(key).into_owned() });
        }
    }
}

#[derive(Debug)]
pub(super) struct Take {
    place: Place,
    count: u32,
    after: i64,
    looks_back: bool,
    witness: Option<Witness>,
    node: String,
    /// It was run before, and undone: perhaps by a key that is in the log already.
    was_tried: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Taken {
    pub(super) keys: Vec<Vec<u8>>,
    /// Rows that left.
    pub(super) rows: u64,
    pub(super) looked_back: bool,
    up_to: i64,
    era: Era,
}

#[derive(Debug)]
pub(super) enum TakeAnswer {
    Taken(Taken),
    Foreign(String),
    NotBegun,
    Doubt { era: Era, why: String },
}

impl Work for Take {
    type Answer = TakeAnswer;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<TakeAnswer, SqlError> {
        let record = self.place.record(statements, Lock::None).await?;
        if record.owner != self.place.owner {
            return Ok(TakeAnswer::Foreign(record.owner));
        }
        let Some(era) = record.era else { return Ok(TakeAnswer::NotBegun) };
        if let Some(why) = Witness::doubt(self.witness.as_ref(), &self.place, &record, statements).await? {
            return Ok(TakeAnswer::Doubt { era, why });
        }
        let trusts = !self.was_tried.swap(true, Ordering::Relaxed);
        let Moved { mut keys, up_to, mut rows } =
            self.take(statements, self.after, self.count, trusts).await?;
        let missing = self.count.saturating_sub(u32::try_from(rows).unwrap_or(u32::MAX));
        let looked_back = self.looks_back && missing > 0;
        if looked_back {
            let late = self.take(statements, 0, missing, trusts).await?;
            keys.extend(late.keys);
            rows += late.rows;
        }
        Ok(TakeAnswer::Taken(Taken { keys, rows, looked_back, up_to: up_to.unwrap_or(self.after), era }))
    }
}

impl Take {
    async fn take<S: Statements>(
        &self,
        statements: &mut S,
        after: i64,
        count: u32,
        trusts: bool,
    ) -> Result<Moved, SqlError> {
        let wish = Wish { after, count, even_reserved: false, trusts };
        self.place.tables.take(statements, wish, &self.node).await
    }
}
