//! How the names of a keyspace lie: decided once, by whoever is first.

use keymill_sql::{Access, SqlError, Statements};

use super::{Operation, moved};
use crate::{
    limits::{self, Checked},
    tables::Tables,
};

const ROW: [&str; 2] = ["keyspace", "definition"];
const ROW_KEY: usize = 1;

/// The order that a keyspace has.
pub(crate) struct FindOrder {
    pub(crate) keyspace: String,
}

/// The order of a keyspace, from now on this one unless it has one.
pub(crate) struct Arrange {
    pub(crate) keyspace: String,
    /// As [`Order`](crate::order::Order) keeps it.
    pub(crate) stored: String,
}

async fn find<S: Statements>(
    tables: &Tables,
    statements: &mut S,
    keyspace: &str,
) -> Result<Option<String>, SqlError> {
    let sql = format!("SELECT definition FROM {} WHERE keyspace = ?", tables.orders);
    let rows = statements.query(&sql, &[keyspace.into()]).await?;
    rows.first().map(|row| row.text(0)).transpose()
}

impl Operation for FindOrder {
    type Answer = Option<String>;
    const ACCESS: Access = Access::Read;
    const IS_GLANCE: bool = true;

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)
    }

    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Option<String>, SqlError> {
        find(tables, statements, &self.keyspace).await
    }
}

impl Operation for Arrange {
    type Answer = String;
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<String, SqlError> {
        let values = [self.keyspace.as_str().into(), self.stored.as_str().into()];
        if statements.insert_absent(&tables.orders, &ROW, ROW_KEY, &values).await? {
            return Ok(self.stored.clone());
        }
        find(tables, statements, &self.keyspace).await?.ok_or_else(|| moved("the order of the names"))
    }
}
