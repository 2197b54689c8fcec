//! What adds rows: a push of the filler, an import, and the log of keys that never were rows.

use std::{collections::HashSet, sync::Arc};

use keymill_id::{Number, Slab};
use keymill_issuer::rowed::Era;
use keymill_sql::{Access, SqlError, Statements, Value, Work};

use super::{
    record::{Lock, Place},
    tables::{ROW, Tables},
};

/// Adds the keys of a block and moves `next` beyond it.
#[derive(Debug, Clone)]
pub(super) struct Push {
    place: Place,
    era: Era,
    from: Number,
    to: Number,
    keys: Arc<[Vec<Value>]>,
    looks_first: bool,
}

impl Push {
    pub(super) fn new(place: Place, era: Era, slab: &Slab) -> Self {
        let text = |index| String::from_utf8_lossy(slab.key(index)).into_owned();
        Self {
            place,
            era,
            from: slab.block().start(),
            to: slab.block().end(),
            keys: (0..slab.len()).map(|index| vec![text(index).into()]).collect(),
            looks_first: false,
        }
    }

    /// Someone has put some of the keys there already: this one looks, and leaves those out.
    pub(super) fn cautious(self) -> Self {
        Self { looks_first: true, ..self }
    }
}

impl Work for Push {
    /// How many rows were added; `None` if the pool is not where the block begins.
    type Answer = Option<u64>;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Option<u64>, SqlError> {
        let record = self.place.locked_in(statements, Some(self.era)).await?;
        let Some(record) = record.filter(|record| record.next == self.from && record.doubt().is_none())
        else {
            return Ok(None);
        };
        let Place { tables, .. } = &self.place;
        let added = if self.looks_first {
            let keys = self.keys.iter().flatten().filter_map(text).collect();
            tables.put_absent(statements, keys).await?.len() as u64
        } else {
            statements.load(&tables.available, &[tables.key()], &self.keys).await?
        };
        let advance = format!("UPDATE {} SET next_number = ? WHERE {ROW} AND next_number = ?", tables.pool);
        statements.execute(&advance, &[number(self.to), number(record.next)]).await?;
        Ok(Some(added))
    }
}

/// Adds keys that were made elsewhere.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) place: Place,
    pub(super) era: Era,
    pub(super) keys: Vec<String>,
}

impl Work for Import {
    /// Which ones were new; `None` if the era is over.
    type Answer = Option<Vec<bool>>;
    const ACCESS: Access = Access::Write;

    /// Imports wait for each other: of two with the same key, the later one finds it.
    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Self::Answer, SqlError> {
        let record = self.place.locked_in(statements, Some(self.era)).await?;
        if record.is_none_or(|record| record.doubt().is_some()) {
            return Ok(None);
        }
        let mut added = self.place.tables.put_absent(statements, self.keys.clone()).await?;
        // Of a key that is named twice, the first is new.
        Ok(Some(self.keys.iter().map(|key| added.remove(key)).collect()))
    }
}

/// Logs keys that leave without ever having been rows.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) place: Place,
    pub(super) keys: Vec<String>,
    pub(super) node: String,
}

impl Work for Log {
    /// The keys that may leave: a key that is in either table is somebody's.
    type Answer = Vec<String>;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Vec<String>, SqlError> {
        self.place.record(statements, Lock::Exclusive).await?;
        let tables = &self.place.tables;
        let absent = tables.absent(statements, self.keys.clone()).await?;
        let rows: Vec<Vec<Value>> =
            absent.iter().map(|key| vec![key.as_str().into(), self.node.as_str().into()]).collect();
        statements.load(&tables.used, &[tables.key(), "used_by"], &rows).await?;
        Ok(absent)
    }
}

impl Tables {
    /// Adds the keys that are in neither table, and says which those were.
    async fn put_absent<S: Statements>(
        &self,
        statements: &mut S,
        keys: Vec<String>,
    ) -> Result<HashSet<String>, SqlError> {
        let absent = self.absent(statements, keys).await?;
        let rows: Vec<Vec<Value>> = absent.iter().map(|key| vec![key.as_str().into()]).collect();
        statements.load(&self.available, &[self.key()], &rows).await?;
        Ok(absent.into_iter().collect())
    }

    /// The keys that are in neither table, each once. As long as the pool's row is held, a key only ever goes from
    /// `available_keys` to `used_keys`, so whoever looks in that order cannot miss it in between.
    async fn absent<S: Statements>(
        &self,
        statements: &mut S,
        mut keys: Vec<String>,
    ) -> Result<Vec<String>, SqlError> {
        let mut known = HashSet::new();
        for table in [&self.available, &self.used] {
            known.extend(self.known(statements, table, &keys).await?);
        }
        keys.retain(|key| known.insert(key.clone()));
        Ok(keys)
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => text.clone(),
        _ => None,
    }
}

/// Numbers of a ledger fit any engine's integers.
pub(super) fn number(number: Number) -> Value {
    i64::try_from(number.get()).unwrap_or(i64::MAX).into()
}
