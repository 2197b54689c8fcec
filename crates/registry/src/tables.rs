//! The tables by name, and rows of `names` and `marks` as what they mean. No decision is made here.

use std::collections::HashMap;

use keymill_sql::{Row, SqlError, Statements, Value};

use crate::{
    Entry, Kind,
    batch::{padded, pieces, places, plan_afresh},
    ops::moved,
};

/// What is read of an entry, in the order [`read_entry`] expects.
pub(crate) const ENTRY: &str = "name, kind, target, owner, created_at, expires_at, deleted_at, visits";
/// What is written of a new one, in the order of [`Grant::values`].
const NEW_ENTRY: [&str; 9] =
    ["keyspace", "name", "kind", "target", "owner", "created_at", "expires_at", "visits", "due_at"];
const NEW_ENTRY_KEY: usize = 2;
const MARK: [&str; 3] = ["keyspace", "mark", "name"];
const MARK_KEY: usize = 2;

/// The keyspace, in a condition that is to be met by another index. An engine that knows little of a table,
/// because a migration fills it just now, takes `keyspace = ?` for a few rows and reads all of the keyspace.
pub(crate) const OF_KEYSPACE: &str = "coalesce(keyspace, '') = ?";

/// The text of what is said most is made once.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) names: String,
    pub(crate) marks: String,
    pub(crate) refs: String,
    pub(crate) receipts: String,
    find: String,
}

/// A new row of `names`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant<'a> {
    pub(crate) keyspace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    pub(crate) target: Option<&'a str>,
    pub(crate) owner: Option<&'a str>,
    pub(crate) at_ms: i64,
    pub(crate) expires_at_ms: Option<i64>,
}

