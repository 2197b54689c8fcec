//! A table of keys that somebody fills and others delete from.

use std::time::Duration;

use async_trait::async_trait;
use keymill_sql::{Access, Address, Database, SqlError, Statements, Tls, Work};

use super::{Target, look_at_pool, within};
use crate::{marks::Marks, sample::Look};

/// How long a connection may take. Counting a large table takes longer; a look's patience bounds both.
const PATIENCE: Duration = Duration::from_secs(5);

/// `postgres://user@host/db?table=available_keys`, `mysql://…`
#[derive(Debug)]
pub struct SqlPool {
    database: Database,
    table: String,
    marks: Marks,
    shown: String,
}

impl SqlPool {
    pub fn parse(url: &str, marks: Marks) -> Result<Self, String> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (ours, theirs): (Vec<&str>, Vec<&str>) = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .partition(|pair| pair.split('=').next() == Some("table"));
        let shown = keymill_sql::masked(url);
        let table = match ours[..] {
            [pair] => pair.split_once('=').map(|(_, table)| table).unwrap_or_default(),
            _ => return Err(format!("{shown} names no table; add ?table=NAME")),
        };
        // It becomes part of a statement.
        let symbol = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
        if table.is_empty() || !table.bytes().all(symbol) {
            return Err(format!("{shown}: table `{}` is not of a-z A-Z 0-9 _ .", table.escape_debug()));
        }
        let rest = if theirs.is_empty() { String::new() } else { format!("?{}", theirs.join("&")) };
        let address = Address::parse(&format!("{place}{rest}"), &Tls::default(), PATIENCE);
        let database = Database::new(address.map_err(|error| error.to_string())?);
        Ok(Self { database, table: table.to_owned(), marks, shown })
    }
}

/// How many rows there are.
#[derive(Debug)]
struct CountRows {
    statement: String,
}

impl Work for CountRows {
    type Answer = u64;
    const ACCESS: Access = Access::Read;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<u64, SqlError> {
        let rows = statements.query(&self.statement, &[]).await?;
        let row = rows.first().ok_or_else(|| SqlError::Refused("a count is one row".to_owned()))?;
        let count = row.integer(0)?;
        u64::try_from(count).map_err(|_| SqlError::Refused(format!("{count} is no count")))
    }
}

#[async_trait]
impl Target for SqlPool {
    async fn look(&self, patience: Duration) -> Look {
        let statement = format!("SELECT COUNT(*) FROM {}", self.table);
        let level = within(patience, self.database.run(CountRows { statement })).await;
        let level = level.map_err(|error| format!("the database did not say: {error}"));
        look_at_pool(&self.shown, "database", &self.table, self.marks, level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_url_is_named_and_no_password_is_shown() {
        for (url, complaint) in [
            ("postgres://u:s3cret@h/db", "names no table"),
            ("postgres://u:s3cret@h/db?table=a&table=b", "names no table"),
            ("postgres://u:s3cret@h/db?table=a;drop", "is not of a-z"),
            ("postgres://u:s3cret@h/db?table=a&tabel=b", "tabel"),
        ] {
            let error = SqlPool::parse(url, Marks::default()).unwrap_err();
            assert!(error.contains(complaint) && !error.contains("s3cret"), "{url}: {error}");
        }
        let pool = SqlPool::parse("mysql://u:s3cret@h/db?table=app.keys", Marks::default()).unwrap();
        assert_eq!(pool.table, "app.keys");
        assert!(!format!("{pool:?}").contains("s3cret"));
    }
}
