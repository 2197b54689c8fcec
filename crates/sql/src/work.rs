//! Work: what one transaction does, written once for every engine.
//!
//! Work is data with one function over [`Statements`]. An engine over the wire runs it with a connection of its
//! own and runs it again if another transaction got in the way; an embedded one runs it on the thread that
//! writes, together with whatever else waits for the same commit. So `run` may be called more than once, and
//! waits for nothing but its statements.

use std::future::Future;

use crate::{Access, Dialect, Row, SqlError, Value};

/// Statements inside one transaction. Each has one text, with `?` for its values.
pub trait Statements: Send {
    fn dialect(&self) -> Dialect;

    fn query(
        &mut self,
        sql: &str,
        values: &[Value],
    ) -> impl Future<Output = Result<Vec<Row>, SqlError>> + Send;

    /// How many rows the statement found to write, changed or not.
    fn execute(&mut self, sql: &str, values: &[Value]) -> impl Future<Output = Result<u64, SqlError>> + Send;

    /// Makes a table or an index. MySQL commits every definition by itself, so that work which was cut short is
    /// found half done: there, what is there already is passed over.
    fn define(&mut self, sql: &str) -> impl Future<Output = Result<(), SqlError>> + Send;

    /// Puts a row unless one of the same key is there, which then stays as it is. Says whether the row is new.
    /// `key` says how many columns, the first ones, are the table's primary key: `{key}`s and integers.
    fn insert_absent(
        &mut self,
        table: &str,
        columns: &[&str],
        key: usize,
        values: &[Value],
    ) -> impl Future<Output = Result<bool, SqlError>> + Send;

    /// The same for many rows, of which the first of each key counts. Says of each, in their order, whether it is new.
    fn insert_absent_many(
        &mut self,
        table: &str,
        columns: &[&str],
        key: usize,
        rows: &[Vec<Value>],
    ) -> impl Future<Output = Result<Vec<bool>, SqlError>> + Send;

    /// Puts many new rows, as fast as the engine can. A row that is there already refuses all of them: where
    /// that may be, load into a table of its own first. An embedded file is written by nobody else meanwhile, so
    /// a long load is cut into several works.
    fn load(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &[Vec<Value>],
    ) -> impl Future<Output = Result<u64, SqlError>> + Send;
}

pub trait Work: Send + Sync + 'static {
    type Answer: Send + 'static;
    const ACCESS: Access;
    /// It needs no transaction around it, so that an engine over the wire is asked in one round trip instead of three:
    /// it only reads, and what its statements find need not fit together; or it writes by one statement, if it has
    /// so few rows that one holds them, and nothing follows from what that found.
    const IS_GLANCE: bool = false;
    /// It only reads one row by its key, or finds that there is none: so quickly, mostly, that an embedded engine is asked
    /// by the thread that wants to know.
    const IS_LOOKUP: bool = false;

    /// An error undoes everything. What a caller should hear of as an answer – a name that is taken – is an
    /// answer, and found out before anything is written.
    fn run<S: Statements>(
        &self,
        statements: &mut S,
    ) -> impl Future<Output = Result<Self::Answer, SqlError>> + Send;
}
