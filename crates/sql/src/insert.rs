//! Statements that put many rows, or rows that may be there already.

use std::collections::HashSet;

use crate::{Dialect, SqlError, Value};

/// How many rows a statement of MySQL may hold. Few sizes, so that every statement comes again and is prepared once:
/// that is an answer per value. The largest saves round trips, the others leave few for the rest.
const SIZES: [usize; 7] = [1_000, 128, 32, 8, 4, 2, 1];
/// What the wire protocols can count.
const VALUES_MAX: usize = 65_535;
/// Bytes of text in one statement, far below any engine's packet.
const BYTES_MAX: usize = 1 << 20;

pub(crate) fn insert(table: &str, columns: &[&str], rows: usize) -> String {
    let values = format!("({})", vec!["?"; columns.len()].join(", "));
    format!("INSERT INTO {table} ({}) VALUES {}", columns.join(", "), vec![values; rows].join(", "))
}

impl Dialect {
    /// Puts rows whose key is not there yet. How many were new is known only to
    /// [`Statements::insert_absent`](crate::Statements::insert_absent): MySQL counts what it found as well.
    pub(crate) fn insert_absent(self, table: &str, columns: &[&str], key: usize, rows: usize) -> String {
        let insert = insert(table, columns, rows);
        match self {
            Self::Postgres | Self::Sqlite => {
                format!("{insert} ON CONFLICT ({}) DO NOTHING", columns[..key].join(", "))
            }
            // Not IGNORE, which swallows every other complaint too. What was there stays as it is; that it was
            // there is told by the only thing that an update of nothing can leave behind.
            Self::MySql => {
                let first = columns[0];
                format!(
                    "{insert} ON DUPLICATE KEY UPDATE {first} = IF(LAST_INSERT_ID(1) = 1, {first}, {first})"
                )
            }
        }
    }
}

/// PostgreSQL's way to put any number of rows by one text: a list for each column. The text is read and planned once,
/// where one with a place for each value is as long as its rows. Answers the keys of those that are new.
pub(crate) fn insert_lists_absent(table: &str, columns: &[&str], key: usize, sample: &[Value]) -> String {
    let list = |value: &Value| match value {
        Value::Integer(_) => "CAST(? AS BIGINT[])",
        Value::Text(_) => "CAST(? AS TEXT[])",
        Value::Flag(_) => "CAST(? AS BOOLEAN[])",
    };
    let keys = columns[..key].join(", ");
    let lists: Vec<&str> = sample.iter().map(list).collect();
    format!(
        "INSERT INTO {table} ({}) SELECT * FROM unnest({}) ON CONFLICT ({keys}) DO NOTHING RETURNING {keys}",
        columns.join(", "),
        lists.join(", "),
    )
}

/// Every row must say something for every column.
pub(crate) fn check(table: &str, columns: &[&str], rows: &[Vec<Value>]) -> Result<(), SqlError> {
    match rows.iter().find(|row| row.len() != columns.len()) {
        None => Ok(()),
        Some(row) => Err(SqlError::Refused(format!(
            "a row of {} values cannot be put in {} columns of `{table}`",
            row.len(),
            columns.len()
        ))),
    }
}

/// Cuts rows into statements.
pub(crate) fn chunks<R: AsRef<[Value]>>(
    dialect: Dialect,
    columns: usize,
    rows: &[R],
) -> impl Iterator<Item = &[R]> {
    let rows_max = (VALUES_MAX / columns.max(1)).min(SIZES[0]);
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(rows_max).take_while(|row| {
            bytes += row.as_ref().iter().map(size).sum::<usize>();
            bytes <= BYTES_MAX
        });
        let fits = fits.count();
        // One is sent, however long it is.
        let size = match dialect {
            Dialect::Postgres => fits.max(1),
            Dialect::MySql | Dialect::Sqlite => SIZES.into_iter().find(|size| *size <= fits).unwrap_or(1),
        };
        let size = size.min(rest.len());
        let (chunk, left) = rest.split_at(size);
        rest = left;
        (!chunk.is_empty()).then_some(chunk)
    })
}

