//! Receipts: what was answered to a request that may be sent again.
//!
//! An *attempt* is one try at a request. The last one to begin owns the receipt; whatever an earlier one was
//! about to do in its transaction is not done. So a request whose node died can be tried again after its lock
//! ran out, and still has one effect.

use keymill_sql::{Access, SqlError, Statements};

use super::{Operation, moved};
use crate::{
    limits::{self, Checked},
    tables::Tables,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Whose request it is: token, keyspace, route and the caller's key.
    pub scope: String,
    /// A name of this try that no other has. As `MAKER/LIFE/RANDOM` it says who makes it: what the same maker began in
    /// another life is not waited for, since nobody is at it any more.
    pub attempt: String,
    pub body_hash: String,
    pub at_ms: i64,
    /// Until then another attempt waits for this one.
    pub lock_until_ms: i64,
    /// Until then the receipt is kept.
    pub until_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    Go,
    /// Another attempt is at it.
    InProgress,
    Done {
        answer: String,
    },
    /// The scope was used for another body.
    Mismatch,
}

/// The answer of an attempt, to be kept in the transaction that carries the request out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub scope: String,
    pub attempt: String,
    pub answer: String,
    pub until_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finished {
    Kept,
    /// Another attempt took over. Its answer, if it has one by now.
    Overtaken {
        answer: Option<String>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Abandon {
    pub(crate) scope: String,
    pub(crate) attempt: String,
}

/// The receipt belongs to another attempt, or has its answer.
pub(super) struct Overtaken {
    pub(super) answer: Option<String>,
}

/// A row of `receipts`.
struct Kept {
    attempt: String,
    body_hash: String,
    answer: Option<String>,
    locked_until_ms: i64,
    kept_until_ms: i64,
}

const ROW: [&str; 6] = ["scope", "attempt", "body_hash", "answer", "locked_until", "kept_until"];
const ROW_KEY: usize = 1;

/// Reads the row, which nobody else changes until this transaction ends.
async fn lock<S: Statements>(
    tables: &Tables,
    statements: &mut S,
    scope: &str,
) -> Result<Option<Kept>, SqlError> {
    let (columns, lock) = (ROW[1..].join(", "), statements.dialect().exclusive());
    let sql = format!("SELECT {columns} FROM {} WHERE scope = ?{lock}", tables.receipts);
    let rows = statements.query(&sql, &[scope.into()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Kept {
        attempt: row.text(0)?,
        body_hash: row.text(1)?,
        answer: row.maybe_text(2)?,
        locked_until_ms: row.integer(3)?,
        kept_until_ms: row.integer(4)?,
    }))
}

pub(super) fn check(receipt: Option<&Receipt>) -> Checked {
    let Some(Receipt { scope, attempt, answer, .. }) = receipt else { return Ok(()) };
    limits::name("the receipt's scope", scope)?;
    limits::name("the receipt's attempt", attempt)?;
    limits::answer(answer)
}

/// Before anything is granted: makes sure that the attempt still owns its receipt, and goes on owning it until
/// this transaction ends. A lock that ran out is not asked for: nobody took over, so nobody is harmed.
pub(super) async fn hold<S: Statements>(
    tables: &Tables,
    statements: &mut S,
    receipt: Option<&Receipt>,
) -> Result<Option<Overtaken>, SqlError> {
    let Some(Receipt { scope, attempt, .. }) = receipt else { return Ok(None) };
    Ok(match lock(tables, statements, scope).await? {
        Some(kept) if kept.attempt == *attempt && kept.answer.is_none() => None,
        kept => Some(Overtaken { answer: kept.and_then(|kept| kept.answer) }),
    })
}

/// After the grant: keeps the answer with it, in the same transaction.
pub(super) async fn keep<S: Statements>(
    tables: &Tables,
    statements: &mut S,
    receipt: Option<&Receipt>,
) -> Result<(), SqlError> {
    let Some(Receipt { scope, attempt, answer, until_ms }) = receipt else { return Ok(()) };
    let sql = format!(
        "UPDATE {} SET answer = ?, kept_until = ? WHERE scope = ? AND attempt = ? AND answer IS NULL",
        tables.receipts
    );
    let values = [answer.as_str().into(), (*until_ms).into(), scope.as_str().into(), attempt.as_str().into()];
    match statements.execute(&sql, &values).await? {
        1 => Ok(()),
        _ => Err(moved("the receipt")),
    }
}

/// Whether the maker of `later` began `earlier` in another life.
fn is_orphan(earlier: &str, later: &str) -> bool {
    fn made_by(attempt: &str) -> Option<(&str, &str)> {
        let (maker, rest) = attempt.split_once('/')?;
        Some((maker, rest.split_once('/')?.0))
    }
    match (made_by(earlier), made_by(later)) {
        (Some((maker, life)), Some((same_maker, now))) => maker == same_maker && life != now,
        _ => false,
    }
}

impl Attempt {
    /// A row outlives its lock, or a sweep would end it.
    fn kept_until_ms(&self) -> i64 {
        self.until_ms.max(self.lock_until_ms)
    }

    /// What the row means to this attempt; `None`: it may take over.
    fn meets(&self, kept: Kept) -> Option<Begun> {
        match kept {
            Kept { kept_until_ms, .. } if kept_until_ms <= self.at_ms => None,
            Kept { body_hash, .. } if body_hash != self.body_hash => Some(Begun::Mismatch),
            Kept { answer: Some(answer), .. } => Some(Begun::Done { answer }),
            // Its own, begun before by a call whose outcome nobody knew.
            Kept { attempt, .. } if attempt == self.attempt => None,
            Kept { attempt, .. } if is_orphan(&attempt, &self.attempt) => None,
            Kept { locked_until_ms, .. } if locked_until_ms > self.at_ms => Some(Begun::InProgress),
            _ => None,
        }
    }

    async fn take_over<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(), SqlError> {
        let sql = format!(
            "UPDATE {} SET attempt = ?, body_hash = ?, answer = NULL, locked_until = ?, kept_until = ? \
             WHERE scope = ?",
            tables.receipts
        );
        let values = [
            self.attempt.as_str().into(),
            self.body_hash.as_str().into(),
            self.lock_until_ms.into(),
            self.kept_until_ms().into(),
            self.scope.as_str().into(),
        ];
        statements.execute(&sql, &values).await.map(drop)
    }
}

impl Operation for Attempt {
    type Answer = Begun;
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        limits::name("the receipt's scope", &self.scope)?;
        limits::name("the receipt's attempt", &self.attempt)?;
        limits::name("the body's hash", &self.body_hash)
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Begun, SqlError> {
        let values = [
            self.scope.as_str().into(),
            self.attempt.as_str().into(),
            self.body_hash.as_str().into(),
            None::<String>.into(),
            self.lock_until_ms.into(),
            self.kept_until_ms().into(),
        ];
        if statements.insert_absent(&tables.receipts, &ROW, ROW_KEY, &values).await? {
            return Ok(Begun::Go);
        }
        let kept = lock(tables, statements, &self.scope).await?.ok_or_else(|| moved("the receipt"))?;
        if let Some(begun) = self.meets(kept) {
            return Ok(begun);
        }
        self.take_over(tables, statements).await?;
        Ok(Begun::Go)
    }
}

impl Operation for Receipt {
    type Answer = Finished;
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        check(Some(self))
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Finished, SqlError> {
        match hold(tables, statements, Some(self)).await? {
            None => {
                keep(tables, statements, Some(self)).await?;
                Ok(Finished::Kept)
            }
            // Kept before, by a call whose outcome nobody knew.
            Some(Overtaken { answer: Some(answer) }) if answer == self.answer => Ok(Finished::Kept),
            Some(Overtaken { answer }) => Ok(Finished::Overtaken { answer }),
        }
    }
}

impl Operation for Abandon {
    type Answer = ();
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        limits::name("the receipt's scope", &self.scope)
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<(), SqlError> {
        let sql =
            format!("DELETE FROM {} WHERE scope = ? AND attempt = ? AND answer IS NULL", tables.receipts);
        statements.execute(&sql, &[self.scope.as_str().into(), self.attempt.as_str().into()]).await.map(drop)
    }
}
