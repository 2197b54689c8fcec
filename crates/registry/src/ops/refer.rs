//! One get-or-create: the same reference always gives the same key.

use keymill_sql::{Access, SqlError, Statements, Value};

use super::{
    Operation, Receipt, moved,
    receipt::{self, Overtaken},
    references::{ROW, ROW_KEY, Reference, digest, find},
};
use crate::{
    limits::{self, Checked},
    tables::Tables,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReference {
    pub keyspace: String,
    /// References of different owners are different.
    pub owner: Option<String>,
    pub reference: String,
    /// The key it gets, if it has none.
    pub key: String,
    pub at_ms: i64,
    /// Kept if the reference is new.
    pub receipt: Option<Receipt>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Referred {
    New,
    Known {
        key: String,
    },
    /// Another attempt at the same request took over: nothing was done. Its answer, if it has one by now.
    Overtaken {
        answer: Option<String>,
    },
}

impl NewReference {
    pub(super) fn digest(&self) -> String {
        digest(self.owner.as_deref(), &self.reference)
    }

    /// What it becomes, if it is new.
    pub(super) fn reference(&self) -> Reference {
        Reference {
            keyspace: self.keyspace.clone(),
            owner: self.owner.clone(),
            reference: self.reference.clone(),
            key: self.key.clone(),
            created_at_ms: self.at_ms,
        }
    }

    /// The key of what was found by its digest: the texts decide.
    pub(super) fn key_of(&self, found: &Reference) -> Result<String, SqlError> {
        found.key_of(self.owner.as_deref(), &self.reference)
    }

    /// In the order of [`ROW`].
    pub(super) fn values(&self) -> Vec<Value> {
        vec![
            self.keyspace.as_str().into(),
            self.digest().into(),
            self.owner.clone().into(),
            self.reference.as_str().into(),
            self.key.as_str().into(),
            self.at_ms.into(),
        ]
    }
}

impl Operation for NewReference {
    type Answer = Referred;
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::owner(self.owner.as_ref())?;
        limits::text("the reference", &self.reference)?;
        limits::name("the key", &self.key)?;
        receipt::check(self.receipt.as_ref())
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Referred, SqlError> {
        let receipt = self.receipt.as_ref();
        if let Some(Overtaken { answer }) = receipt::hold(tables, statements, receipt).await? {
            return Ok(Referred::Overtaken { answer });
        }
        if statements.insert_absent(&tables.refs, &ROW, ROW_KEY, &self.values()).await? {
            receipt::keep(tables, statements, receipt).await?;
            return Ok(Referred::New);
        }
        let Self { keyspace, owner, reference, .. } = self;
        let key = find(tables, statements, keyspace, owner.as_deref(), reference).await?;
        Ok(Referred::Known { key: key.ok_or_else(|| moved("the reference"))? })
    }
}
