//! The operations, a file each: what is asked, what is answered, and what one transaction does for it.
//!
//! A name is granted by an insert that does nothing where there is a row, never by one that replaces it. What
//! an operation cannot decide because others moved in between, it gives up as `Aborted`, and is run again.

use std::{future::Future, sync::Arc};

use keymill_sql::{Access, SqlError, Statements, Work};

use crate::{limits::Checked, tables::Tables};

mod arrange;
mod bind;
mod bind_all;
mod bind_new;
mod change;
mod claim;
mod delete;
mod derive;
mod find;
mod grant;
mod issued;
mod list;
mod mark_used;
mod receipt;
mod record;
mod refer;
mod refer_all;
mod references;
mod sweep;
mod visit;

pub(crate) use arrange::{Arrange, FindOrder};
pub use bind::{Bind, Bound};
pub(crate) use bind_all::BindAll;
pub use bind_all::{BatchReceipt, Told};
pub use change::{Change, Changed, Expiry};
pub use claim::{Claim, Claimed, TakenBy};
pub(crate) use delete::Delete;
pub use delete::Deleted;
pub use derive::{Derive, Derived};
pub(crate) use find::Find;
pub(crate) use issued::FindIssued;
pub use issued::Recorded;
pub use list::{Listing, Page};
pub(crate) use mark_used::MarkUsed;
pub use mark_used::Marked;
pub(crate) use receipt::Abandon;
pub use receipt::{Attempt, Begun, Finished, Receipt};
pub use record::Record;
pub use refer::{NewReference, Referred};
pub(crate) use refer_all::ReferAll;
pub use references::Reference;
pub(crate) use references::{FindReference, FindReferences, References, ReferencesTo};
pub use sweep::Swept;
pub(crate) use sweep::{SweepNames, SweepReceipts};
pub(crate) use visit::AddVisits;
pub use visit::{VisitSum, Visits};

pub(crate) trait Operation: Send + Sync + 'static {
    type Answer: Send + 'static;
    const ACCESS: Access;
    const IS_GLANCE: bool = false;
    const IS_LOOKUP: bool = false;

    /// Whose names it looks for: how they lie has to be known by then.
    fn keyspaces(&self) -> Vec<&str> {
        Vec::new()
    }

    /// What no engine is to be asked at all.
    fn check(&self) -> Checked;

    fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> impl Future<Output = Result<Self::Answer, SqlError>> + Send;
}

/// An operation, on the tables of one registry.
pub(crate) struct On<O> {
    pub(crate) tables: Arc<Tables>,
    pub(crate) operation: O,
}

impl<O: Operation> Work for On<O> {
    type Answer = O::Answer;
    const ACCESS: Access = O::ACCESS;
    const IS_GLANCE: bool = O::IS_GLANCE;
    const IS_LOOKUP: bool = O::IS_LOOKUP;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<O::Answer, SqlError> {
        self.operation.run(&self.tables, statements).await
    }
}

/// Others moved between two statements, so that what they say does not fit together.
pub(crate) fn moved(what: &str) -> SqlError {
    SqlError::Aborted(format!("{what} changed in between"))
}
