//! What a node popped and never handed out becomes rows again when it stops.
//!
//! Nothing that left comes back this way: the node says what never did, and the log must still say that this node has
//! it. A database that went back may have given the same key to somebody else since, so one that forgot anything, or
//! that is in another era, gets nothing.

use keymill_sql::{Access, SqlError, Statements, Value, Work};

use super::{
    moving::{pieces, places},
    record::{Place, Witness},
    tables::Tables,
};

/// Moves keys of `node` from the log to where they came from, behind all other rows.
#[derive(Debug)]
pub(super) struct GiveBack {
    pub(super) place: Place,
    pub(super) witness: Witness,
    pub(super) keys: Vec<String>,
    pub(super) node: String,
}

impl Work for GiveBack {
    /// How many are rows again.
    type Answer = u64;
    const ACCESS: Access = Access::Write;

    /// Whoever looks for a key in both tables holds the pool's row meanwhile, and so does this.
    async fn run<S: Statements>(&self, statements: &mut S) -> Result<u64, SqlError> {
        let Some(record) = self.place.locked_in(statements, Some(self.witness.era)).await? else {
            return Ok(0);
        };
        if Witness::doubt(Some(&self.witness), &self.place, &record, statements).await?.is_some() {
            return Ok(0);
        }
        let Tables { available, used, .. } = &self.place.tables;
        let key = self.place.tables.key();
        let keys: Vec<Value> = self.keys.iter().map(|key| key.as_str().into()).collect();
        let mut given = 0;
        for piece in pieces(&keys) {
            let which = format!("FROM {used} WHERE used_by = ? AND {key} IN ({})", places(piece.len()));
            let mut values = vec![self.node.as_str().into()];
            values.extend_from_slice(piece);
            let put = format!("INSERT INTO {available} ({key}) SELECT {key} {which} ORDER BY id");
            let put = statements.execute(&put, &values).await?;
            if statements.execute(&format!("DELETE {which}"), &values).await? != put {
                return Err(SqlError::Aborted(format!("someone else changes `{used}`")));
            }
            given += put;
        }
        Ok(given)
    }
}
