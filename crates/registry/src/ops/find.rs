//! One entry, by its name.

use keymill_sql::{Access, SqlError, Statements};

use super::Operation;
use crate::{Entry, limits::Checked, tables::Tables};

#[derive(Debug, Clone)]
pub(crate) struct Find {
    pub(crate) keyspace: String,
    pub(crate) name: String,
}

impl Operation for Find {
    type Answer = Option<Entry>;
    const ACCESS: Access = Access::Read;
    const IS_GLANCE: bool = true;

    /// A name that cannot be kept is simply not there.
    fn check(&self) -> Checked {
        Ok(())
    }

    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Option<Entry>, SqlError> {
        if self.name.contains('\0') || self.keyspace.contains('\0') {
            return Ok(None);
        }
        tables.find(statements, &self.keyspace, &self.name).await
    }
}
