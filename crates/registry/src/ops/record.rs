//! A row for each key that leaves, before it does.

use keymill_sql::{Access, SqlError, Statements, Value};

use super::Operation;
use crate::{
    limits::{self, Checked},
    tables::{Placed, Tables},
};

const ROW: [&str; 5] = ["keyspace", "place", "name", "node", "issued_at"];

/// Keys that are about to leave. One that has a row already is refused, and all with it: nobody may get it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub keyspace: String,
    pub keys: Vec<String>,
    pub node: String,
    pub at_ms: i64,
}

impl Operation for Record {
    type Answer = ();
    const ACCESS: Access = Access::Write;

    fn keyspaces(&self) -> Vec<&str> {
        vec![&self.keyspace]
    }

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::name("the node", &self.node)?;
        self.keys.iter().try_for_each(|key| limits::name("a key", key))
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(), SqlError> {
        let keys = tables.placed(&self.keyspace, self.keys.iter().map(String::as_str)).concat();
        let row = |key: &Placed<'_>| -> Vec<Value> {
            vec![
                self.keyspace.as_str().into(),
                key.place.into(),
                key.name.into(),
                self.node.as_str().into(),
                self.at_ms.into(),
            ]
        };
        let rows: Vec<Vec<Value>> = keys.iter().map(row).collect();
        statements.load(&tables.issued, &ROW, &rows).await.map(drop)
    }
}
