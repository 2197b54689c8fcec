//! The pool's only row, and what it says of the pool.

use keymill_id::Number;
use keymill_issuer::rowed::Era;
use keymill_sql::{Access, Row, SqlError, Statements, Work};

use super::tables::{ROW, Tables};

/// Who the pool belongs to, and where it is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) tables: Tables,
    /// Ledger and keyspace: two that name the same tables are told apart by it.
    pub(super) owner: String,
    /// The engine's identity, as an expression.
    pub(super) identity: &'static str,
}

/// What the row says.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) owner: String,
    /// `None`: no era was begun, or the last one is over.
    pub(super) era: Option<Era>,
    pub(super) next: Number,
    /// On which engine the era was begun, and which one this is.
    pub(super) began_on: Option<String>,
    pub(super) engine: String,
}

/// A key that this process took, and when. As long as the log has it, the engine has forgotten none of the moves
/// before it.
#[derive(Debug, Clone)]
pub(super) struct Witness {
    pub(super) era: Era,
    pub(super) key: String,
}

impl Witness {
    /// Why the engine has forgotten something, if it has.
    pub(super) async fn doubt<S: Statements>(
        witness: Option<&Self>,
        place: &Place,
        record: &Record,
        statements: &mut S,
    ) -> Result<Option<String>, SqlError> {
        if let Some(doubt) = record.doubt() {
            return Ok(Some(doubt));
        }
        let Some(witness) = witness.filter(|witness| record.era == Some(witness.era)) else {
            return Ok(None);
        };
        let (used, key) = (&place.tables.used, place.tables.key());
        let found = statements
            .query(&format!("SELECT id FROM {used} WHERE {key} = ?"), &[witness.key.as_str().into()])
            .await?;
        Ok(found.is_empty().then(|| {
            format!("`{used}` no longer has what this node put there: its database went back, or the log was cut off")
        }))
    }
}

/// How a row is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    None,
    /// Nobody else changes the pool until this transaction ends.
    Exclusive,
}

impl Place {
    pub(super) async fn record<S: Statements>(
        &self,
        statements: &mut S,
        lock: Lock,
    ) -> Result<Record, SqlError> {
        let Self { tables: Tables { pool, .. }, identity, .. } = self;
        let lock = match lock {
            Lock::None => "",
            Lock::Exclusive => statements.dialect().exclusive(),
        };
        let sql = format!("SELECT owner, era, next_number, engine, {identity} FROM {pool} WHERE {ROW}{lock}");
        let rows = statements.query(&sql, &[]).await?;
        let row = rows.first().ok_or_else(|| SqlError::Refused(format!("`{pool}` is empty")))?;
        Record::read(row)
    }

    /// The record of a pool that is ours and in that era, for as long as this transaction. Otherwise `None`: look
    /// again.
    pub(super) async fn locked_in<S: Statements>(
        &self,
        statements: &mut S,
        era: Option<Era>,
    ) -> Result<Option<Record>, SqlError> {
        let record = self.record(statements, Lock::Exclusive).await?;
        Ok((record.owner == self.owner && record.era == era).then_some(record))
    }
}

impl Record {
    fn read(row: &Row) -> Result<Self, SqlError> {
        let garbled =
            |what: &str| SqlError::Unexpected(format!("the pool's {what} was not written by Keymill"));
        let era = row.maybe_text(1)?.map(|era| Era::parse(&era).ok_or_else(|| garbled("era"))).transpose()?;
        let next =
            u64::try_from(row.integer(2)?).ok().and_then(Number::new).ok_or_else(|| garbled("number"))?;
        Ok(Self { owner: row.text(0)?, era, next, began_on: row.maybe_text(3)?, engine: row.text(4)? })
    }

    /// Why the engine may have forgotten something, if its identity says so.
    pub(super) fn doubt(&self) -> Option<String> {
        let began_on = self.began_on.as_ref().filter(|engine| **engine != self.engine)?;
        Some(format!(
            "its rows were filled on `{began_on}` and are on `{}` now: a failover or a restored copy, which may have \
             forgotten what was taken last",
            self.engine
        ))
    }
}

/// The pool's record, and whether the engine may have forgotten something.
#[derive(Debug)]
pub(super) struct LookAt {
    pub(super) place: Place,
    pub(super) witness: Option<Witness>,
}

impl Work for LookAt {
    type Answer = (Record, Option<String>);
    const ACCESS: Access = Access::Read;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Self::Answer, SqlError> {
        let record = self.place.record(statements, Lock::None).await?;
        let doubt = Witness::doubt(self.witness.as_ref(), &self.place, &record, statements).await?;
        Ok((record, doubt))
    }
}
