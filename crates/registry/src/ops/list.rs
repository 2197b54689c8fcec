//! A page of a keyspace's entries, by name.
//!
//! Names are read in steps along the primary key and judged here, the same way whatever the engine thinks of
//! letters; a page looks at so many and no more.

use keymill_sql::{Access, SqlError, Statements};

use super::Operation;
use crate::{
    Entry,
    limits::{self, Checked, SCAN_MAX},
    tables::{ENTRY, Tables, read_entry},
};

/// Entries that one statement of a search reads.
const STEP: u32 = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub keyspace: String,
    /// Begin behind this name.
    pub after: Option<String>,
    /// At most [`PAGE_MAX`](limits::PAGE_MAX).
    pub limit: u32,
    /// Only entries whose name or target holds this text; ASCII letters match in either case.
    pub query: Option<String>,
    /// Only entries that lead somewhere at this time. `None`: all of them, tombstones too.
    pub live_at_ms: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// Where the next page begins; `None` at the end. A page that looked at [`SCAN_MAX`] entries ends there,
    /// even if it found none.
    pub next: Option<String>,
}

impl Listing {
    fn wants(&self, entry: &Entry) -> bool {
        let holds = |text: &str, part: &str| text.to_ascii_lowercase().contains(&part.to_ascii_lowercase());
        let found = |part: &String| {
            holds(&entry.name, part) || entry.target.as_ref().is_some_and(|target| holds(target, part))
        };
        self.live_at_ms.is_none_or(|at_ms| entry.is_live_link(at_ms)) && self.query.as_ref().is_none_or(found)
    }

    /// One more than a page holds shows whether another follows.
    fn step(&self) -> u32 {
        if self.query.is_some() { STEP } else { self.limit.saturating_add(1) }
    }

    async fn read<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
        after: &str,
    ) -> Result<Vec<Entry>, SqlError> {
        let sql = format!(
            "SELECT {ENTRY} FROM {} WHERE keyspace = ? AND name > ? ORDER BY name LIMIT ?",
            tables.names
        );
        let values = [self.keyspace.as_str().into(), after.into(), i64::from(self.step()).into()];
        let rows = statements.query(&sql, &values).await?;
        rows.iter().map(|row| read_entry(&self.keyspace, row)).collect()
    }
}

impl Operation for Listing {
    type Answer = Page;
    const ACCESS: Access = Access::Read;

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        self.after.iter().try_for_each(|after| limits::text("the cursor", after))?;
        limits::page(self.limit)
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Page, SqlError> {
        let mut entries = Vec::new();
        let mut last = self.after.clone().unwrap_or_default();
        let mut scanned = 0;
        loop {
            let step = self.read(tables, statements, &last).await?;
            let is_last_step = step.len() < self.step() as usize;
            for entry in step {
                if entries.len() == self.limit as usize || scanned == SCAN_MAX {
                    return Ok(Page { entries, next: Some(last) });
                }
                scanned += 1;
                last.clone_from(&entry.name);
                if self.wants(&entry) {
                    entries.push(entry);
                }
            }
            if is_last_step {
                return Ok(Page { entries, next: None });
            }
        }
    }
}
