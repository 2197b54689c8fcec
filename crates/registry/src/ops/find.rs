//! Entries, by their names: one, or those that several callers ask for at once.

use std::collections::{BTreeMap, HashMap};

use keymill_sql::{Access, SqlError, Statements};

use super::Operation;
use crate::{Entry, limits::Checked, tables::Tables, together::Question};

#[derive(Debug, Clone)]
pub(crate) struct Find {
    pub(crate) keyspace: String,
    pub(crate) name: String,
}

impl Operation for Find {
    type Answer = Option<Entry>;
    const ACCESS: Access = Access::Read;
    const IS_GLANCE: bool = true;
    const IS_LOOKUP: bool = true;

    fn keyspaces(&self) -> Vec<&str> {
        vec![&self.keyspace]
    }

    /// A name that cannot be kept is simply not there.
    fn check(&self) -> Checked {
        Ok(())
    }

    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Option<Entry>, SqlError> {
        if !self.can_be_there() {
            return Ok(None);
        }
        tables.find(statements, &self.keyspace, &self.name).await
    }
}

impl Find {
    /// PostgreSQL takes no NUL, not even in a question.
    fn can_be_there(&self) -> bool {
        !self.name.contains('\0') && !self.keyspace.contains('\0')
    }
}

impl Question for Find {
    type All = FindAll;

    fn all(finds: Vec<Self>) -> FindAll {
        FindAll { finds }
    }
}

pub(crate) struct FindAll {
    finds: Vec<Find>,
}

impl Operation for FindAll {
    type Answer = Vec<Option<Option<Entry>>>;
    const ACCESS: Access = Access::Read;
    /// Those who ask have nothing to do with each other, so that a statement for each keyspace is as good as one.
    const IS_GLANCE: bool = true;

    fn check(&self) -> Checked {
        Ok(())
    }

    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Vec<Option<Option<Entry>>>, SqlError> {
        let mut by_keyspace = BTreeMap::<&str, Vec<&str>>::new();
        for find in self.finds.iter().filter(|find| find.can_be_there()) {
            by_keyspace.entry(&find.keyspace).or_default().push(&find.name);
        }
        let mut found = HashMap::<&str, HashMap<String, Entry>>::new();
        for (keyspace, names) in by_keyspace {
            let entries = tables.find_all(statements, keyspace, &names).await?;
            found.insert(keyspace, entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect());
        }
        let answer = |find: &Find| found.get(find.keyspace.as_str())?.get(&find.name).cloned();
        Ok(self.finds.iter().map(|find| Some(answer(find))).collect())
    }
}
