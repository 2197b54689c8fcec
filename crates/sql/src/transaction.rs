//! One transaction: everything in it happens, or nothing, or – after a `COMMIT` that was not answered –
//! nobody knows.

use std::{collections::HashSet, fmt, sync::Arc};

use tokio::sync::OwnedSemaphorePermit;

use crate::{Dialect, Row, SqlError, Statements, Value, connection::Connection, insert, shared::Inner};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// Dropped without [`commit`](Self::commit) it closes its connection, which undoes it.
pub struct Transaction {
    home: Arc<Inner>,
    connection: Connection,
    /// A statement failed: nothing of this may be committed.
    failed: bool,
    _room: OwnedSemaphorePermit,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("address", &self.home.address).finish_non_exhaustive()
    }
}

impl Transaction {
    pub(crate) fn new(home: Arc<Inner>, connection: Connection, room: OwnedSemaphorePermit) -> Self {
        Self { home, connection, failed: false, _room: room }
    }

    /// Only [`SqlError::Unknown`] can have taken effect.
    pub async fn commit(mut self) -> Result<(), SqlError> {
        if self.failed {
            // PostgreSQL would answer such a COMMIT with a friendly ROLLBACK.
            self.rollback().await;
            return Err(SqlError::Aborted("a statement in it had failed".to_owned()));
        }
        self.connection.commit().await?;
        self.home.put_back(self.connection);
        Ok(())
    }

    /// Undoes it. If that cannot be said, the closed connection says it.
    pub async fn rollback(mut self) {
        if !self.connection.is_spoilt() && self.connection.command("ROLLBACK").await.is_ok() {
            self.home.put_back(self.connection);
        }
    }
}

impl Statements for Transaction {
    fn dialect(&self) -> Dialect {
        self.connection.dialect()
    }

    async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, SqlError> {
        let answer = self.connection.fetch(sql, values).await;
        self.failed |= answer.is_err();
        answer
    }

    async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, SqlError> {
        let answer = self.connection.execute(sql, values).await;
        self.failed |= answer.is_err();
        answer
    }

    async fn define(&mut self, sql: &str) -> Result<(), SqlError> {
        match self.connection.command(sql).await {
            Err(SqlError::Refused(said)) if self.dialect() == Dialect::MySql && is_there(&said) => Ok(()),
            done => {
                self.failed |= done.is_err();
                done
            }
        }
    }

    async fn insert_absent(
        &mut self,
        table: &str,
        columns: &[&str],
        key: usize,
        values: &[Value],
    ) -> Result<bool, SqlError> {
        let sql = self.dialect().insert_absent(table, columns, key, 1);
        let is_new = self.connection.insert_absent(&sql, values).await;
        self.failed |= is_new.is_err();
        is_new
    }

    async fn insert_absent_many(
        &mut self,
        table: &str,
        columns: &[&str],
        key: usize,
        rows: &[Vec<Value>],
    ) -> Result<u64, SqlError> {
        let new = self.try_to_insert_absent(table, columns, key, rows).await;
        self.failed |= new.is_err();
        new
    }

    async fn load(&mut self, table: &str, columns: &[&str], rows: &[Vec<Value>]) -> Result<u64, SqlError> {
        let loaded = self.try_to_load(table, columns, rows).await;
        self.failed |= loaded.is_err();
        loaded
    }
}

impl Transaction {
    async fn try_to_insert_absent(
        &mut self,
        table: &str,
        columns: &[&str],
        key: usize,
        rows: &[Vec<Value>],
    ) -> Result<u64, SqlError> {
        insert::check(table, columns, rows)?;
        let rows = insert::first_of_each(rows, key);
        let mut new = 0;
        for chunk in insert::chunks(columns.len(), &rows) {
            new += match self.dialect() {
                Dialect::MySql => self.insert_missing(table, columns, key, chunk).await?,
                dialect => {
                    let sql = dialect.insert_absent(table, columns, key, chunk.len());
                    self.connection.execute(&sql, &chunk.concat()).await?
                }
            };
        }
        Ok(new)
    }

    /// MySQL tells of many rows only that some were there. So these are looked for first; if one comes in
    /// between, the duplicate undoes the transaction, and its next run finds it.
    async fn insert_missing(
        &mut self,
        table: &str,
        columns: &[&str],
        key: usize,
        rows: &[&[Value]],
    ) -> Result<u64, SqlError> {
        let keys = columns[..key].join(", ");
        let one = format!("({})", vec!["?"; key].join(", "));
        let sql =
            format!("SELECT {keys} FROM {table} WHERE ({keys}) IN ({})", vec![one; rows.len()].join(", "));
        let asked: Vec<Value> = rows.iter().flat_map(|row| &row[..key]).cloned().collect();
        let mut there = HashSet::new();
        for row in self.connection.fetch(&sql, &asked).await? {
            there.insert(row.values_like(&rows[0][..key])?);
        }
        let missing: Vec<&[Value]> =
            rows.iter().copied().filter(|row| !there.contains(&row[..key])).collect();
        for chunk in insert::chunks(columns.len(), &missing) {
            let sql = insert::insert(table, columns, chunk.len());
            self.connection.execute(&sql, &chunk.concat()).await?;
        }
        Ok(missing.len() as u64)
    }

    async fn try_to_load(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &[Vec<Value>],
    ) -> Result<u64, SqlError> {
        insert::check(table, columns, rows)?;
        let copy = format!("COPY {table} ({}) FROM STDIN", columns.join(", "));
        if let Some(copied) = self.connection.copy(&copy, insert::chunks(columns.len(), rows)).await? {
            return Ok(copied);
        }
        let mut loaded = 0;
        for chunk in insert::chunks(columns.len(), rows) {
            let sql = insert::insert(table, columns, chunk.len());
            loaded += self.connection.load(&sql, &chunk.concat()).await?;
        }
        Ok(loaded)
    }
}

/// The table exists, or the index does.
fn is_there(said: &str) -> bool {
    said.ends_with("(1050)") || said.ends_with("(1061)")
}
