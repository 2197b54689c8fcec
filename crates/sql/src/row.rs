//! What comes out of a statement.

use sqlx::{Column, Row as _, mysql::MySqlRow, postgres::PgRow};

use crate::SqlError;

/// One row of an answer. Columns are read by their place, as text, integer or flag.
pub enum Row {
    Postgres(PgRow),
    MySql(MySqlRow),
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
        match self {
            Self::Postgres(row) => row.len(),
            Self::MySql(row) => row.len(),
        }
    }

    fn name(&self, column: usize) -> String {
        let name = match self {
            Self::Postgres(row) => row.columns().get(column).map(|column| column.name().to_owned()),
            Self::MySql(row) => row.columns().get(column).map(|column| column.name().to_owned()),
        };
        name.unwrap_or_else(|| format!("column {column}"))
    }

    fn wrong(&self, column: usize, error: &impl std::fmt::Display) -> SqlError {
        SqlError::Unexpected(format!("`{}` cannot be read: {error}", self.name(column)))
    }

    fn missing(&self, column: usize) -> SqlError {
        SqlError::Unexpected(format!("`{}` is empty", self.name(column)))
    }

    pub fn maybe_integer(&self, column: usize) -> Result<Option<i64>, SqlError> {
        let value = match self {
            Self::Postgres(row) => row.try_get(column),
            Self::MySql(row) => row.try_get(column),
        };
        value.map_err(|error| self.wrong(column, &error))
    }

    pub fn integer(&self, column: usize) -> Result<i64, SqlError> {
        self.maybe_integer(column)?.ok_or_else(|| self.missing(column))
    }

    pub fn maybe_text(&self, column: usize) -> Result<Option<String>, SqlError> {
        match self {
            Self::Postgres(row) => row.try_get(column).map_err(|error| self.wrong(column, &error)),
            // Binary columns hold our keys: text, which the driver takes for bytes.
            Self::MySql(row) => {
                let bytes: Option<Vec<u8>> =
                    row.try_get_unchecked(column).map_err(|error| self.wrong(column, &error))?;
                bytes.map(String::from_utf8).transpose().map_err(|error| self.wrong(column, &error))
            }
        }
    }

    pub fn text(&self, column: usize) -> Result<String, SqlError> {
        self.maybe_text(column)?.ok_or_else(|| self.missing(column))
    }

    pub fn flag(&self, column: usize) -> Result<bool, SqlError> {
        let value = match self {
            Self::Postgres(row) => row.try_get(column),
            Self::MySql(row) => row.try_get(column),
        };
        value.map_err(|error| self.wrong(column, &error))
    }
}
