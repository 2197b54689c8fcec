//! The move: rows leave `available_keys` and enter `used_keys` in one transaction, so that whoever gets a key got it
//! alone, and the log knows.
//!
//! Rows are taken in the order of their ids, from where the last move ended. From the beginning, an engine would
//! step over all that was ever taken and not yet swept away, and every move would be slower than the one before.

use std::collections::HashSet;

use keymill_sql::{Dialect, SqlError, Statements, Value};

use super::tables::Tables;

/// Values of one statement, the largest number first: each is a text of its own, which is prepared once.
const SIZES: [usize; 4] = [1_000, 100, 10, 1];

/// Which rows to move.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// Above this id.
    pub(super) after: i64,
    pub(super) count: u32,
    /// Reserved rows belong to other programs, until a pool is given up.
    pub(super) even_reserved: bool,
    /// Expects no key to be in the log already: one that is undoes the move.
    pub(super) trusts: bool,
}

/// Rows that were moved.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) keys: Vec<Vec<u8>>,
    /// The highest id among them.
    pub(super) up_to: Option<i64>,
    /// How many left `available_keys`. More than there are keys: some had been used before.
    pub(super) rows: u64,
}

impl Wish {
    fn condition(&self) -> &'static str {
        if self.even_reserved { "id > ?" } else { "id > ? AND NOT is_reserved" }
    }

    fn values(&self) -> [Value; 2] {
        [self.after.into(), i64::from(self.count).into()]
    }
}

impl Tables {
    /// Moves what is wished for, or as much of it as nobody else holds. A key that is in the log already has been
    /// taken before: it goes, and nobody gets it.
    pub(super) async fn take<S: Statements>(
        &self,
        statements: &mut S,
        wish: Wish,
        used_by: &str,
    ) -> Result<Moved, SqlError> {
        match self.dialect {
            Dialect::Postgres => self.take_at_once(statements, wish, used_by).await,
            Dialect::MySql => self.take_step_by_step(statements, wish, used_by).await,
            Dialect::Sqlite => self.take_alone(statements, wish, used_by).await,
        }
    }

    /// One statement. Rows are deleted by where they lie, so that no plan can look for them elsewhere. To look for
    /// each key in the log before it is put there costs as much again as to put it, and more the longer the log is.
    async fn take_at_once<S: Statements>(
        &self,
        statements: &mut S,
        wish: Wish,
        used_by: &str,
    ) -> Result<Moved, SqlError> {
        let (Self { available, used, .. }, which, lock) =
            (self, wish.condition(), self.dialect.skip_locked());
        let (unless_there, answer) = if wish.trusts {
            ("", "SELECT id, key FROM taken")
        } else {
            (
                " ON CONFLICT (key) DO NOTHING RETURNING key",
                "SELECT id, logged.key FROM taken LEFT JOIN logged ON logged.key = taken.key",
            )
        };
        let sql = format!(
            "WITH taken AS (
                DELETE FROM {available} WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM {available} WHERE {which} ORDER BY id LIMIT ?{lock}))
                RETURNING id, key),
             logged AS (
                INSERT INTO {used} (key, used_by) SELECT key, ? FROM taken ORDER BY id{unless_there})
             {answer} ORDER BY id"
        );
        let [after, count] = wish.values();
        let rows = statements.query(&sql, &[after, count, used_by.into()]).await?;
        let mut moved = Moved { rows: rows.len() as u64, ..Moved::default() };
        for row in &rows {
            moved.up_to = Some(row.integer(0)?);
            moved.keys.extend(row.maybe_text(1)?.map(String::into_bytes));
        }
        Ok(moved)
    }

    /// MySQL answers neither a delete nor an insert with rows.
    async fn take_step_by_step<S: Statements>(
        &self,
        statements: &mut S,
        wish: Wish,
        used_by: &str,
    ) -> Result<Moved, SqlError> {
        let (Self { available, used, .. }, which, lock) =
            (self, wish.condition(), self.dialect.skip_locked());
        let sql =
            format!("SELECT id, {} FROM {available} WHERE {which} ORDER BY id LIMIT ?{lock}", self.key());
        let rows = statements.query(&sql, &wish.values()).await?;
        let mut ids: Vec<Value> = Vec::with_capacity(rows.len());
        let mut keys = Vec::with_capacity(rows.len());
        for row in &rows {
            ids.push(row.integer(0)?.into());
            keys.push(row.text(1)?);
        }
        let up_to = rows.last().map(|row| row.integer(0)).transpose()?;
        let known = self.known(statements, used, &keys).await?;
        keys.retain(|key| !known.contains(key));
        let logged: Vec<Vec<Value>> =
            keys.iter().map(|key| vec![key.as_str().into(), used_by.into()]).collect();
        statements.load(used, &[self.key(), "used_by"], &logged).await?;
        for piece in pieces(&ids) {
            let sql = format!("DELETE FROM {available} WHERE id IN ({})", places(piece.len()));
            statements.execute(&sql, piece).await?;
        }
        Ok(Moved { keys: keys.into_iter().map(String::into_bytes).collect(), up_to, rows: ids.len() as u64 })
    }

    /// Nobody else writes meanwhile, so the same rows are found each time.
    async fn take_alone<S: Statements>(
        &self,
        statements: &mut S,
        wish: Wish,
        used_by: &str,
    ) -> Result<Moved, SqlError> {
        let (Self { available, used, .. }, which) = (self, wish.condition());
        let [after, count] = wish.values();
        let end =
            format!("SELECT max(id) FROM (SELECT id FROM {available} WHERE {which} ORDER BY id LIMIT ?)");
        let end = statements.query(&end, &[after.clone(), count]).await?;
        let Some(up_to) = end.first().and_then(|row| row.maybe_integer(0).transpose()).transpose()? else {
            return Ok(Moved::default());
        };
        let log = format!(
            "INSERT INTO {used} (key, used_by) SELECT key, ? FROM {available} WHERE {which} AND id <= ? ORDER BY id
             ON CONFLICT (key) DO NOTHING RETURNING key"
        );
        let rows = statements.query(&log, &[used_by.into(), after.clone(), up_to.into()]).await?;
        let keys = rows.iter().map(|row| row.text(0).map(String::into_bytes)).collect::<Result<_, _>>()?;
        let delete = format!("DELETE FROM {available} WHERE {which} AND id <= ?");
        let rows = statements.execute(&delete, &[after, up_to.into()]).await?;
        Ok(Moved { keys, up_to: Some(up_to), rows })
    }

    /// Which of the keys are in a table.
    pub(super) async fn known<S: Statements>(
        &self,
        statements: &mut S,
        table: &str,
        keys: &[String],
    ) -> Result<HashSet<String>, SqlError> {
        let (key, values): (_, Vec<Value>) =
            (self.key(), keys.iter().map(|key| key.as_str().into()).collect());
        let mut known = HashSet::new();
        for piece in pieces(&values) {
            let sql = format!("SELECT {key} FROM {table} WHERE {key} IN ({})", places(piece.len()));
            for row in statements.query(&sql, piece).await? {
                known.insert(row.text(0)?);
            }
        }
        Ok(known)
    }
}

/// The items in order, in pieces of [`SIZES`].
pub(super) fn pieces<T>(mut items: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = SIZES.into_iter().find(|size| *size <= items.len())?;
        let (piece, rest) = items.split_at(size);
        items = rest;
        Some(piece)
    })
}

/// `?, ?, ?`
pub(super) fn places(count: usize) -> String {
    vec!["?"; count].join(", ")
}
