//! How much of a keyspace is left.

use keymill_id::Definition;
use keymill_issuer::Served;
use keymill_ledger::{Timestamp, TrackRow};

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
