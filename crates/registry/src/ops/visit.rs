//! Visit counts, added in batches.

use std::collections::BTreeMap;

use keymill_sql::{Access, Dialect, SqlError, Statements, Value};

use super::Operation;
use crate::{
    batch::{pieces, places, plan_afresh},
    limits::{self, Checked},
    tables::Tables,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visits {
    pub keyspace: String,
    pub name: String,
    pub count: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct AddVisits {
    pub(crate) visits: Vec<Visits>,
}

impl AddVisits {
    /// One short statement for each: nothing is saved by a long one where nothing travels.
    async fn add_each<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(), SqlError> {
        let sql = format!(
            "UPDATE {} SET visits = visits + ? WHERE keyspace = ? AND name = ? AND deleted_at IS NULL",
            tables.names
        );
        for (keyspace, sums) in self.sums() {
            for (name, sum) in sums {
                statements.execute(&sql, &[sum.into(), keyspace.into(), name.into()]).await?;
            }
        }
        Ok(())
    }

    /// One sum per name, in the order of names: two who add at once lock them in the same order.
    fn sums(&self) -> BTreeMap<&str, Vec<(&str, i64)>> {
        let mut sums = BTreeMap::<(&str, &str), i64>::new();
        for Visits { keyspace, name, count } in &self.visits {
            *sums.entry((keyspace, name)).or_default() += i64::from(*count);
        }
        let mut by_keyspace = BTreeMap::<&str, Vec<(&str, i64)>>::new();
        for ((keyspace, name), sum) in sums {
            by_keyspace.entry(keyspace).or_default().push((name, sum));
        }
        by_keyspace
    }
}

impl Operation for AddVisits {
    type Answer = ();
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        limits::batch(self.visits.len())
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(), SqlError> {
        if statements.dialect() == Dialect::Sqlite {
            return self.add_each(tables, statements).await;
        }
        plan_afresh(statements).await?;
        for (keyspace, sums) in self.sums() {
            for piece in pieces(&sums) {
                let cases = vec!["WHEN ? THEN ?"; piece.len()].join(" ");
                let sql = format!(
                    "UPDATE {} SET visits = visits + CASE name {cases} ELSE 0 END \
                     WHERE keyspace = ? AND deleted_at IS NULL AND name IN ({})",
                    tables.names,
                    places(piece.len())
                );
                let mut values: Vec<Value> =
                    piece.iter().flat_map(|(name, sum)| [(*name).into(), (*sum).into()]).collect();
                values.push(keyspace.into());
                values.extend(piece.iter().map(|(name, _)| Value::from(*name)));
                statements.execute(&sql, &values).await?;
            }
        }
        Ok(())
    }
}
