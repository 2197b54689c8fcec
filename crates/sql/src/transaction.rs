//! One transaction: everything in it happens, or nothing, or – after a `COMMIT` that was not answered –
//! nobody knows.

use std::{fmt, sync::Arc};

use tokio::sync::OwnedSemaphorePermit;

use crate::{Dialect, Row, SqlError, Statements, Value, connection::Connection, shared::Inner};

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

    /// Without a transaction: every statement is committed by itself, or it only reads.
    pub(crate) fn bare(
        home: Arc<Inner>,
        mut connection: Connection,
        room: OwnedSemaphorePermit,
        access: Access,
    ) -> Self {
        connection.commits_itself(access == Access::Write);
        Self::new(home, connection, room)
    }

    /// Ends what was never begun: a connection that was used without a transaction goes back.
    pub(crate) fn leave(mut self) {
        self.connection.commits_itself(false);
        self.home.put_back(self.connection);
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
    ) -> Result<Vec<bool>, SqlError> {
        let new = self.connection.insert_absent_many(table, columns, key, rows).await;
        self.failed |= new.is_err();
        new
    }

    async fn load(&mut self, table: &str, columns: &[&str], rows: &[Vec<Value>]) -> Result<u64, SqlError> {
        let loaded = self.connection.load(table, columns, rows).await;
        self.failed |= loaded.is_err();
        loaded
    }
}

/// The table exists, or the index does.
fn is_there(said: &str) -> bool {
    said.ends_with("(1050)") || said.ends_with("(1061)")
}
