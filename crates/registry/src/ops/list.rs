//! A page of a keyspace's entries, in the order they lie in: names that spell no key by name, then the
//! others by their numbers.
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

/// Entries that one statement reads where some are passed over.
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

    /// One more than a page holds shows whether another follows. Where some are passed over a small page reads many too,
    /// or it would ask once for every few that it passes over.
    fn step(&self) -> u32 {
        let whole_page = self.limit.saturating_add(1);
        let passes_over = self.query.is_some() || self.live_at_ms.is_some();
        if passes_over { whole_page.max(STEP) } else { whole_page }
    }

    async fn read<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
        after: Option<&str>,
    ) -> Result<Vec<Entry>, SqlError> {
        let (keyspace, names) = (self.keyspace.as_str(), &tables.names);
        let rows = tables.behind(statements, names, ENTRY, keyspace, after, self.step()).await?;
        rows.into_iter().map(|row| read_entry(keyspace, row)).collect()
    }
}

impl Operation for Listing {
    type Answer = Page;
    const ACCESS: Access = Access::Read;

    fn keyspaces(&self) -> Vec<&str> {
        vec![&self.keyspace]
    }

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        self.after.iter().try_for_each(|after| limits::text("the cursor", after))?;
        limits::page(self.limit)
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Page, SqlError> {
        let mut entries = Vec::new();
        let mut last = self.after.clone();
        let mut scanned = 0;
        loop {
            let step = self.read(tables, statements, last.as_deref()).await?;
            let is_last_step = step.len() < self.step() as usize;
            for entry in step {
                if entries.len() == self.limit as usize || scanned == SCAN_MAX {
                    return Ok(Page { entries, next: last });
                }
                scanned += 1;
                last = Some(entry.name.clone());
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
