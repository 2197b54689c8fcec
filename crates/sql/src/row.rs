//! What comes out of a statement.

use rusqlite::types;
use sqlx::{Column, Row as _, mysql::MySqlRow, postgres::PgRow};

use crate::{SqlError, Value, sqlite::SqliteRow};

/// One row of an answer. Columns are read by their place, as text, integer or flag.
pub struct Row(Answer);

enum Answer {
    Postgres(PgRow),
    MySql(MySqlRow),
    Sqlite(SqliteRow),
}

impl From<PgRow> for Row {
    fn from(row: PgRow) -> Self {
        Self(Answer::Postgres(row))
    }
}

impl From<MySqlRow> for Row {
    fn from(row: MySqlRow) -> Self {
        Self(Answer::MySql(row))
    }
}

impl From<SqliteRow> for Row {
    fn from(row: SqliteRow) -> Self {
        Self(Answer::Sqlite(row))
    }
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rows hold secrets: only what they are rows of is shown.
        let columns: Vec<String> = (0..self.len()).map(|column| self.name(column)).collect();
        f.debug_struct("Row").field("columns", &columns).finish_non_exhaustive()
    }
}

impl Row {
    fn len(&self) -> usize {
        match &self.0 {
            Answer::Postgres(row) => row.len(),
            Answer::MySql(row) => row.len(),
            Answer::Sqlite(row) => row.values.len(),
        }
    }

    fn name(&self, column: usize) -> String {
        let name = match &self.0 {
            Answer::Postgres(row) => row.columns().get(column).map(|column| column.name().to_owned()),
            Answer::MySql(row) => row.columns().get(column).map(|column| column.name().to_owned()),
            Answer::Sqlite(row) => row.columns.get(column).cloned(),
        };
        name.unwrap_or_else(|| format!("column {column}"))
    }

    fn wrong(&self, column: usize, error: &impl std::fmt::Display) -> SqlError {
        SqlError::Unexpected(format!("`{}` cannot be read: {error}", self.name(column)))
    }

    fn missing(&self, column: usize) -> SqlError {
        SqlError::Unexpected(format!("`{}` is empty", self.name(column)))
    }

    /// SQLite tells no types of columns, so what the value is decides.
    fn mistyped(&self, column: usize, found: Option<&types::Value>, wanted: &str) -> SqlError {
        let found = found.map_or("nothing".to_owned(), |value| value.data_type().to_string());
        self.wrong(column, &format!("it holds {found} where {wanted} should be"))
    }

    pub fn maybe_integer(&self, column: usize) -> Result<Option<i64>, SqlError> {
        let value = match &self.0 {
            Answer::Postgres(row) => row.try_get(column),
            Answer::MySql(row) => row.try_get(column),
            Answer::Sqlite(row) => {
                return match row.values.get(column) {
                    Some(types::Value::Integer(value)) => Ok(Some(*value)),
                    Some(types::Value::Null) => Ok(None),
                    other => Err(self.mistyped(column, other, "an integer")),
                };
            }
        };
        value.map_err(|error| self.wrong(column, &error))
    }

    pub fn integer(&self, column: usize) -> Result<i64, SqlError> {
        self.maybe_integer(column)?.ok_or_else(|| self.missing(column))
    }

    pub fn maybe_text(&self, column: usize) -> Result<Option<String>, SqlError> {
        match &self.0 {
            Answer::Postgres(row) => row.try_get(column).map_err(|error| self.wrong(column, &error)),
            // Binary columns hold our keys: text, which the driver takes for bytes.
            Answer::MySql(row) => {
                let bytes: Option<Vec<u8>> =
                    row.try_get_unchecked(column).map_err(|error| self.wrong(column, &error))?;
                bytes.map(String::from_utf8).transpose().map_err(|error| self.wrong(column, &error))
            }
            Answer::Sqlite(row) => match row.values.get(column) {
                Some(types::Value::Text(text)) => Ok(Some(text.clone())),
                Some(types::Value::Null) => Ok(None),
                other => Err(self.mistyped(column, other, "text")),
            },
        }
    }

    pub fn text(&self, column: usize) -> Result<String, SqlError> {
        self.maybe_text(column)?.ok_or_else(|| self.missing(column))
    }

    /// As [`maybe_text`](Self::maybe_text), for whoever reads it only once: what is there is not copied.
    pub fn take_maybe_text(&mut self, column: usize) -> Result<Option<String>, SqlError> {
        if let Answer::Sqlite(row) = &mut self.0
            && let Some(value @ types::Value::Text(_)) = row.values.get_mut(column)
            && let types::Value::Text(text) = std::mem::replace(value, types::Value::Null)
        {
            return Ok(Some(text));
        }
        self.maybe_text(column)
    }

    pub fn take_text(&mut self, column: usize) -> Result<String, SqlError> {
        self.take_maybe_text(column)?.ok_or_else(|| self.missing(column))
    }

    pub fn flag(&self, column: usize) -> Result<bool, SqlError> {
        let value = match &self.0 {
            Answer::Postgres(row) => row.try_get(column),
            Answer::MySql(row) => row.try_get(column),
            Answer::Sqlite(row) => {
                return match row.values.get(column) {
                    Some(types::Value::Integer(value @ (0 | 1))) => Ok(*value == 1),
                    other => Err(self.mistyped(column, other, "a flag")),
                };
            }
        };
        value.map_err(|error| self.wrong(column, &error))
    }

    /// The first values, each as what the given one is.
    pub(crate) fn values_like(&self, samples: &[Value]) -> Result<Vec<Value>, SqlError> {
        let read = |(column, sample): (usize, &Value)| {
            Ok(match sample {
                Value::Integer(_) => self.maybe_integer(column)?.into(),
                Value::Text(_) => self.maybe_text(column)?.into(),
                Value::Flag(_) => self.flag(column)?.into(),
            })
        };
        samples.iter().enumerate().map(read).collect()
    }
}
