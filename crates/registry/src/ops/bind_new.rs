//! Plain binds of several callers, whose names are nearly always free: one statement makes all that are.

use keymill_sql::{Access, SqlError, Statements};

use super::{Bind, Bound, Operation};
use crate::{
    limits::Checked,
    tables::{Grant, Tables},
    together::Question,
};

/// Each a row and nothing else; see [`Bind::is_bare`].
pub(crate) struct BindNew {
    binds: Vec<Bind>,
}

impl Question for Bind {
    type All = BindNew;

    fn all(binds: Vec<Self>) -> BindNew {
        BindNew { binds }
    }
}

impl Operation for BindNew {
    type Answer = Vec<Option<Bound>>;
    const ACCESS: Access = Access::Write;
    const IS_GLANCE: bool = true;

    fn check(&self) -> Checked {
        self.binds.iter().try_for_each(Operation::check)
    }

    /// A name that is there already, or that comes twice, is left to a bind of its own.
    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Vec<Option<Bound>>, SqlError> {
        let grants: Vec<Grant<'_>> = self.binds.iter().map(Bind::grant).collect();
        let is_new = tables.grant_each(statements, &grants).await?;
        let bound = |(grant, is_new): (&Grant<'_>, bool)| is_new.then(|| Bound::New(grant.entry()));
        Ok(grants.iter().zip(is_new).map(bound).collect())
    }
}
