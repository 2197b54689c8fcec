//! Many references in one transaction, as a migration brings them.

use std::collections::{BTreeMap, HashMap, hash_map};

use keymill_sql::{Access, SqlError, Statements, Value};

use super::{
    NewReference, Operation, Referred,
    references::{ROW, ROW_KEY, Reference, find_all},
};
use crate::{
    RegistryError,
    batch::Caution,
    limits::{self, Checked},
    tables::Tables,
};

#[derive(Debug)]
pub(crate) struct ReferAll {
    pub(crate) new: Vec<NewReference>,
    pub(crate) caution: Caution,
}

/// References by keyspace and digest: those that are there, and those of the batch so far.
type Known = HashMap<(String, String), Reference>;

impl ReferAll {
    async fn known<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
        digests: &[String],
    ) -> Result<Known, SqlError> {
        let mut by_keyspace = BTreeMap::<&str, Vec<String>>::new();
        for (new, digest) in self.new.iter().zip(digests) {
            by_keyspace.entry(&new.keyspace).or_default().push(digest.clone());
        }
        let mut known = Known::new();
        for (keyspace, digests) in by_keyspace {
            let found = find_all(tables, statements, keyspace, &digests).await?;
            known.extend(found.into_iter().map(|(digest, found)| ((keyspace.to_owned(), digest), found)));
        }
        Ok(known)
    }
}

impl Operation for ReferAll {
    type Answer = Vec<Referred>;
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Checked {
        limits::batch(self.new.len())?;
        if self.new.iter().any(|new| new.receipt.is_some()) {
            let problem =
                "references of a batch have no receipts of their own; finish the batch's".to_owned();
            return Err(RegistryError::Refused(problem));
        }
        self.new.iter().try_for_each(Operation::check)
    }

    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Vec<Referred>, SqlError> {
        let digests: Vec<String> = self.new.iter().map(NewReference::digest).collect();
        let mut known = Known::new();
        if self.caution.looks_first() {
            known = self.known(tables, statements, &digests).await?;
        }
        let mut referred = Vec::with_capacity(self.new.len());
        let mut rows = BTreeMap::new();
        for (new, digest) in self.new.iter().zip(&digests) {
            referred.push(match known.entry((new.keyspace.clone(), digest.clone())) {
                hash_map::Entry::Occupied(found) => Referred::Known { key: new.key_of(found.get())? },
                hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(new.reference());
                    rows.insert((&new.keyspace, digest), new);
                    Referred::New
                }
            });
        }
        // In the order of the primary key, so that two batches lock in the same order.
        let rows: Vec<Vec<Value>> = rows.into_values().map(NewReference::values).collect();
        let new = statements.insert_absent_many(&tables.refs, &ROW, ROW_KEY, &rows).await?;
        if new.contains(&false) {
            return Err(self.caution.look_next_time("a reference of the batch"));
        }
        Ok(referred)
    }
}
