//! How much of a keyspace is left, and how fast it goes.

use keymill_id::{Definition, KeyspaceName};
use keymill_issuer::{Node, Served};
use keymill_ledger::{NodeRow, Timestamp, TrackRow};

/// A node that was not heard from for this long is silent: it no longer counts towards a rate.
pub(crate) const SILENT_AFTER_MS: u64 = 10_000;

/// Numbers never reserved plus this node's stock, or rows left; `None` where nobody would count, or nobody knows.
pub(crate) fn level(
    definition: &Definition,
    served: Option<&Served>,
    track: &TrackRow,
    now: Timestamp,
) -> Option<u64> {
    match definition {
        Definition::Snowflake(snowflake) => {
            // What is left is time: every tick to come, of every worker.
            let layout = snowflake.layout();
            let ticks = layout.ticks() - layout.tick_of_clock(now.0);
            Some(ticks.saturating_mul(layout.per_tick() * u64::from(layout.workers())))
        }
        Definition::Pool(pool) if pool.rows().is_some() => served?.fill_glance()?.level,
        // Keys come from content; nothing is used up before it is bound.
        Definition::Digest(_) => None,
        _ => {
            let never_reserved = served?.size()?.saturating_sub(track.cursor.get());
            Some(never_reserved.saturating_add(served?.glance().stock))
        }
    }
}

/// Keys a second over all nodes, by their last heartbeat; `own` is what this one measures.
pub(crate) fn rate(node: &Node, keyspace: &KeyspaceName, own: f64, nodes: &[NodeRow], now: Timestamp) -> f64 {
    let elsewhere: f64 = nodes
        .iter()
        .filter(|other| other.name != *node.name() && !other.stopped)
        .filter(|other| now.since(other.last_seen) < SILENT_AFTER_MS)
        .flat_map(|other| &other.report.keyspaces)
        .filter(|report| report.keyspace == *keyspace)
        .map(|report| report.rate)
        .sum();
    elsewhere + own
}
