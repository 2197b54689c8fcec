//! The tables by name, and rows of `names` and `marks` as what they mean. No decision is made here.

use std::{collections::HashMap, sync::Arc};

use keymill_sql::{Row, SqlError, Statements, Value};

use crate::{
    Entry, Kind,
    batch::{padded, pieces, plan_afresh, question_marks},
    ops::moved,
    order::{NO_NUMBER, Order, Orders},
};

/// What is read of an entry, in the order [`read_entry`] expects.
pub(crate) const ENTRY: &str = "name, kind, target, owner, created_at, expires_at, deleted_at, visits";
/// What is written of a new one, in the order of [`Grant::values`].
const NEW_ENTRY: [&str; 10] =
    ["keyspace", "place", "name", "kind", "target", "owner", "created_at", "expires_at", "visits", "due_at"];
const NEW_ENTRY_KEY: usize = 3;
/// The condition that one name meets; see [`Tables::key`].
pub(crate) const BY_KEY: &str = "keyspace = ? AND place = ? AND name = ?";
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
    pub(crate) orders: String,
    pub(crate) issued: String,
    pub(crate) known_orders: Orders,
    find: String,
}

/// A name and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Placed<'a> {
    pub(crate) place: i64,
    pub(crate) name: &'a str,
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

impl Placed<'_> {
    pub(crate) fn has_number(&self) -> bool {
        self.place != NO_NUMBER
    }
}

impl Tables {
    pub(crate) fn new(prefix: &str) -> Self {
        let [names, marks, refs, receipts, orders, issued] =
            ["names", "marks", "refs", "receipts", "orders", "issued"]
                .map(|table| format!("{prefix}_{table}"));
        let find = format!("SELECT {ENTRY} FROM {names} WHERE {BY_KEY}");
        Self { names, marks, refs, receipts, orders, issued, known_orders: Orders::default(), find }
    }

    /// How the names of a keyspace lie.
    ///
    /// # Panics
    /// If that was not looked up before: what is done to a name in a wrong place is done to none.
    pub(crate) fn order(&self, keyspace: &str) -> Arc<Order> {
        self.known_orders.get(keyspace).expect("an operation names the keyspaces whose names it looks for")
    }

    /// What [`BY_KEY`] asks for.
    pub(crate) fn key(&self, keyspace: &str, name: &str) -> [Value; 3] {
        [keyspace.into(), self.order(keyspace).place(name).into(), name.into()]
    }

    /// Names of one keyspace in the order they lie in: those without a number, then those that have one.
    pub(crate) fn placed<'a>(
        &self,
        keyspace: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> [Vec<Placed<'a>>; 2] {
        let order = self.order(keyspace);
        let mut placed: Vec<Placed<'a>> =
            names.into_iter().map(|name| Placed { place: order.place(name), name }).collect();
        placed.sort_unstable();
        let numbered = placed.split_off(placed.partition_point(|placed| !placed.has_number()));
        [placed, numbered]
    }

    pub(crate) async fn find<S: Statements>(
        &self,
        statements: &mut S,
        keyspace: &str,
        name: &str,
    ) -> Result<Option<Entry>, SqlError> {
        let rows = statements.query(&self.find, &self.key(keyspace, name)).await?;
        rows.into_iter().next().map(|row| read_entry(keyspace, row)).transpose()
    }

    /// Those of the names that there are, in any order, and perhaps others.
    pub(crate) async fn find_all<S: Statements>(
        &self,
        statements: &mut S,
        keyspace: &str,
        names: &[&str],
    ) -> Result<Vec<Entry>, SqlError> {
        let mut found = Vec::with_capacity(names.len());
        for placed in self.placed(keyspace, names.iter().copied()) {
            for piece in padded(&placed) {
                let (condition, values) = lying_at(keyspace, &piece);
                let sql = format!("SELECT {ENTRY} FROM {} WHERE {condition}", self.names);
                for row in statements.query(&sql, &values).await? {
                    found.push(read_entry(keyspace, row)?);
                }
            }
        }
        Ok(found)
    }

