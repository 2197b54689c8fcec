//! Work on an embedded file: run where it is, without ever waiting.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use rusqlite::Connection;

use super::{Fate, Sqlite, failure, reading, rows, writer};
use crate::{Access, Dialect, Row, SqlError, Statements, Value, Work, insert};

/// Work that may wait for the writer before its callers are held back: the ledger's own jobs never have more
/// than this before them.
pub(super) const WORKS_MAX: usize = 256;

impl Sqlite {
    /// Runs `work` once: with others in one commit, or beside the writer if it only reads.
    pub(crate) async fn attempt<W: Work>(&self, work: &Arc<W>) -> Result<W::Answer, SqlError> {
        if W::IS_LOOKUP {
            self.inner.writer.check()?;
            if let Some(answer) = self.inner.near.read(|connection| run(&**work, connection)) {
                return Ok(answer);
            }
        }
        let work = work.clone();
        if W::ACCESS == Access::Read {
            return self.read(move |connection| run(&*work, connection)).await;
        }
        let room = self.inner.works.clone().acquire_owned().await.map_err(|_| writer::stopped())?;
        let job = move |connection: &mut Connection| {
            drop(room);
            let answer = run(&*work, connection);
            (fate(&answer), answer)
        };
        self.write(job).await?
    }
}

fn fate<A>(answer: &Result<A, SqlError>) -> Fate {
    match answer {
        Ok(_) => Fate::Keep,
        Err(SqlError::Broken(detail)) => Fate::Broken(detail.clone()),
        Err(_) => Fate::Undo,
    }
}

fn run<W: Work>(work: &W, connection: &mut Connection) -> Result<W::Answer, SqlError> {
    let mut inside = Inside { connection, access: W::ACCESS, failed: false };
    // The thread is not only this work's: an assertion that fails in it undoes it, and goes no further.
    let ran = catch_unwind(AssertUnwindSafe(|| run_now(work.run(&mut inside))));
    let answer = ran.unwrap_or_else(|_| Err(SqlError::Refused("an assertion failed in it".to_owned())))?;
    if inside.failed && answer.is_ok() {
        return Err(SqlError::Aborted("a statement in it had failed".to_owned()));
    }
    answer
}

/// Statements that are done when they return never wait, so neither does work that waits for nothing else.
fn run_now<F: Future>(future: F) -> Result<F::Output, SqlError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err(SqlError::Refused("work may wait for nothing but its statements".to_owned())),
    }
}

/// The inside of a transaction.
struct Inside<'c> {
    connection: &'c mut Connection,
    access: Access,
    /// A statement failed: nothing of this may be committed.
    failed: bool,
}

impl Inside<'_> {
    fn settle<T>(&mut self, operation: &str, done: rusqlite::Result<T>) -> Result<T, SqlError> {
        self.failed |= done.is_err();
        done.map_err(|error| match self.access {
            Access::Read => reading(operation, error),
            Access::Write => failure(operation, error),
        })
    }

    /// One short statement for each row: nothing is saved by a long one where nothing travels.
    fn execute_each(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<Vec<u64>, SqlError> {
        let mut written = Vec::with_capacity(rows.len());
        for row in rows {
            let done = rows::execute(self.connection, sql, row);
            written.push(self.settle("execute", done)?);
        }
        Ok(written)
    }
}

impl Statements for Inside<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, SqlError> {
        let done = rows::query(self.connection, sql, values);
        self.settle("query", done)
    }

    async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, SqlError> {
        let done = rows::execute(self.connection, sql, values);
        self.settle("execute", done)
    }

    async fn define(&mut self, sql: &str) -> Result<(), SqlError> {
        let done = self.connection.execute_batch(sql);
        self.settle("define", done)
    }

    async fn insert_absent(
        &mut self,
        table: &str,
        columns: &[&str],
        key: usize,
        values: &[Value],
    ) -> Result<bool, SqlError> {
        let sql = Dialect::Sqlite.insert_absent(table, columns, key, 1);
        self.execute(&sql, values).await.map(|rows| rows > 0)
    }

    async fn insert_absent_many(
        &mut self,
        table: &str,
        columns: &[&str],
        key: usize,
        rows: &[Vec<Value>],
    ) -> Result<Vec<bool>, SqlError> {
        insert::check(table, columns, rows)?;
        let sql = Dialect::Sqlite.insert_absent(table, columns, key, 1);
        let written = self.execute_each(&sql, rows)?;
        Ok(written.into_iter().map(|rows| rows > 0).collect())
    }

    async fn load(&mut self, table: &str, columns: &[&str], rows: &[Vec<Value>]) -> Result<u64, SqlError> {
        insert::check(table, columns, rows)?;
        match self.execute_each(&insert::insert(table, columns, 1), rows) {
            // A row that is there already will be there again.
            Err(SqlError::Aborted(said)) => Err(SqlError::Refused(said)),
            loaded => loaded.map(|rows| rows.iter().sum()),
        }
    }
}
