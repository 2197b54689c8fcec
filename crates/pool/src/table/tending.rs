//! Who fills, and what it does beside: reservations that were not used in time go back.
//!
//! That is safe only because a reserved key leaves after its row in `used_keys` was committed under the same
//! reservation. Whoever comes late finds that it is no longer theirs. Nodes never reserve: they move.

use std::time::Duration;

use keymill_sql::{Access, Dialect, SqlError, Statements, Work};

use super::tables::{ROW, Tables};

/// How long other programs may hold a reservation.
pub const RESERVATION_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How often it is looked for those that were held too long.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// Reservations that one sweep ends.
const SWEPT_AT_ONCE: u32 = 10_000;

/// Chooses the node that fills.
#[derive(Debug)]
pub(super) struct Lead {
    pub(super) tables: Tables,
    pub(super) node: String,
    pub(super) term: Duration,
}

impl Work for Lead {
    type Answer = bool;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<bool, SqlError> {
        let (pool, clock) = (&self.tables.pool, self.tables.dialect.clock());
        let sql = format!(
            "UPDATE {pool} SET filler = ?, filler_until = {clock} + ? \
             WHERE {ROW} AND (filler IS NULL OR filler = ? OR filler_until < {clock})"
        );
        let millis = i64::try_from(self.term.as_millis()).unwrap_or(i64::MAX);
        let values = [self.node.as_str().into(), millis.into(), self.node.as_str().into()];
        Ok(statements.execute(&sql, &values).await? > 0)
    }
}

/// Lets another node fill at once.
#[derive(Debug)]
pub(super) struct Resign {
    pub(super) tables: Tables,
    pub(super) node: String,
}

impl Work for Resign {
    type Answer = ();
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<(), SqlError> {
        let sql = format!("UPDATE {} SET filler = NULL WHERE {ROW} AND filler = ?", self.tables.pool);
        statements.execute(&sql, &[self.node.as_str().into()]).await.map(drop)
    }
}

/// Ends reservations that were held for longer than `timeout`.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) tables: Tables,
    pub(super) timeout: Duration,
}

impl Work for Sweep {
    /// How many.
    type Answer = u64;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<u64, SqlError> {
        let seconds = u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX);
        let (available, expired) = (&self.tables.available, self.tables.has_expired(seconds));
        let release = format!("UPDATE {available} SET is_reserved = false, reserved_at = NULL");
        let sql = match self.tables.dialect {
            Dialect::MySql => format!("{release} WHERE {expired} LIMIT {SWEPT_AT_ONCE}"),
            dialect @ (Dialect::Postgres | Dialect::Sqlite) => {
                let lock = dialect.skip_locked();
                format!(
                    "{release} WHERE id IN (SELECT id FROM {available} WHERE {expired} LIMIT {SWEPT_AT_ONCE}{lock})"
                )
            }
        };
        statements.execute(&sql, &[]).await
    }
}
