//! API tokens live in the ledger, hashed, so that every node knows them.

use super::{Operation, Stamp, keyspace::touch};
use crate::{LedgerError, Rows, TokenRow};

#[derive(Debug, Clone)]
pub struct PutToken {
    pub stamp: Stamp,
    pub token: TokenRow,
}

impl Operation for PutToken {
    type Answer = ();
    const NAME: &'static str = "put_token";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<(), LedgerError> {
        let (head, _) = self.stamp.check(rows).await?;
        rows.put_token(&self.token).await?;
        touch(rows, head).await
    }
}

#[derive(Debug, Clone)]
pub struct RevokeToken {
    pub stamp: Stamp,
    pub id: String,
}

impl Operation for RevokeToken {
    /// Whether there was such a token.
    type Answer = bool;
    const NAME: &'static str = "revoke_token";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<bool, LedgerError> {
        let (head, _) = self.stamp.check(rows).await?;
        let was_there = rows.remove_token(&self.id).await?;
        touch(rows, head).await?;
        Ok(was_there)
    }
}
