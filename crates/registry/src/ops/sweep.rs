//! What time takes away, in bounded batches.

use std::collections::BTreeMap;

use keymill_sql::{Access, SqlError, Statements, Value};

use super::Operation;
use crate::{
    batch::{pieces, places, plan_afresh},
    limits::Checked,
    tables::{OF_KEYSPACE, Tables},
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Entries that became tombstones.
    pub expired: u64,
    /// Tombstones that were deleted: their names can be had again.
    pub freed: u64,
    pub receipts: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SweepNames {
    pub(crate) at_ms: i64,
    pub(crate) batch: u32,
    /// When the names of what has expired can be had again; `None`: never.
    pub(crate) reusable_at_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SweepReceipts {
    pub(crate) at_ms: i64,
    pub(crate) batch: u32,
}

/// Names that are due, by keyspace.
type Due = BTreeMap<String, Vec<String>>;

impl SweepNames {
    /// What has expired, and which tombstones are at their end.
    async fn due<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(Due, Due), SqlError> {
        let sql = format!(
            "SELECT keyspace, name, deleted_at FROM {} WHERE due_at <= ? ORDER BY due_at LIMIT ?{}",
            tables.names,
            statements.dialect().exclusive()
        );
        let (mut expired, mut freed) = (Due::new(), Due::new());
        for row in statements.query(&sql, &[self.at_ms.into(), i64::from(self.batch).into()]).await? {
            let due = if row.maybe_integer(2)?.is_some() { &mut freed } else { &mut expired };
            due.entry(row.text(0)?).or_default().push(row.text(1)?);
        }
        Ok((expired, freed))
    }
}

/// Runs `sql` with `first`, the keyspace and names put for `{names}`, piece by piece.
async fn each<S: Statements>(
    statements: &mut S,
    sql: &str,
    first: &[Value],
    due: &Due,
) -> Result<u64, SqlError> {
    let mut count = 0;
    for (keyspace, names) in due {
        for piece in pieces(names) {
            let sql = sql.replace("{names}", &places(piece.len()));
            let names = piece.iter().map(|name| name.as_str().into());
            let values: Vec<Value> =
                first.iter().cloned().chain(std::iter::once(keyspace.as_str().into())).chain(names).collect();
            count += statements.execute(&sql, &values).await?;
        }
    }
    Ok(count)
}

impl Operation for SweepNames {
    /// How many expired, how many were freed.
    type Answer = (u64, u64);
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        Ok(())
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(u64, u64), SqlError> {
        plan_afresh(statements).await?;
        let (expired, freed) = self.due(tables, statements).await?;
        let Tables { names, marks, .. } = tables;
        let bury = format!(
            "UPDATE {names} SET target = NULL, deleted_at = ?, due_at = ? \
             WHERE keyspace = ? AND name IN ({{names}})"
        );
        let when = [self.at_ms.into(), self.reusable_at_ms.into()];
        let buried = each(statements, &bury, &when, &expired).await?;
        let unmark = format!("DELETE FROM {marks} WHERE {OF_KEYSPACE} AND name IN ({{names}})");
        each(statements, &unmark, &[], &freed).await?;
        let free = format!("DELETE FROM {names} WHERE keyspace = ? AND name IN ({{names}})");
        let freed = each(statements, &free, &[], &freed).await?;
        Ok((buried, freed))
    }
}

impl Operation for SweepReceipts {
    type Answer = u64;
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        Ok(())
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<u64, SqlError> {
        plan_afresh(statements).await?;
        let sql = format!(
            "SELECT scope FROM {} WHERE kept_until <= ? ORDER BY kept_until LIMIT ?{}",
            tables.receipts,
            statements.dialect().exclusive()
        );
        let rows = statements.query(&sql, &[self.at_ms.into(), i64::from(self.batch).into()]).await?;
        let scopes: Vec<Value> =
            rows.iter().map(|row| row.text(0).map(Value::from)).collect::<Result<_, _>>()?;
        let mut count = 0;
        for piece in pieces(&scopes) {
            let sql = format!("DELETE FROM {} WHERE scope IN ({})", tables.receipts, places(piece.len()));
            count += statements.execute(&sql, piece).await?;
        }
        Ok(count)
    }
}
