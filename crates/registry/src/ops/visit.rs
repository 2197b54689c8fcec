//! Visit counts, added in batches.

use std::collections::{BTreeMap, HashMap};

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

#[derive(Debug, Clone)]
pub(crate) struct AddVisits {
    pub(crate) visits: Vec<Visits>,
}

impl AddVisits {
    /// One short statement for each: nothing is saved by a long one where nothing travels.
    async fn add_each<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(), SqlError> {
        let sql =
            format!("UPDATE {} SET visits = visits + ? WHERE {BY_KEY} AND deleted_at IS NULL", tables.names);
        for (keyspace, sums) in self.sums() {
            for Placed { place, name } in tables.placed(keyspace, sums.keys().copied()).concat() {
                let values = [sums[name].into(), keyspace.into(), place.into(), name.into()];
                statements.execute(&sql, &values).await?;
            }
        }
        Ok(())
    }

    /// One sum per name. Keyspaces come in order, and names as they lie: two who add at once lock them in the same
    /// order.
    fn sums(&self) -> BTreeMap<&str, HashMap<&str, i64>> {
        let mut sums = BTreeMap::<&str, HashMap<&str, i64>>::new();
        for Visits { keyspace, name, count } in &self.visits {
            *sums.entry(keyspace).or_default().entry(name).or_default() += i64::from(*count);
        }
        sums
    }
}

impl Operation for AddVisits {
    type Answer = ();
    const ACCESS: Access = Access::Write;

    fn keyspaces(&self) -> Vec<&str> {
        self.visits.iter().map(|visits| visits.keyspace.as_str()).collect()
    }

    fn check(&self) -> Checked {
        limits::batch(self.visits.len())
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(), SqlError> {
        if statements.dialect() == Dialect::Sqlite {
            return self.add_each(tables, statements).await;
        }
        plan_afresh(statements).await?;
        for (keyspace, sums) in self.sums() {
            let [others, numbered] = tables.placed(keyspace, sums.keys().copied());
            for piece in pieces(&others).chain(pieces(&numbered)) {
                let cases = vec!["WHEN ? THEN ?"; piece.len()].join(" ");
                let (condition, asked) = among(keyspace, piece);
                let sql = format!(
                    "UPDATE {} SET visits = visits + CASE name {cases} ELSE 0 END \
                     WHERE {condition} AND deleted_at IS NULL",
                    tables.names
                );
                let added = piece.iter().flat_map(|placed| [placed.name.into(), sums[placed.name].into()]);
                let values: Vec<Value> = added.chain(asked).collect();
                statements.execute(&sql, &values).await?;
            }
        }
        Ok(())
    }
}