fn size(value: &Value) -> usize {
    match value {
        Value::Text(Some(text)) => text.len(),
        _ => size_of::<i64>(),
    }
}

/// The first row of every key.
pub(crate) fn first_of_each(rows: &[Vec<Value>], key: usize) -> Vec<&[Value]> {
    let mut seen = HashSet::new();
    rows.iter().filter(|row| seen.insert(&row[..key])).map(Vec::as_slice).collect()
}

/// Rows as PostgreSQL's `COPY` reads them.
pub(crate) fn copied(rows: &[Vec<Value>]) -> String {
    let mut text = String::new();
    for row in rows {
        for (n, value) in row.iter().enumerate() {
            if n > 0 {
                text.push('\t');
            }
            copy_value(&mut text, value);
        }
        text.push('\n');
    }
    text
}

fn copy_value(to: &mut String, value: &Value) {
    match value {
        Value::Integer(None) | Value::Text(None) => to.push_str("\\N"),
        Value::Integer(Some(value)) => to.push_str(&value.to_string()),
        Value::Flag(value) => to.push(if *value { 't' } else { 'f' }),
        Value::Text(Some(text)) => {
            for symbol in text.chars() {
                match symbol {
                    '\\' => to.push_str("\\\\"),
                    '\t' => to.push_str("\\t"),
                    '\n' => to.push_str("\\n"),
                    '\r' => to.push_str("\\r"),
                    other => to.push(other),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize, text: &str) -> Vec<Vec<Value>> {
        (0..count).map(|n| vec![Value::Integer(i64::try_from(n).ok()), text.into()]).collect()
    }

    fn sizes(columns: usize, rows: &[Vec<Value>]) -> Vec<usize> {
        chunks(Dialect::MySql, columns, rows).map(<[_]>::len).collect()
    }

    #[test]
    fn a_statement_holds_no_more_than_it_may() {
        assert_eq!(sizes(2, &[]), [0; 0]);
        assert_eq!(sizes(2, &rows(2_143, "short")), [1_000, 1_000, 128, 8, 4, 2, 1]);
        assert_eq!(
            sizes(2, &rows(3, &"long".repeat(BYTES_MAX / 8))),
            [1, 1, 1],
            "about half a statement each"
        );
        assert_eq!(sizes(2, &rows(2, &"long".repeat(BYTES_MAX))), [1, 1], "one is sent, however long");
        assert_eq!(
            sizes(600, &rows(220, "short")),
            [32, 32, 32, 32, 32, 32, 8, 8, 8, 4],
            "if each had 600 columns"
        );
    }

    #[test]
    fn a_statement_of_lists_holds_any_number_of_rows() {
        let sizes = |rows: &[Vec<Value>]| -> Vec<usize> {
            chunks(Dialect::Postgres, 2, rows).map(<[_]>::len).collect()
        };
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&rows(2_143, "short")), [1_000, 1_000, 143]);
        assert_eq!(sizes(&rows(2, &"long".repeat(BYTES_MAX))), [1, 1], "one is sent, however long");
        assert_eq!(
            insert_lists_absent("t", &["k", "v"], 1, &["a".into(), 1_i64.into()]),
            "INSERT INTO t (k, v) SELECT * FROM unnest(CAST(? AS TEXT[]), CAST(? AS BIGINT[])) \
             ON CONFLICT (k) DO NOTHING RETURNING k"
        );
    }

    #[test]
    fn copied_text_cannot_end_a_field_or_a_row() {
        let row = vec![
            Value::Text(Some("a\tb\\N\r\n".to_owned())),
            Value::Text(None),
            true.into(),
            (-7_i64).into(),
        ];
        assert_eq!(copied(&[row]), "a\\tb\\\\N\\r\\n\t\\N\tt\t-7\n");
    }

    #[test]
    fn of_one_key_the_first_row_counts() {
        let rows =
            [vec!["a".into(), 1_i64.into()], vec!["b".into(), 2_i64.into()], vec!["a".into(), 3_i64.into()]];
        assert_eq!(first_of_each(&rows, 1), [&rows[0][..], &rows[1][..]]);
    }
}
