//! A tombstone in place of an entry.

use keymill_sql::{Access, SqlError, Statements};

use super::Operation;
use crate::{
    limits::{self, Checked},
    tables::{BY_KEY, Tables},
};

#[derive(Debug, Clone)]
pub(crate) struct Delete {
    pub(crate) keyspace: String,
    pub(crate) name: String,
    pub(crate) at_ms: i64,
    pub(crate) reusable_at_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    Done,
    /// It was deleted before.
    Gone,
    /// There is no such name.
    NotThere,
}

impl Operation for Delete {
    type Answer = Deleted;
    const ACCESS: Access = Access::Write;

    fn keyspaces(&self) -> Vec<&str> {
        vec![&self.keyspace]
    }

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::name("the name", &self.name)
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Deleted, SqlError> {
        match tables.lock(statements, &self.keyspace, &self.name).await? {
            None => return Ok(Deleted::NotThere),
            Some(entry) if entry.deleted_at_ms.is_some() => return Ok(Deleted::Gone),
            Some(_) => {}
        }
        let sql =
            format!("UPDATE {} SET target = NULL, deleted_at = ?, due_at = ? WHERE {BY_KEY}", tables.names);
        let [keyspace, place, name] = tables.key(&self.keyspace, &self.name);
        let values = [self.at_ms.into(), self.reusable_at_ms.into(), keyspace, place, name];
        statements.execute(&sql, &values).await?;
        Ok(Deleted::Done)
    }
}
