//! The few words in which the engines differ.

use std::borrow::Cow;

use crate::Access;

/// MySQL and MariaDB speak one dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Postgres,
    MySql,
    Sqlite,
}

impl Dialect {
    /// The name that errors and `/healthz` call an engine by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }

    /// `?` for every value, whatever the engine calls them. Statements hold no `?` in quotes.
    pub(crate) fn placed(self, sql: &str) -> String {
        if self != Self::Postgres {
            return sql.to_owned();
        }
        let mut placed = String::with_capacity(sql.len() + 16);
        for (n, part) in sql.split('?').enumerate() {
            if n > 0 {
                placed.push('$');
                placed.push_str(&n.to_string());
            }
            placed.push_str(part);
        }
        placed
    }

    pub(crate) fn begin(self, access: Access) -> &'static str {
        match (self, access) {
            (Self::Postgres, Access::Write) => "BEGIN",
            (Self::Postgres, Access::Read) => "BEGIN READ ONLY",
            (Self::MySql, Access::Write) => "START TRANSACTION",
            (Self::MySql, Access::Read) => "START TRANSACTION READ ONLY",
            (Self::Sqlite, Access::Write) => "BEGIN IMMEDIATE",
            (Self::Sqlite, Access::Read) => "BEGIN DEFERRED",
        }
    }

    /// Column types that mean the same on every engine: `{key}` is text that compares byte by byte and may
    /// be indexed, `{text}` is text of any length; `BIGINT` and `BOOLEAN` are called that everywhere. `{table}`
    /// ends a table's definition, `{table_by_key}` that of one whose rows lie in the order of a primary key that
    /// is not a single integer. `{where …}` ends the definition of an index that leaves the other rows out, where an
    /// engine has such indexes; what is looked for must imply it.
    pub fn typed(self, sql: &str) -> String {
        let (key, text, table, by_key) = match self {
            Self::Postgres => ("TEXT COLLATE \"C\"", "TEXT", "", ""),
            // Not a collation: even a binary one pads with spaces, so that `a` would be `a `.
            Self::MySql => {
                ("VARBINARY(255)", "LONGTEXT CHARACTER SET utf8mb4", " ENGINE = InnoDB", " ENGINE = InnoDB")
            }
            Self::Sqlite => ("TEXT", "TEXT", " STRICT", " STRICT, WITHOUT ROWID"),
        };
        let sql = match self {
            // A strict table, whose values stay what they were written as, knows only its own types.
            Self::Sqlite => Cow::Owned(sql.replace("BIGINT", "INTEGER").replace("BOOLEAN", "INTEGER")),
            Self::Postgres | Self::MySql => Cow::Borrowed(sql),
        };
        let sql = sql
            .replace("{key}", key)
            .replace("{text}", text)
            .replace("{table}", table)
            .replace("{table_by_key}", by_key);
        match (self, sql.split_once("{where ")) {
            (_, None) => sql,
            (Self::MySql, Some((index, _))) => index.to_owned(),
            (_, Some((index, rows))) => format!("{index} WHERE {}", rows.trim_end_matches('}')),
        }
    }

    /// Puts a row whether or not one of the same key is there. `key` names the first columns.
    pub fn upsert(self, table: &str, columns: &[&str], key: usize) -> String {
        let values = vec!["?"; columns.len()].join(", ");
        let insert = format!("INSERT INTO {table} ({}) VALUES ({values})", columns.join(", "));
        let (keys, rest) = columns.split_at(key);
        let set = |column: &&str| match self {
            Self::Postgres | Self::Sqlite => format!("{column} = excluded.{column}"),
            Self::MySql => format!("{column} = VALUES({column})"),
        };
        let sets = rest.iter().map(set).collect::<Vec<_>>().join(", ");
        match self {
            Self::Postgres | Self::Sqlite => {
                format!("{insert} ON CONFLICT ({}) DO UPDATE SET {sets}", keys.join(", "))
            }
            Self::MySql => format!("{insert} ON DUPLICATE KEY UPDATE {sets}"),
        }
    }

    /// Ends a `SELECT` of rows that others may read, but not change, until this transaction ends.
    pub fn shared(self) -> &'static str {
        match self {
            Self::Postgres => " FOR SHARE",
            Self::MySql => " LOCK IN SHARE MODE",
            // Nobody else writes meanwhile.
            Self::Sqlite => "",
        }
    }

    /// Ends a `SELECT` of rows that nobody else may lock until this transaction ends.
    pub fn exclusive(self) -> &'static str {
        match self {
            Self::Postgres | Self::MySql => " FOR UPDATE",
            Self::Sqlite => "",
        }
    }

    /// Ends a `SELECT` of rows that nobody else has locked, and nobody else may lock until this transaction
    /// ends. MariaDB has it since 10.6, MySQL since 8.0.
    pub fn skip_locked(self) -> &'static str {
        match self {
            Self::Postgres | Self::MySql => " FOR UPDATE SKIP LOCKED",
            Self::Sqlite => "",
        }
    }

    /// The engine's clock, in milliseconds since 1970.
    pub fn clock(self) -> &'static str {
        match self {
            Self::Postgres => "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
            Self::MySql => "CAST(unix_timestamp(sysdate(3)) * 1000 AS SIGNED)",
            Self::Sqlite => "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)",
        }
    }

    /// Counts the tables of that name where unqualified tables are: one, or none.
    pub fn count_tables(self) -> &'static str {
        match self {
            Self::Postgres => {
                "SELECT count(*) FROM information_schema.tables \
                 WHERE table_schema = current_schema() AND table_name = ?"
            }
            Self::MySql => {
                "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = ?"
            }
            Self::Sqlite => "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_serves_every_engine() {
        let sql = "SELECT a FROM t WHERE b = ? AND c < ?";
        assert_eq!(Dialect::Postgres.placed(sql), "SELECT a FROM t WHERE b = $1 AND c < $2");
        assert_eq!(Dialect::MySql.placed(sql), sql);
        assert_eq!(Dialect::Sqlite.placed(sql), sql);
    }

    #[test]
    fn a_row_is_put_by_its_key() {
        assert_eq!(
            Dialect::Postgres.upsert("t", &["k", "v"], 1),
            "INSERT INTO t (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
        );
        assert_eq!(
            Dialect::MySql.upsert("t", &["k", "v"], 1),
            "INSERT INTO t (k, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)"
        );
    }

    #[test]
    fn an_index_leaves_rows_out_where_it_can() {
        let index = "CREATE INDEX i ON t (a){where a IS NOT NULL}";
        assert_eq!(Dialect::Sqlite.typed(index), "CREATE INDEX i ON t (a) WHERE a IS NOT NULL");
        assert_eq!(Dialect::MySql.typed(index), "CREATE INDEX i ON t (a)");
    }

    #[test]
    fn a_strict_table_is_told_only_types_it_knows() {
        assert_eq!(
            Dialect::Sqlite.typed("CREATE TABLE t (k {key} PRIMARY KEY, n BIGINT, f BOOLEAN){table_by_key}"),
            "CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER, f INTEGER) STRICT, WITHOUT ROWID"
        );
    }
}
