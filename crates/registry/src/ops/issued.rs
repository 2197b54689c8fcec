//! The keys that were written down one by one, in pages.

use keymill_sql::{Access, Row, SqlError, Statements};

use super::Operation;
use crate::{
    limits::{self, Checked},
    tables::Tables,
};

/// A page of them, as they lie: by their numbers where they have some.
#[derive(Debug, Clone)]
pub(crate) struct FindIssued {
    pub(crate) keyspace: String,
    /// Begin behind this key.
    pub(crate) after: Option<String>,
    pub(crate) limit: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub key: String,
    pub node: String,
    pub at_ms: i64,
}

impl Operation for FindIssued {
    type Answer = Vec<Recorded>;
    const ACCESS: Access = Access::Read;

    fn keyspaces(&self) -> Vec<&str> {
        vec![&self.keyspace]
    }

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        self.after.iter().try_for_each(|after| limits::text("the cursor", after))?;
        limits::page(self.limit)
    }

    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Vec<Recorded>, SqlError> {
        let (keyspace, after) = (self.keyspace.as_str(), self.after.as_deref());
        let columns = "name, node, issued_at";
        let rows = tables.behind(statements, &tables.issued, columns, keyspace, after, self.limit).await?;
        let read = |row: &Row| -> Result<Recorded, SqlError> {
            Ok(Recorded { key: row.text(0)?, node: row.text(1)?, at_ms: row.integer(2)? })
        };
        rows.iter().map(read).collect()
    }
}
