//! Many binds in one transaction.
//!
//! Names that nobody has, which is nearly all of them, are made by few statements of many rows. The rest –
//! names that are there, names that come twice, binds with a skeleton or a receipt – take the way of a single
//! bind, afterwards and in order. The batch as a whole may have a receipt of its own.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use keymill_sql::{Access, SqlError, Statements};

use super::{
    Bind, Bound, Operation, Receipt,
    receipt::{self, Overtaken},
};
use crate::{
    batch::Caution,
    limits::{self, Checked},
    tables::{Grant, Tables},
};

pub(crate) struct BindAll {
    pub(crate) binds: Vec<Bind>,
    pub(crate) receipt: Option<BatchReceipt>,
    pub(crate) caution: Caution,
}

/// What is answered to a batch, from what became of its binds.
pub type Told = Box<dyn Fn(&[Bound]) -> String + Send + Sync>;

/// The receipt of a batch: its answer is known only in the transaction that decides what becomes of each bind.
pub struct BatchReceipt {
    pub scope: String,
    pub attempt: String,
    pub until_ms: i64,
    /// The answer to keep. It may be asked more than once.
    pub answer: Told,
}

impl fmt::Debug for BatchReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchReceipt").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl BatchReceipt {
    /// With the answer to what became of the binds.
    fn told(&self, bound: &[Bound]) -> Receipt {
        let Self { scope, attempt, until_ms, answer } = self;
        let (scope, attempt) = (scope.clone(), attempt.clone());
        Receipt { scope, attempt, answer: answer(bound), until_ms: *until_ms }
    }
}

impl BindAll {
    /// Whether each bind is the first of its name and asks for nothing but the row.
    fn are_plain(&self) -> Vec<bool> {
        let mut seen = HashSet::new();
        let names = self.binds.iter().map(|bind| seen.insert((&bind.keyspace, &bind.name)));
        let are_first: Vec<bool> = names.collect();
        self.binds.iter().zip(are_first).map(|(bind, is_first)| is_first && bind.is_bare()).collect()
    }

    /// Leaves only those new that are not there.
    async fn look<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
        is_new: &mut [bool],
    ) -> Result<(), SqlError> {
        let mut by_keyspace = BTreeMap::<&str, Vec<usize>>::new();
        for (at, _) in is_new.iter().enumerate().filter(|(_, is_new)| **is_new) {
            by_keyspace.entry(&self.binds[at].keyspace).or_default().push(at);
        }
        for (keyspace, places) in by_keyspace {
            let names = places.iter().map(|at| self.binds[*at].name.as_str());
            let taken = tables.known(statements, keyspace, names).await?;
            for at in places {
                is_new[at] = !taken.contains_key(&self.binds[at].name);
            }
        }
        Ok(())
    }
}

impl Operation for BindAll {
    type Answer = Vec<Bound>;
    const ACCESS: Access = Access::Write;

    fn keyspaces(&self) -> Vec<&str> {
        self.binds.iter().map(|bind| bind.keyspace.as_str()).collect()
    }

    fn check(&self) -> Checked {
        limits::batch(self.binds.len())?;
        self.binds.iter().try_for_each(Operation::check)
    }

    async fn run<S: Statements>(&self, tables: &Tables, statements: &mut S) -> Result<Vec<Bound>, SqlError> {
        let Some(receipt) = &self.receipt else { return self.bind_each(tables, statements).await };
        let unanswered = receipt.told(&[]);
        if let Some(Overtaken { answer }) = receipt::hold(tables, statements, Some(&unanswered)).await? {
            return Ok(vec![Bound::Overtaken { answer }; self.binds.len()]);
        }
        let bound = self.bind_each(tables, statements).await?;
        let receipt = receipt.told(&bound);
        receipt::check(Some(&receipt)).map_err(|error| SqlError::Unexpected(error.to_string()))?;
        receipt::keep(tables, statements, Some(&receipt)).await?;
        Ok(bound)
    }
}

impl BindAll {
    async fn bind_each<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Vec<Bound>, SqlError> {
        let mut is_new = self.are_plain();
        if self.caution.looks_first() {
            self.look(tables, statements, &mut is_new).await?;
        }
        let new = self.binds.iter().zip(&is_new).filter(|(_, is_new)| **is_new);
        let grants: Vec<Grant<'_>> = new.map(|(bind, _)| bind.grant()).collect();
        if !tables.grant_all(statements, &grants).await? {
            return Err(self.caution.look_next_time("a name of the batch"));
        }
        let mut bound = Vec::with_capacity(self.binds.len());
        for (bind, is_new) in self.binds.iter().zip(is_new) {
            bound.push(if is_new {
                Bound::New(bind.grant().entry())
            } else {
                bind.run(tables, statements).await?
            });
        }
        Ok(bound)
    }
}
