//! The one key of some content.

use keymill_sql::{Access, SqlError, Statements};

use super::{
    Operation, Receipt, moved,
    receipt::{self, Overtaken},
};
use crate::{
    Entry, Kind, RegistryError,
    limits::{self, CANDIDATES_MAX, Checked},
    tables::{Grant, Mark, Tables},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derive {
    pub keyspace: String,
    /// What the content is, whatever spells its key: the hex SHA-256 of its canonical form.
    pub identity: String,
    /// Keys to try, the first first.
    pub candidates: Vec<String>,
    pub target: Option<String>,
    pub owner: Option<String>,
    pub expires_at_ms: Option<i64>,
    pub at_ms: i64,
    /// Kept if the key is new.
    pub receipt: Option<Receipt>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Derived {
    /// `collisions`: candidates that were taken.
    New {
        entry: Entry,
        collisions: u32,
    },
    Known {
        entry: Entry,
    },
    /// Every candidate is taken by something else.
    Exhausted {
        collisions: u32,
    },
    /// The content had a key, which was deleted or has expired.
    Gone,
    /// Another attempt at the same request took over: nothing was done. Its answer, if it has one by now.
    Overtaken {
        answer: Option<String>,
    },
}

impl Derive {
    fn grant<'a>(&'a self, candidate: &'a str) -> Grant<'a> {
        Grant {
            keyspace: &self.keyspace,
            name: candidate,
            kind: Kind::Issued,
            target: self.target.as_deref(),
            owner: self.owner.as_deref(),
            at_ms: self.at_ms,
            expires_at_ms: self.expires_at_ms,
        }
    }

    /// The key that the content has.
    async fn known<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Option<Derived>, SqlError> {
        let mark = Mark::Identity(&self.identity);
        let Some(name) = tables.marked(statements, &self.keyspace, mark).await? else { return Ok(None) };
        let entry = tables.find(statements, &self.keyspace, &name).await?;
        let entry = entry.ok_or_else(|| moved("the content's key"))?;
        Ok(Some(if entry.is_gone(self.at_ms) { Derived::Gone } else { Derived::Known { entry } }))
    }
}

impl Operation for Derive {
    type Answer = Derived;
    const ACCESS: Access = Access::Write;

    fn keyspaces(&self) -> Vec<&str> {
        vec![&self.keyspace]
    }

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::mark("the identity", &self.identity)?;
        self.candidates.iter().try_for_each(|candidate| limits::name("a candidate", candidate))?;
        self.target.iter().try_for_each(|target| limits::text("the target", target))?;
        limits::owner(self.owner.as_ref())?;
        let count = self.candidates.len();
        if count > CANDIDATES_MAX {
            let problem = format!("{count} candidates are more than {CANDIDATES_MAX} for one content");
            return Err(RegistryError::Refused(problem));
        }
        receipt::check(self.receipt.as_ref())
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Derived, SqlError> {
        let receipt = self.receipt.as_ref();
        if let Some(Overtaken { answer }) = receipt::hold(tables, statements, receipt).await? {
            return Ok(Derived::Overtaken { answer });
        }
        let mut collisions = 0;
        for candidate in &self.candidates {
            // Before the first, and again whenever one is taken: perhaps by the same content just now.
            if let Some(known) = self.known(tables, statements).await? {
                return Ok(known);
            }
            let grant = self.grant(candidate);
            if tables.grant(statements, grant).await? {
                let mark = Mark::Identity(&self.identity);
                tables.mark(statements, &self.keyspace, mark, candidate).await?;
                receipt::keep(tables, statements, receipt).await?;
                return Ok(Derived::New { entry: grant.entry(), collisions });
            }
            collisions += 1;
        }
        let known = self.known(tables, statements).await?;
        Ok(known.unwrap_or(Derived::Exhausted { collisions }))
    }
}