    /// Rows of a table whose rows lie as names do, from the start or behind a name, as they lie.
    pub(crate) async fn behind<S: Statements>(
        &self,
        statements: &mut S,
        table: &str,
        columns: &str,
        keyspace: &str,
        name: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Row>, SqlError> {
        let limit = i64::from(limit);
        let place = name.map_or(i64::MIN, |name| self.order(keyspace).place(name));
        let mut rows = Vec::new();
        // Two questions, for each of which every engine goes along its index.
        if let Some(name) = name {
            let sql = format!(
                "SELECT {columns} FROM {table} WHERE keyspace = ? AND place = ? AND name > ? ORDER BY name LIMIT ?"
            );
            let values = [keyspace.into(), place.into(), name.into(), limit.into()];
            rows = statements.query(&sql, &values).await?;
        }
        let left = limit - i64::try_from(rows.len()).expect("a page is small");
        if left > 0 {
            let sql = format!(
                "SELECT {columns} FROM {table} WHERE keyspace = ? AND place > ? ORDER BY place, name LIMIT ?"
            );
            rows.extend(statements.query(&sql, &[keyspace.into(), place.into(), left.into()]).await?);
        }
        Ok(rows)
    }

    /// As [`find`](Self::find), and nobody else changes the row until this transaction ends.
    pub(crate) async fn lock<S: Statements>(
        &self,
        statements: &mut S,
        keyspace: &str,
        name: &str,
    ) -> Result<Option<Entry>, SqlError> {
        let sql = format!("{}{}", self.find, statements.dialect().exclusive());
        let rows = statements.query(&sql, &self.key(keyspace, name)).await?;
        rows.into_iter().next().map(|row| read_entry(keyspace, row)).transpose()
    }

    /// Makes the row unless there is one. Says whether this call made it.
    pub(crate) async fn grant<S: Statements>(
        &self,
        statements: &mut S,
        grant: Grant<'_>,
    ) -> Result<bool, SqlError> {
        let values = grant.values(self.order(grant.keyspace).place(grant.name));
        statements.insert_absent(&self.names, &NEW_ENTRY, NEW_ENTRY_KEY, &values).await
    }

    /// Which of the names there are, and how they came to be; perhaps others too.
    pub(crate) async fn known<S: Statements>(
        &self,
        statements: &mut S,
        keyspace: &str,
        names: impl Iterator<Item = &str> + Send,
    ) -> Result<HashMap<String, Kind>, SqlError> {
        let mut known = HashMap::new();
        plan_afresh(statements).await?;
        for placed in self.placed(keyspace, names) {
            for piece in pieces(&placed) {
                let (condition, values) = lying_at(keyspace, piece);
                let sql = format!("SELECT name, kind FROM {} WHERE {condition}", self.names);
                for row in statements.query(&sql, &values).await? {
                    known.insert(row.text(0)?, read_kind(keyspace, &row.text(1)?)?);
                }
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
        let place = |grant: &Grant<'_>| self.order(grant.keyspace).place(grant.name);
        let mut order: Vec<(&str, i64, &str, usize)> = grants
            .iter()
            .enumerate()
            .map(|(at, grant)| (grant.keyspace, place(grant), grant.name, at))
            .collect();
        // Two batches lock in the same order, and what lies together is written together.
        order.sort_unstable();
        let rows: Vec<Vec<Value>> =
            order.iter().map(|(_, place, _, at)| grants[*at].values(*place)).collect();
        let new = statements.insert_absent_many(&self.names, &NEW_ENTRY, NEW_ENTRY_KEY, &rows).await?;
        let mut is_new = vec![false; grants.len()];
        for ((.., at), new) in order.into_iter().zip(new) {
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
    fn values(&self, place: i64) -> Vec<Value> {
        vec![
            self.keyspace.into(),
            place.into(),
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

/// The condition that these names of a keyspace meet, and what it asks for. They all have numbers, or none has. Where
/// they have, others that lie in the same places may meet it too; see [`among`].
fn lying_at(keyspace: &str, names: &[Placed<'_>]) -> (String, Vec<Value>) {
    let marks = question_marks(names.len());
    if names.first().is_some_and(Placed::has_number) {
        let places = names.iter().map(|placed| placed.place.into());
        let values = std::iter::once(keyspace.into()).chain(places).collect();
        return (format!("keyspace = ? AND place IN ({marks})"), values);
    }
    let names = names.iter().map(|placed| placed.name.into());
    let values = [keyspace.into(), NO_NUMBER.into()].into_iter().chain(names).collect();
    (format!("keyspace = ? AND place = ? AND name IN ({marks})"), values)
}

/// The same, for what is done to these names and no other. No engine is to take the names of what has a place for a
/// second way in.
pub(crate) fn among(keyspace: &str, names: &[Placed<'_>]) -> (String, Vec<Value>) {
    let (mut condition, mut values) = lying_at(keyspace, names);
    if names.first().is_some_and(Placed::has_number) {
        condition += &format!(" AND coalesce(name, '') IN ({})", question_marks(names.len()));
        values.extend(names.iter().map(|placed| Value::from(placed.name)));
    }
    (condition, values)
}

pub(crate) fn read_entry(keyspace: &str, mut row: Row) -> Result<Entry, SqlError> {
    let visits = row.integer(7)?;
    let wrong = |what: &str| SqlError::Unexpected(format!("an entry of `{keyspace}` has {what}"));
    Ok(Entry {
        keyspace: keyspace.to_owned(),
        name: row.take_text(0)?,
        kind: read_kind(keyspace, &row.take_text(1)?)?,
        target: row.take_maybe_text(2)?,
        owner: row.take_maybe_text(3)?,
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
