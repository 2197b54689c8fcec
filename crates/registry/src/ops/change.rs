//! Where a bound name leads from now on, and for how long.

use keymill_sql::{Access, SqlError, Statements};

use super::Operation;
use crate::{
    Entry,
    limits::{self, Checked},
    tables::{BY_KEY, Tables},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub keyspace: String,
    pub name: String,
    /// `None`: as it is.
    pub target: Option<String>,
    pub expiry: Expiry,
    pub at_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    AsItIs,
    Never,
    At(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    Done(Entry),
    /// Deleted or expired: nothing brings it back.
    Gone,
    /// There is no such name, or it is not bound.
    NotBound,
}

impl Change {
    fn applied(&self, entry: Entry) -> Entry {
        let expires_at_ms = match self.expiry {
            Expiry::AsItIs => entry.expires_at_ms,
            Expiry::Never => None,
            Expiry::At(at_ms) => Some(at_ms),
        };
        Entry { target: self.target.clone().or(entry.target), expires_at_ms, ..entry }
    }
}

impl Operation for Change {
    type Answer = Changed;
    const ACCESS: Access = Access::Write;

    fn keyspaces(&self) -> Vec<&str> {
        vec![&self.keyspace]
    }

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::name("the name", &self.name)?;
        self.target.iter().try_for_each(|target| limits::text("the target", target))
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Changed, SqlError> {
        let found = tables.lock(statements, &self.keyspace, &self.name).await?;
        let entry = match found {
            Some(entry) if entry.is_gone(self.at_ms) => return Ok(Changed::Gone),
            Some(entry) if entry.target.is_some() => self.applied(entry),
            _ => return Ok(Changed::NotBound),
        };
        let sql =
            format!("UPDATE {} SET target = ?, expires_at = ?, due_at = ? WHERE {BY_KEY}", tables.names);
        let [keyspace, place, name] = tables.key(&self.keyspace, &self.name);
        let expires_at = || entry.expires_at_ms.into();
        let values = [entry.target.clone().into(), expires_at(), expires_at(), keyspace, place, name];
        statements.execute(&sql, &values).await?;
        Ok(Changed::Done(entry))
    }
}
