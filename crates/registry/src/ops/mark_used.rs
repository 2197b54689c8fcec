//! Names that were in use before Keymill came.

use std::collections::HashSet;

use keymill_sql::{Access, SqlError, Statements};

use super::Operation;
use crate::{
    Kind,
    batch::Caution,
    limits::{self, Checked},
    tables::{Grant, Tables},
};

#[derive(Debug)]
pub(crate) struct MarkUsed {
    pub(crate) keyspace: String,
    pub(crate) names: Vec<String>,
    pub(crate) at_ms: i64,
    pub(crate) caution: Caution,
}

impl Operation for MarkUsed {
    type Answer = Vec<bool>;
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::batch(self.names.len())?;
        self.names.iter().try_for_each(|name| limits::name("a name", name))
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Vec<bool>, SqlError> {
        let mut taken = HashSet::new();
        if self.caution.looks_first() {
            let names = self.names.iter().map(String::as_str);
            taken = tables.known(statements, &self.keyspace, names).await?;
        }
        let is_new: Vec<bool> = self.names.iter().map(|name| taken.insert(name.clone())).collect();
        let used = |name| Grant {
            keyspace: &self.keyspace,
            name,
            kind: Kind::Used,
            target: None,
            owner: None,
            at_ms: self.at_ms,
            expires_at_ms: None,
        };
        let new = self.names.iter().zip(&is_new).filter(|(_, is_new)| **is_new);
        let grants: Vec<Grant<'_>> = new.map(|(name, _)| used(name)).collect();
        if !tables.grant_all(statements, grants).await? {
            return Err(self.caution.look_next_time("a name of the batch"));
        }
        Ok(is_new)
    }
}
