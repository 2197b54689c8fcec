//! Carries out what a stock wishes for: the mill spells, the refill reserves.
//!
//! The mill is one thread for all keyspaces, so that spelling never competes with requests for the
//! runtime's threads. Reserving waits on the ledger, so each reserve is a task; a stock has one at a
//! time, and the pen lets one through at a time.

use std::{
    num::NonZeroU64,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use keymill_id::Number;
use keymill_ledger::LedgerError;
use tokio::runtime::Handle;

use crate::{milled::Milled, node::Node};

/// The first pause after a failed reserve; it doubles up to the longest, and a random part of it is
/// slept, so that nodes that lost the ledger together do not come back together.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LONGEST: Duration = Duration::from_secs(2);

/// Runs the mill until every sender of its hopper is gone.
pub(crate) fn start_mill(
    hopper: mpsc::Receiver<Arc<Milled>>,
    node: std::sync::Weak<Node>,
    runtime: Handle,
) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("mill".to_owned()).spawn(move || {
        for milled in hopper {
            let Some(count) = milled.mill() else { continue };
            let Some(node) = node.upgrade() else { return };
            runtime.spawn(refill(node, milled, count));
        }
    })
}

async fn refill(node: Arc<Node>, milled: Arc<Milled>, count: NonZeroU64) {
    match node.reserve(&milled.track, Number::ZERO, count, milled.ceiling()).await {
        Ok(remilled) => {
            let block = remilled.block;
            tracing::debug!(keyspace = %milled.track, %block, "keyspace `{}` refilled with {block}", milled.track);
            milled.deposit(remilled);
        }
        Err(LedgerError::Exhausted { .. }) => {
            tracing::warn!(keyspace = %milled.track, "keyspace `{}` is used up", milled.track);
            milled.disappointed(true);
        }
        Err(error) => {
            milled.troubled(&error);
            node.note(&error, "refill");
            // The wish stays open while we pause, so that callers cannot hurry us.
            tokio::time::sleep(node.pause()).await;
            milled.disappointed(false);
        }
    }
}

/// How long to wait after so many failures in a row.
pub(crate) fn pause_after(failures: u32, random: u32) -> Duration {
    let longest = PAUSE_FIRST.saturating_mul(1 << failures.min(10)).min(PAUSE_LONGEST);
    // At least a quarter of it: "full jitter" with a floor, so that nobody spins.
    longest / 4 + longest.mul_f64(0.75 * f64::from(random) / f64::from(u32::MAX))
}

/// What pauses differ by. Without entropy they are merely less random.
pub(crate) fn chance() -> u32 {
    let mut random = [0; 4];
    let _ = getrandom::fill(&mut random);
    u32::from_ne_bytes(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_differ_and_have_an_end() {
        assert_eq!(pause_after(0, 0), PAUSE_FIRST / 4);
        assert_eq!(pause_after(99, u32::MAX), PAUSE_LONGEST);
        assert!(pause_after(3, 0) < pause_after(3, u32::MAX));
    }
}
