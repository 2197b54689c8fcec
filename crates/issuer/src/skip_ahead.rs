//! A lossy ledger that forgot something skips ahead by itself, above all that anybody remembers.
//!
//! It is halted like any other. Every node burns its stock and reports its witness; once those that may
//! hold numbers have, any of them advances the ledger, as an operator would. One that does not report is
//! waited for, and has to be named by an operator if it is gone for good – unless it was silent long before
//! anything was lost.

use std::time::Duration;

use keymill_ledger::{LedgerError, NodeName, NodeRow, ops};

use crate::node::{Node, NodeSettings};

/// A node that was silent for this long when the last surviving write was made took no part in what was
/// lost after it.
const SILENT_MS: u64 = 600_000;

/// How long a halt lasts at least: a live node that the ledger forgot altogether has reported by then.
pub(crate) fn grace(settings: &NodeSettings) -> Duration {
    settings.heartbeat * 5 + settings.timeout * 2
}

/// Advances the ledger, if everybody has reported who might hold what it forgot.
pub(crate) async fn skip_ahead(node: &Node) {
    match advance(node).await {
        Ok(lifted) => tracing::warn!(
            lifted_tracks = lifted.len(),
            "the ledger forgot writes it had acknowledged, and skips ahead of all that the nodes remember; \
             cursors lifted: {}",
            lifted.len()
        ),
        Err(LedgerError::NotHalted) => {}
        Err(error) if node.halted.is_new(&error) => {
            tracing::warn!(%error, "the ledger cannot skip ahead yet: {error}");
        }
        Err(_) => {}
    }
}

async fn advance(node: &Node) -> Result<Vec<ops::Advanced>, LedgerError> {
    let without = long_silent(&node.ledger().nodes().await?);
    node.ledger().advance(ops::Advance { without, dry_run: false, at: node.now() }).await
}

/// Nodes that had long been silent when the newest write was made that the ledger remembers.
fn long_silent(nodes: &[NodeRow]) -> Vec<(NodeName, u64)> {
    let newest = nodes.iter().map(|node| node.last_seen).max().unwrap_or_default();
    let silent = |node: &&NodeRow| !node.stopped && newest.since(node.last_seen) >= SILENT_MS;
    nodes.iter().filter(silent).map(|node| (node.name.clone(), 0)).collect()
}

#[cfg(test)]
mod tests {
    use keymill_ledger::{NodeReport, Timestamp};

    use super::*;

    #[test]
    fn only_who_was_silent_before_anything_was_lost_is_not_waited_for() {
        let node = |name: &str, last_seen, stopped| NodeRow {
            name: NodeName::parse(name).unwrap(),
            epoch: 1,
            beat: 1,
            started_at: Timestamp(0),
            last_seen: Timestamp(last_seen),
            stopped,
            report: NodeReport::default(),
        };
        let now = 10 * SILENT_MS;
        let nodes = [
            node("live", now, false),
            node("late", now - SILENT_MS + 1, false),
            node("dead", now - SILENT_MS, false),
            node("stopped", 0, true),
        ];
        assert_eq!(long_silent(&nodes), [(NodeName::parse("dead").unwrap(), 0)]);
        assert_eq!(long_silent(&nodes[2..]), [], "an old copy makes nobody silent");
    }
}
