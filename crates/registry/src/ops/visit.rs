//! Visit counts, added in batches.

use keymill_sql::{Access, Dialect, SqlError, Statements, Value};

use super::Operation;
use crate::{
    batch::{pieces, plan_afresh},
    limits::{self, Checked},
    tables::{BY_KEY, Placed, Tables, among},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visits {
    pub keyspace: String,
    pub name: String,
    pub count: u32,
}

/// All visits of one name, and where it lies. They are added in the order they lie in: neighbours are written together,
/// and two who add at once lock them in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitSum {
    pub(crate) keyspace: String,
    pub(crate) place: i64,
    pub(crate) name: String,
    pub sum: u64,
}

impl VisitSum {
    fn placed(&self) -> Placed<'_> {
        Placed { place: self.place, name: &self.name }
    }

    fn count(&self) -> i64 {
        i64::try_from(self.sum).unwrap_or(i64::MAX)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct AddVisits {
    pub(crate) sums: Vec<VisitSum>,
}

impl AddVisits {
    /// One short statement for each: nothing is saved by a long one where nothing travels.
    async fn add_each<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(), SqlError> {
        let sql =
            format!("UPDATE {} SET visits = visits + ? WHERE {BY_KEY} AND deleted_at IS NULL", tables.names);
        for sum in &self.sums {
            let VisitSum { keyspace, place, name, .. } = sum;
            let values =
                [sum.count().into(), keyspace.as_str().into(), (*place).into(), name.as_str().into()];
            statements.execute(&sql, &values).await?;
        }
        Ok(())
    }
}

impl Operation for AddVisits {
    type Answer = ();
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        limits::batch(self.sums.len())
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(), SqlError> {
        if statements.dialect() == Dialect::Sqlite {
            return self.add_each(tables, statements).await;
        }
        plan_afresh(statements).await?;
        let alike = |a: &VisitSum, b: &VisitSum| {
            a.keyspace == b.keyspace && a.placed().has_number() == b.placed().has_number()
        };
        for piece in self.sums.chunk_by(alike).flat_map(pieces) {
            let placed: Vec<Placed<'_>> = piece.iter().map(VisitSum::placed).collect();
            let (condition, asked) = among(&piece[0].keyspace, &placed);
            let cases = vec!["WHEN ? THEN ?"; piece.len()].join(" ");
            let sql = format!(
                "UPDATE {} SET visits = visits + CASE name {cases} ELSE 0 END \
                 WHERE {condition} AND deleted_at IS NULL",
                tables.names
            );
            let added = piece.iter().flat_map(|sum| [sum.name.as_str().into(), sum.count().into()]);
            let values: Vec<Value> = added.chain(asked).collect();
            statements.execute(&sql, &values).await?;
        }
        Ok(())
    }
}