/// What only one name of a keyspace may have.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mark<'a> {
    Identity(&'a str),
    Skeleton(&'a str),
}

impl Tables {
    pub(crate) fn new(prefix: &str) -> Self {
        let [names, marks, refs, receipts] =
            ["names", "marks", "refs", "receipts"].map(|table| format!("{prefix}_{table}"));
        let find = format!("SELECT {ENTRY} FROM {names} WHERE keyspace = ? AND name = ?");
        Self { names, marks, refs, receipts, find }
    }

    pub(crate) async fn find<S: Statements>(
        &self,
        statements: &mut S,
        keyspace: &str,
        name: &str,
    ) -> Result<Option<Entry>, SqlError> {
        let rows = statements.query(&self.find, &[keyspace.into(), name.into()]).await?;
        rows.first().map(|row| read_entry(keyspace, row)).transpose()
    }

    /// Those of the names that there are, in any order.
    pub(crate) async fn find_all<S: Statements>(
        &self,
        statements: &mut S,
        keyspace: &str,
        names: &[&str],
    ) -> Result<Vec<Entry>, SqlError> {
        let mut found = Vec::with_capacity(names.len());
        for (names, places_count) in padded(names) {
            let sql = format!(
                "SELECT {ENTRY} FROM {} WHERE keyspace = ? AND name IN ({})",
                self.names,
                places(places_count)
            );
            let last = names[names.len() - 1];
            let padding = std::iter::repeat_n(last, places_count - names.len());
            let asked = std::iter::once(keyspace).chain(names.iter().copied()).chain(padding);
            let values: Vec<Value> = asked.map(Value::from).collect();
            for row in statements.query(&sql, &values).await? {
                found.push(read_entry(keyspace, &row)?);
            }
        }
        Ok(found)
    }

    /// As [`find`](Self::find), and nobody else changes the row until this transaction ends.
    pub(crate) async fn lock<S: Statements>(
        &self,
        statements: &mut S,
        keyspace: &str,
        name: &str,
    ) -> Result<Option<Entry>, SqlError> {
        let sql = format!("{}{}", self.find, statements.dialect().exclusive());
        let rows = statements.query(&sql, &[keyspace.into(), name.into()]).await?;
        rows.first().map(|row| read_entry(keyspace, row)).transpose()
    }

    /// Makes the row unless there is one. Says whether this call made it.
    pub(crate) async fn grant<S: Statements>(
        &self,
        statements: &mut S,
        grant: Grant<'_>,
    ) -> Result<bool, SqlError> {
        statements.insert_absent(&self.names, &NEW_ENTRY, NEW_ENTRY_KEY, &grant.values()).await
    }

    /// Which of the names there are, and how they came to be.
    pub(crate) async fn known<S: Statements>(
        &self,
        statements: &mut S,
        keyspace: &str,
        names: impl Iterator<Item = &str> + Send,
    ) -> Result<HashMap<String, Kind>, SqlError> {
        let names: Vec<Value> = names.map(Value::from).collect();
        let mut known = HashMap::new();
        plan_afresh(statements).await?;
        for piece in pieces(&names) {
            let sql = format!(
                "SELECT name, kind FROM {} WHERE keyspace = ? AND name IN ({})",
                self.names,
                places(piece.len())
            );
            let values: Vec<Value> = std::iter::once(keyspace.into()).chain(piece.iter().cloned()).collect();
            for row in statements.query(&sql, &values).await? {
                known.insert(row.text(0)?, read_kind(keyspace, &row.text(1)?)?);
            }
        }
        Ok(known)
    }

    /// Makes rows unless they are there. Says whether this call made all of them.
    pub(crate) async fn grant_all<S: Statements>(
        &self,
        statements: &mut S,
        grants: &[Grant<'_>],
    ) -> Result<bool, SqlError> {
        Ok(self.grant_each(statements, grants).await?.iter().all(|is_new| *is_new))
    }

    /// Makes rows unless they are there. Says of each whether this call made it; of two for one name one can be.
    pub(crate) async fn grant_each<S: Statements>(
        &self,
        statements: &mut S,
        grants: &[Grant<'_>],
    ) -> Result<Vec<bool>, SqlError> {
        if let [grant] = grants {
            return Ok(vec![self.grant(statements, *grant).await?]);
        }
        // Two batches lock in the same order.
        let mut order: Vec<usize> = (0..grants.len()).collect();
        order.sort_by_key(|at| (grants[*at].keyspace, grants[*at].name));
        let rows: Vec<Vec<Value>> = order.iter().map(|at| grants[*at].values()).collect();
        let new = statements.insert_absent_many(&self.names, &NEW_ENTRY, NEW_ENTRY_KEY, &rows).await?;
        let mut is_new = vec![false; grants.len()];
        for (at, new) in order.into_iter().zip(new) {
            is_new[at] = new;
        }
        Ok(is_new)
    }

    /// The name that has the mark.
    pub(crate) async fn marked<S: Statements>(
        &self,
        statements: &mut S,
        keyspace: &str,
        mark: Mark<'_>,
    ) -> Result<Option<String>, SqlError> {
        let sql = format!("SELECT name FROM {} WHERE keyspace = ? AND mark = ?", self.marks);
        let rows = statements.query(&sql, &[keyspace.into(), mark.text().into()]).await?;
        rows.first().map(|row| row.text(0)).transpose()
    }

    /// If another name came first with the mark, the operation is run again.
    pub(crate) async fn mark<S: Statements>(
        &self,
        statements: &mut S,
        keyspace: &str,
        mark: Mark<'_>,
        name: &str,
    ) -> Result<(), SqlError> {
        let values = [keyspace.into(), mark.text().into(), name.into()];
        let is_new = statements.insert_absent(&self.marks, &MARK, MARK_KEY, &values).await?;
        if is_new { Ok(()) } else { Err(moved("the mark of a name")) }
    }
}

impl Grant<'_> {
    pub(crate) fn values(&self) -> Vec<Value> {
        vec![
            self.keyspace.into(),
            self.name.into(),
            self.kind.word().into(),
            self.target.map(str::to_owned).into(),
            self.owner.map(str::to_owned).into(),
            self.at_ms.into(),
            self.expires_at_ms.into(),
            0.into(),
            self.expires_at_ms.into(),
        ]
    }

    /// What it makes.
    pub(crate) fn entry(&self) -> Entry {
        Entry {
            keyspace: self.keyspace.to_owned(),
            name: self.name.to_owned(),
            kind: self.kind,
            target: self.target.map(str::to_owned),
            owner: self.owner.map(str::to_owned),
            created_at_ms: self.at_ms,
            expires_at_ms: self.expires_at_ms,
            deleted_at_ms: None,
            visits: 0,
        }
    }
}

impl Mark<'_> {
    /// Bytes that a mark is longer than what it marks.
    pub(crate) const PREFIX: usize = 2;

    fn text(self) -> String {
        match self {
            Self::Identity(identity) => format!("i:{identity}"),
            Self::Skeleton(skeleton) => format!("s:{skeleton}"),
        }
    }
}

pub(crate) fn read_entry(keyspace: &str, row: &Row) -> Result<Entry, SqlError> {
    let visits = row.integer(7)?;
    let wrong = |what: &str| SqlError::Unexpected(format!("an entry of `{keyspace}` has {what}"));
    Ok(Entry {
        keyspace: keyspace.to_owned(),
        name: row.text(0)?,
        kind: read_kind(keyspace, &row.text(1)?)?,
        target: row.maybe_text(2)?,
        owner: row.maybe_text(3)?,
        created_at_ms: row.integer(4)?,
        expires_at_ms: row.maybe_integer(5)?,
        deleted_at_ms: row.maybe_integer(6)?,
        visits: u64::try_from(visits).map_err(|_| wrong(&format!("{visits} visits")))?,
    })
}

fn read_kind(keyspace: &str, word: &str) -> Result<Kind, SqlError> {
    let wrong = || SqlError::Unexpected(format!("an entry of `{keyspace}` has the kind `{word}`"));
    Kind::from_word(word).ok_or_else(wrong)
}
