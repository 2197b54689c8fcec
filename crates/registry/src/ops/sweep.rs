//! What time takes away, in bounded batches.

use std::collections::BTreeMap;

use keymill_sql::{Access, SqlError, Statements, Value};

use super::Operation;
use crate::{
    batch::{pieces, plan_afresh, question_marks},
    limits::Checked,
    tables::{OF_KEYSPACE, Placed, Tables, among},
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

/// Names that are due, with their places, by keyspace.
type Due = BTreeMap<String, Vec<(i64, String)>>;

impl SweepNames {
    /// What has expired, and which tombstones are at their end.
    async fn due<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(Due, Due), SqlError> {
        let sql = format!(
            "SELECT keyspace, place, name, deleted_at FROM {} WHERE due_at <= ? ORDER BY due_at LIMIT ?{}",
            tables.names,
            statements.dialect().exclusive()
        );
        let (mut expired, mut freed) = (Due::new(), Due::new());
        for row in statements.query(&sql, &[self.at_ms.into(), i64::from(self.batch).into()]).await? {
            let due = if row.maybe_integer(3)?.is_some() { &mut freed } else { &mut expired };
            due.entry(row.text(0)?).or_default().push((row.integer(1)?, row.text(2)?));
        }
        Ok((expired, freed))
    }
}

/// The condition that names of a keyspace meet in some table, and what it asks for.
type Condition = fn(&str, &[Placed<'_>]) -> (String, Vec<Value>);

/// Runs `sql`, which asks for `first`, on what is due, piece by piece.
async fn each<S: Statements>(
    statements: &mut S,
    sql: &str,
    first: &[Value],
    due: &Due,
    condition: Condition,
) -> Result<u64, SqlError> {
    let mut count = 0;
    for (keyspace, names) in due {
        let placed = names.iter().map(|(place, name)| Placed { place: *place, name });
        let (numbered, others): (Vec<_>, Vec<_>) = placed.partition(Placed::has_number);
        for piece in pieces(&numbered).chain(pieces(&others)) {
            let (condition, values) = condition(keyspace, piece);
            let values = [first, &values].concat();
            count += statements.execute(&format!("{sql} WHERE {condition}"), &values).await?;
        }
    }
    Ok(count)
}

/// Marks lie in an order of their own.
fn marks_of(keyspace: &str, names: &[Placed<'_>]) -> (String, Vec<Value>) {
    let condition = format!("{OF_KEYSPACE} AND name IN ({})", question_marks(names.len()));
    let asked = std::iter::once(keyspace).chain(names.iter().map(|placed| placed.name));
    (condition, asked.map(Value::from).collect())
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
        let bury = format!("UPDATE {names} SET target = NULL, deleted_at = ?, due_at = ?");
        let when = [self.at_ms.into(), self.reusable_at_ms.into()];
        let buried = each(statements, &bury, &when, &expired, among).await?;
        each(statements, &format!("DELETE FROM {marks}"), &[], &freed, marks_of).await?;
        let freed = each(statements, &format!("DELETE FROM {names}"), &[], &freed, among).await?;
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
            let sql =
                format!("DELETE FROM {} WHERE scope IN ({})", tables.receipts, question_marks(piece.len()));
            count += statements.execute(&sql, piece).await?;
        }
        Ok(count)
    }
}
