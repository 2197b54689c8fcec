//! Names that were in use before Keymill came.

use std::collections::HashMap;

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

/// What became of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// By this call.
    New,
    /// Before, or earlier in the batch.
    Known,
    /// Someone has it; it stays as it was.
    Taken,
}

impl Operation for MarkUsed {
    type Answer = Vec<Marked>;
    const ACCESS: Access = Access::Write;

    fn keyspaces(&self) -> Vec<&str> {
        vec![&self.keyspace]
    }

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::batch(self.names.len())?;
        self.names.iter().try_for_each(|name| limits::name("a name", name))
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Vec<Marked>, SqlError> {
        let mut there = HashMap::new();
        if self.caution.looks_first() {
            let names = self.names.iter().map(String::as_str);
            there = tables.known(statements, &self.keyspace, names).await?;
        }
        let mark = |name: &String| match there.get(name) {
            None => {
                there.insert(name.clone(), Kind::Used);
                Marked::New
            }
            Some(Kind::Used) => Marked::Known,
            Some(Kind::Alias | Kind::Issued) => Marked::Taken,
        };
        let marked: Vec<Marked> = self.names.iter().map(mark).collect();
        let used = |name| Grant {
            keyspace: &self.keyspace,
            name,
            kind: Kind::Used,
            target: None,
            owner: None,
            at_ms: self.at_ms,
            expires_at_ms: None,
        };
        let new = self.names.iter().zip(&marked).filter(|(_, marked)| **marked == Marked::New);
        let grants: Vec<Grant<'_>> = new.map(|(name, _)| used(name)).collect();
        if !tables.grant_all(statements, &grants).await? {
            return Err(self.caution.look_next_time("a name of the batch"));
        }
        Ok(marked)
    }
}
