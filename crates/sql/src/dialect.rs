//! The few words in which the engines differ.

/// MySQL and MariaDB speak one dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Postgres,
    MySql,
}

impl Dialect {
    /// `?` for every value, whatever the engine calls them. Statements hold no `?` in quotes.
    pub(crate) fn placed(self, sql: &str) -> String {
        if self == Self::MySql {
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

    /// Column types that mean the same on every engine: `{key}` is text that compares byte by byte and may
    /// be indexed, `{text}` is text of any length. `{table}` ends a table's definition.
    pub fn typed(self, sql: &str) -> String {
        let (key, text, table) = match self {
            Self::Postgres => ("TEXT COLLATE \"C\"", "TEXT", ""),
            // Not a collation: even a binary one pads with spaces, so that `a` would be `a `.
            Self::MySql => ("VARBINARY(255)", "LONGTEXT CHARACTER SET utf8mb4", " ENGINE = InnoDB"),
        };
        sql.replace("{key}", key).replace("{text}", text).replace("{table}", table)
    }

    /// Puts a row whether or not one of the same key is there. `key` names the first columns.
    pub fn upsert(self, table: &str, columns: &[&str], key: usize) -> String {
        let values = vec!["?"; columns.len()].join(", ");
        let insert = format!("INSERT INTO {table} ({}) VALUES ({values})", columns.join(", "));
        let (keys, rest) = columns.split_at(key);
        let set = |column: &&str| match self {
            Self::Postgres => format!("{column} = excluded.{column}"),
            Self::MySql => format!("{column} = VALUES({column})"),
        };
        let sets = rest.iter().map(set).collect::<Vec<_>>().join(", ");
        match self {
            Self::Postgres => format!("{insert} ON CONFLICT ({}) DO UPDATE SET {sets}", keys.join(", ")),
            Self::MySql => format!("{insert} ON DUPLICATE KEY UPDATE {sets}"),
        }
    }

    /// Ends a `SELECT` of rows that others may read, but not change, until this transaction ends.
    pub fn shared(self) -> &'static str {
        match self {
            Self::Postgres => " FOR SHARE",
            Self::MySql => " LOCK IN SHARE MODE",
        }
    }

    /// Ends a `SELECT` of rows that nobody else may lock until this transaction ends.
    pub fn exclusive(self) -> &'static str {
        " FOR UPDATE"
    }

    /// The engine's clock, in milliseconds since 1970.
    pub fn clock(self) -> &'static str {
        match self {
            Self::Postgres => "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
            Self::MySql => "CAST(unix_timestamp(sysdate(3)) * 1000 AS SIGNED)",
        }
    }

    /// The schema or database that unqualified tables are in.
    pub fn current_schema(self) -> &'static str {
        match self {
            Self::Postgres => "current_schema()",
            Self::MySql => "database()",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_serves_both_engines() {
        let sql = "SELECT a FROM t WHERE b = ? AND c < ?";
        assert_eq!(Dialect::Postgres.placed(sql), "SELECT a FROM t WHERE b = $1 AND c < $2");
        assert_eq!(Dialect::MySql.placed(sql), sql);
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
}
