//! What SQLite answers, taken out of its hands at once: its own rows live no longer than the next step.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use rusqlite::{Connection, ToSql, params_from_iter, types};

use crate::{Row, Value};

/// Statements whose columns' names a thread remembers.
const NAMES_MAX: usize = 256;

/// One row: its values, and the names of the columns, which all rows of an answer share.
pub(crate) struct SqliteRow {
    pub(crate) columns: Arc<[String]>,
    pub(crate) values: Vec<types::Value>,
}

pub(super) fn query(connection: &Connection, sql: &str, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(sql)?;
    let width = statement.column_count();
    let mut found = Vec::new();
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let columns = names(sql, row);
        let values = (0..width).map(|column| row.get(column)).collect::<rusqlite::Result<_>>()?;
        found.push(SqliteRow { columns, values }.into());
    }
    Ok(found)
}

thread_local! {
    /// The columns' names of statements that this thread has asked, of which there are few.
    static NAMES: RefCell<HashMap<String, Arc<[String]>>> = RefCell::default();
}

/// They are wanted only where something is wrong, and would cost as much as the row.
fn names(sql: &str, row: &rusqlite::Row<'_>) -> Arc<[String]> {
    NAMES.with_borrow_mut(|known| {
        if let Some(names) = known.get(sql) {
            return names.clone();
        }
        let names: Arc<[String]> = row.as_ref().column_names().map(str::to_owned).collect();
        if known.len() < NAMES_MAX {
            known.insert(sql.to_owned(), names.clone());
        }
        names
    })
}

pub(super) fn execute(connection: &Connection, sql: &str, values: &[Value]) -> rusqlite::Result<u64> {
    let changed = connection.prepare_cached(sql)?.execute(params_from_iter(values))?;
    Ok(changed as u64)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<types::ToSqlOutput<'_>> {
        match self {
            Self::Integer(value) => value.to_sql(),
            Self::Text(value) => value.to_sql(),
            Self::Flag(value) => value.to_sql(),
        }
    }
}
