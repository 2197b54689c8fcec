//! Many rows over the wire, in as few statements as the engine allows.

use std::collections::HashSet;

use crate::{Dialect, SqlError, Value, connection::Connection, insert};

impl Connection {
    /// Puts the first row of each key that is not there yet, and says which those were.
    pub(crate) async fn insert_absent_many(
        &mut self,
        table: &str,
        columns: &[&str],
        key: usize,
        rows: &[Vec<Value>],
    ) -> Result<Vec<bool>, SqlError> {
        insert::check(table, columns, rows)?;
        let mut new = HashSet::new();
        for chunk in insert::chunks(self.dialect(), columns.len(), &insert::first_of_each(rows, key)) {
            match self.dialect() {
                Dialect::Postgres => {
                    let sql = insert::insert_lists_absent(table, columns, key, chunk[0]);
                    for row in self.fetch_by_lists(&sql, chunk).await? {
                        new.insert(row.values_like(&chunk[0][..key])?);
                    }
                }
                _ => new.extend(self.insert_missing(table, columns, key, chunk).await?),
            }
        }
        Ok(rows.iter().map(|row| new.remove(&row[..key])).collect())
    }

    /// MySQL tells of many rows only that some were there. So these are looked for first; if one comes in
    /// between, the duplicate undoes the transaction, and its next run finds it. Says the keys of those that were put.
    async fn insert_missing(
        &mut self,
        table: &str,
        columns: &[&str],
        key: usize,
        rows: &[&[Value]],
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let keys = columns[..key].join(", ");
        let one = format!("({})", vec!["?"; key].join(", "));
        let sql =
            format!("SELECT {keys} FROM {table} WHERE ({keys}) IN ({})", vec![one; rows.len()].join(", "));
        let asked: Vec<Value> = rows.iter().flat_map(|row| &row[..key]).cloned().collect();
        let mut there = HashSet::new();
        for row in self.fetch(&sql, &asked).await? {
            there.insert(row.values_like(&rows[0][..key])?);
        }
        let missing: Vec<&[Value]> =
            rows.iter().copied().filter(|row| !there.contains(&row[..key])).collect();
        for chunk in insert::chunks(Dialect::MySql, columns.len(), &missing) {
            let sql = insert::insert(table, columns, chunk.len());
            self.execute(&sql, &chunk.concat()).await?;
        }
        Ok(missing.iter().map(|row| row[..key].to_vec()).collect())
    }

    /// Puts rows that must not be there yet.
    pub(crate) async fn load(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &[Vec<Value>],
    ) -> Result<u64, SqlError> {
        insert::check(table, columns, rows)?;
        let copy = format!("COPY {table} ({}) FROM STDIN", columns.join(", "));
        if let Some(copied) = self.copy(&copy, insert::chunks(self.dialect(), columns.len(), rows)).await? {
            return Ok(copied);
        }
        let mut loaded = 0;
        for chunk in insert::chunks(self.dialect(), columns.len(), rows) {
            let sql = insert::insert(table, columns, chunk.len());
            loaded += self.put_new(&sql, &chunk.concat()).await?;
        }
        Ok(loaded)
    }
}
