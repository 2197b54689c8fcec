//! A name and its target. The first bind wins.

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
    tables::{BY_KEY, Grant, Tables},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    pub keyspace: String,
    pub name: String,
    /// What the entry will be if there is none; a claimed alias stays one.
    pub kind: Kind,
    pub target: String,
    pub owner: Option<String>,
    pub expires_at_ms: Option<i64>,
    pub at_ms: i64,
    /// As in [`Claim`](crate::Claim).
    pub skeleton: Option<String>,
    /// Not even a name that was claimed and leads nowhere yet: whoever claimed it says where.
    pub only_new: bool,
    /// Kept if this bind is the one that wins.
    pub receipt: Option<Receipt>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// By this call.
    New(Entry),
    /// Before, to the same target.
    Same(Entry),
    /// Before, to another one; or it was in use before Keymill came, and is nobody's; or it was claimed, and only
    /// a new name was wanted.
    AlreadyBound(Entry),
    /// Deleted or expired.
    Gone,
    LookAlike {
        name: String,
    },
    /// Another attempt at the same request took over: nothing was done. Its answer, if it has one by now.
    Overtaken {
        answer: Option<String>,
    },
}

impl Bind {
    /// Whether it asks for nothing but the row.
    pub(crate) fn is_bare(&self) -> bool {
        self.skeleton.is_none() && self.receipt.is_none()
    }

    pub(super) fn grant(&self) -> Grant<'_> {
        Grant {
            keyspace: &self.keyspace,
            name: &self.name,
            kind: self.kind,
            target: Some(&self.target),
            owner: self.owner.as_deref(),
            at_ms: self.at_ms,
            expires_at_ms: self.expires_at_ms,
        }
    }

    /// The name is there: if it is a claimed one that waits for its target, here is the target.
    async fn bind_claimed<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<bool, SqlError> {
        let sql = format!(
            "UPDATE {} SET target = ?, owner = ?, expires_at = ?, due_at = ? WHERE {BY_KEY} \
             AND target IS NULL AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > ?) AND kind <> ?",
            tables.names
        );
        let [keyspace, place, name] = tables.key(&self.keyspace, &self.name);
        let values = [
            self.target.as_str().into(),
            self.owner.clone().into(),
            self.expires_at_ms.into(),
            self.expires_at_ms.into(),
            keyspace,
            place,
            name,
            self.at_ms.into(),
            Kind::Used.word().into(),
        ];
        Ok(statements.execute(&sql, &values).await? == 1)
    }

    /// What a row that could not be bound means.
    fn refused(&self, entry: Entry) -> Result<Bound, SqlError> {
        match &entry.target {
            _ if entry.is_gone(self.at_ms) => Ok(Bound::Gone),
            Some(target) if *target == self.target => Ok(Bound::Same(entry)),
            None if entry.kind != Kind::Used && !self.only_new => Err(moved("the name")),
            _ => Ok(Bound::AlreadyBound(entry)),
        }
    }
}

impl Operation for Bind {
    type Answer = Bound;
    const ACCESS: Access = Access::Write;

    fn keyspaces(&self) -> Vec<&str> {
        vec![&self.keyspace]
    }

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::name("the name", &self.name)?;
        limits::text("the target", &self.target)?;
        limits::owner(self.owner.as_ref())?;
        limits::skeleton(self.skeleton.as_ref())?;
        receipt::check(self.receipt.as_ref())
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Bound, SqlError> {
        let receipt = self.receipt.as_ref();
        if let Some(Overtaken { answer }) = receipt::hold(tables, statements, receipt).await? {
            return Ok(Bound::Overtaken { answer });
        }
        let grant = self.grant();
        let entry = match grant_guarded(tables, statements, grant, self.skeleton.as_deref()).await? {
            Granted::New => grant.entry(),
            Granted::LookAlike { name } => return Ok(Bound::LookAlike { name }),
            Granted::Taken => {
                let bound = !self.only_new && self.bind_claimed(tables, statements).await?;
                let entry = tables.find(statements, &self.keyspace, &self.name).await?;
                let entry = entry.ok_or_else(|| moved("the name"))?;
                if !bound {
                    return self.refused(entry);
                }
                entry
            }
        };
        receipt::keep(tables, statements, receipt).await?;
        Ok(Bound::New(entry))
    }
}
