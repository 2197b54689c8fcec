//! Keeps the tokens in memory as the ledger has them.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use keymill_issuer::Node;

use super::Guard;

/// A token that is revoked elsewhere is refused here this much later; one small read of the ledger each time.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Until the node is gone. While the ledger is away, the last set it showed stays in force.
pub(crate) async fn keep(guard: Arc<Guard>, node: Weak<Node>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        guard.expire();
        let Some(ledger) = node.upgrade().map(|node| node.ledger().clone()) else { return };
        // The node itself says when its ledger does not answer.
        if let Err(error) = guard.follow(&*ledger).await {
            tracing::debug!(%error, "the tokens could not be looked at: {error}");
        }
    }
}
