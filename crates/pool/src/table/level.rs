//! How many rows are left, without counting them all each time someone asks.
//!
//! The rows are counted now and then, and in between what this process added and took is added and taken away. A
//! count takes a twentieth of the time at most, so a small pool is counted at every look and a pool of ten million
//! every half a minute. It is never more wrong than what others took since; whoever finds no rows says so at once.

use std::{
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use keymill_id::Number;
use keymill_sql::{Access, Database, SqlError, Statements, Work};

use super::tables::{ROW, Tables};

/// Rows that one statement counts: done long before any engine's patience is.
const COUNTED_AT_ONCE: i64 = 250_000;
/// A count may take this share of the time: 1 / 20.
const SHARE: u32 = 20;
/// No sooner than this, however quick it is.
const PAUSE_MIN: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct Level {
    estimate: Mutex<Estimate>,
    /// Held by whoever counts, and by whoever of this process adds rows: a count that sees half of them is worth
    /// nothing.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Estimate {
    rows: Option<u64>,
    /// How far the pool was filled then: what other processes push shows here.
    next: u64,
    /// When the rows were counted, and how long that took.
    counted: Option<(Instant, Duration)>,
}

impl Estimate {
    fn is_fresh(&self) -> bool {
        self.counted.is_some_and(|(at, took)| at.elapsed() < (took * SHARE).max(PAUSE_MIN))
    }

    fn add(&mut self, added: u64) {
        self.rows = self.rows.map(|rows| rows.saturating_add(added));
    }
}

impl Level {
    /// Until this is dropped, nobody counts.
    pub(super) async fn adding(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    pub(super) fn added(&self, rows: u64) {
        self.lock().add(rows);
    }

    /// As [`added`](Self::added), by a push that ended there. Whoever looked between the commit and now has seen how
    /// far the pool is filled, and added the rows already.
    pub(super) fn pushed(&self, rows: u64, next: Number) {
        let mut estimate = self.lock();
        if estimate.next < next.get() {
            estimate.add(rows);
            estimate.next = next.get();
        }
    }

    pub(super) fn taken(&self, taken: u64) {
        let mut estimate = self.lock();
        estimate.rows = estimate.rows.map(|rows| rows.saturating_sub(taken));
    }

    /// Somebody looked, and that was all. The next look counts.
    pub(super) fn ran_out(&self) {
        let mut estimate = self.lock();
        (estimate.rows, estimate.counted) = (Some(0), None);
    }

    /// Whatever is known is wrong.
    pub(super) fn forget(&self) {
        *self.lock() = Estimate::default();
    }

    /// As far as is known.
    pub(super) fn known(&self) -> u64 {
        self.lock().rows.unwrap_or_default()
    }

    /// Counts, if it is time to. The pool is filled up to `next`.
    pub(super) async fn look(
        &self,
        database: &Database,
        tables: &Tables,
        next: Number,
    ) -> Result<u64, SqlError> {
        if let Some(rows) = self.fresh(next) {
            return Ok(rows);
        }
        let turn = self.turn.lock().await;
        // Whoever had the turn before may have counted.
        if let Some(rows) = self.fresh(next) {
            return Ok(rows);
        }
        let begun = Instant::now();
        let (rows, next) = count(database, tables).await?;
        let counted = Some((Instant::now(), begun.elapsed()));
        *self.lock() = Estimate { rows: Some(rows), next, counted };
        drop(turn);
        Ok(rows)
    }

    fn fresh(&self, next: Number) -> Option<u64> {
        let mut estimate = self.lock();
        let elsewhere = next.get().saturating_sub(estimate.next);
        if elsewhere > 0 {
            estimate.add(elsewhere);
            estimate.next = next.get();
        }
        estimate.rows.filter(|_| estimate.is_fresh())
    }

    fn lock(&self) -> MutexGuard<'_, Estimate> {
        self.estimate.lock().expect("nothing panics while it holds this")
    }
}

/// Counts piece by piece, each in a transaction of its own. How far the pool is filled is told with the last piece:
/// rows that are pushed meanwhile come behind the others, so they are in it.
async fn count(database: &Database, tables: &Tables) -> Result<(u64, u64), SqlError> {
    let (mut rows, mut after) = (0, 0);
    loop {
        let Counted { rows: counted, up_to, next } =
            database.run(Count { tables: tables.clone(), after }).await?;
        rows += u64::try_from(counted).unwrap_or_default();
        match up_to {
            Some(up_to) if counted == COUNTED_AT_ONCE => after = up_to,
            _ => return Ok((rows, next)),
        }
    }
}

struct Count {
    tables: Tables,
    after: i64,
}

struct Counted {
    rows: i64,
    /// The last row that was counted.
    up_to: Option<i64>,
    /// How far the pool was filled at that moment.
    next: u64,
}

impl Work for Count {
    type Answer = Counted;
    const ACCESS: Access = Access::Read;
    const IS_GLANCE: bool = true;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Self::Answer, SqlError> {
        let Tables { available, pool, .. } = &self.tables;
        let sql = format!(
            "SELECT count(*), max(id), (SELECT next_number FROM {pool} WHERE {ROW}) \
             FROM (SELECT id FROM {available} WHERE id > ? AND NOT is_reserved ORDER BY id LIMIT ?) counted"
        );
        let rows = statements.query(&sql, &[self.after.into(), COUNTED_AT_ONCE.into()]).await?;
        let row = rows.first().ok_or_else(|| SqlError::Unexpected("a count has no answer".to_owned()))?;
        let next = row.maybe_integer(2)?.and_then(|next| u64::try_from(next).ok()).unwrap_or_default();
        Ok(Counted { rows: row.integer(0)?, up_to: row.maybe_integer(1)?, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> Number {
        Number::new(number).unwrap()
    }

    #[test]
    fn what_is_added_and_taken_counts_once_something_is_known() {
        let level = Level::default();
        level.added(5);
        assert_eq!((level.known(), level.fresh(Number::ZERO)), (0, None), "nothing was counted yet");
        let counted = Some((Instant::now(), Duration::from_secs(60)));
        *level.lock() = Estimate { rows: Some(10), next: 100, counted };
        level.pushed(5, number(106));
        level.taken(3);
        assert_eq!(level.fresh(number(106)), Some(12));
        assert_eq!(level.fresh(number(126)), Some(32), "another process pushed");
        assert_eq!(level.fresh(number(126)), Some(32), "once");
        assert_eq!(level.fresh(number(130)), Some(36), "someone saw our own push before we noted it");
        level.pushed(4, number(130));
        assert_eq!(level.fresh(number(130)), Some(36), "it is not added twice");
        level.taken(100);
        assert_eq!(level.fresh(number(126)), Some(0), "others added what we took");
        level.added(7);
        level.ran_out();
        assert_eq!((level.known(), level.fresh(number(126))), (0, None), "the next look counts");
    }
}
