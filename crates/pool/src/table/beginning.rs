//! An era begins: the last one is closed, its rows are burned piece by piece, and the pool is opened anew.
//!
//! While it is closed nothing is taken and nothing pushed; a beginner that is cut off is followed by another, who
//! finds the pool closed and goes on. Burned keys are kept in the log, marked, for someone to look at: imported ones
//! cannot be made again.

use keymill_id::Number;
use keymill_issuer::rowed::Era;
use keymill_sql::{Access, SqlError, Statements, Work};

use super::{
    moving::Wish,
    putting::number,
    record::{Lock, Place},
    tables::ROW,
};

/// Rows of one transaction: over quickly, and cheap enough.
const BURNED_AT_ONCE: u32 = 10_000;
/// No node can be called that.
const BURNED: &str = "(burned)";

/// Closes the pool, if it is still in that era.
#[derive(Debug)]
pub(super) struct Close {
    pub(super) place: Place,
    pub(super) after: Option<Era>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// `has_rows`: an era was begun before, and may have left some.
    Yes {
        has_rows: bool,
    },
    Overtaken,
    Foreign(String),
}

impl Work for Close {
    type Answer = Closed;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Closed, SqlError> {
        let record = self.place.record(statements, Lock::Exclusive).await?;
        if record.owner != self.place.owner {
            return Ok(Closed::Foreign(record.owner));
        }
        if record.era != self.after {
            return Ok(Closed::Overtaken);
        }
        let close = format!("UPDATE {} SET era = NULL WHERE {ROW}", self.place.tables.pool);
        statements.execute(&close, &[]).await?;
        Ok(Closed::Yes { has_rows: record.began_on.is_some() })
    }
}

/// Burns some rows of a closed pool, reserved or not.
#[derive(Debug)]
pub(super) struct Burn {
    pub(super) place: Place,
}

impl Work for Burn {
    /// How many; `None` if the pool was opened meanwhile.
    type Answer = Option<u64>;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Option<u64>, SqlError> {
        if self.place.locked_in(statements, None).await?.is_none() {
            return Ok(None);
        }
        let wish = Wish { after: 0, count: BURNED_AT_ONCE, even_reserved: true, trusts: false };
        self.place.tables.take(statements, wish, BURNED).await.map(|moved| Some(moved.rows))
    }
}

/// Opens a closed pool that has no rows left, unless they are to stay.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) place: Place,
    pub(super) era: Era,
    pub(super) next: Number,
}

impl Work for Open {
    type Answer = bool;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<bool, SqlError> {
        let Some(record) = self.place.locked_in(statements, None).await? else { return Ok(false) };
        let open =
            format!("UPDATE {} SET era = ?, next_number = ?, engine = ? WHERE {ROW}", self.place.tables.pool);
        let values = [self.era.to_string().into(), number(self.next), record.engine.into()];
        statements.execute(&open, &values).await?;
        Ok(true)
    }
}
