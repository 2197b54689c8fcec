//! How much of a keyspace is left.

use keymill_id::Definition;
use keymill_ledger::{Timestamp, TrackRow};

/// Numbers never reserved plus this node's stock; `None` where nobody would count.
pub(crate) fn level(
    definition: &Definition,
    size: Option<u64>,
    stock: u64,
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
        _ => size.map(|size| size.saturating_sub(track.cursor.get()).saturating_add(stock)),
    }
}
