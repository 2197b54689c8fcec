//! A chosen name, bound to nothing yet.

use keymill_sql::{Access, SqlError, Statements};

use super::{
    Operation, Receipt,
    grant::{Granted, grant_guarded},
    moved,
    receipt::{self, Overtaken},
};
use crate::{
    Entry, Kind,
    limits::{self, Checked},
    tables::{Grant, Tables},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub keyspace: String,
    pub name: String,
    /// What the name looks like. `Some`: a name that looks the same, alive or dead, keeps this one from being
    /// granted, if it was granted with its skeleton too.
    pub skeleton: Option<String>,
    pub at_ms: i64,
    /// Kept if the name is granted.
    pub receipt: Option<Receipt>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    Granted(Entry),
    Taken {
        by: TakenBy,
    },
    /// Another attempt at the same request took over: nothing was done. Its answer, if it has one by now.
    Overtaken {
        answer: Option<String>,
    },
}

/// What keeps a name from being granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenBy {
    /// Someone chose it before, and has not bound it.
    Alias,
    /// It leads somewhere.
    Bound,
    /// It was in use before Keymill came.
    Used,
    /// It was deleted, or has expired.
    Tombstone,
    LookAlike {
        name: String,
    },
}

impl TakenBy {
    fn entry(entry: &Entry, at_ms: i64) -> Self {
        match entry {
            gone if gone.is_gone(at_ms) => Self::Tombstone,
            Entry { kind: Kind::Used, .. } => Self::Used,
            Entry { target: Some(_), .. } => Self::Bound,
            // A key without a target is waiting for one, as an alias does.
            Entry { target: None, .. } => Self::Alias,
        }
    }
}

impl Operation for Claim {
    type Answer = Claimed;
    const ACCESS: Access = Access::Write;

    fn keyspaces(&self) -> Vec<&str> {
        vec![&self.keyspace]
    }

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::name("the name", &self.name)?;
        limits::skeleton(self.skeleton.as_ref())?;
        receipt::check(self.receipt.as_ref())
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Claimed, SqlError> {
        let Self { keyspace, name, skeleton, at_ms, receipt } = self;
        if let Some(Overtaken { answer }) = receipt::hold(tables, statements, receipt.as_ref()).await? {
            return Ok(Claimed::Overtaken { answer });
        }
        let grant = Grant {
            keyspace,
            name,
            kind: Kind::Alias,
            target: None,
            owner: None,
            at_ms: *at_ms,
            expires_at_ms: None,
        };
        match grant_guarded(tables, statements, grant, skeleton.as_deref()).await? {
            Granted::New => {
                receipt::keep(tables, statements, receipt.as_ref()).await?;
                Ok(Claimed::Granted(grant.entry()))
            }
            Granted::LookAlike { name } => Ok(Claimed::Taken { by: TakenBy::LookAlike { name } }),
            Granted::Taken => {
                let entry =
                    tables.find(statements, keyspace, name).await?.ok_or_else(|| moved("the name"))?;
                Ok(Claimed::Taken { by: TakenBy::entry(&entry, *at_ms) })
            }
        }
    }
}
