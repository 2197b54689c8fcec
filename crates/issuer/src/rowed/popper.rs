//! Pops what the tray wishes for: one pop at a time, and none when nobody asks.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{PoolError, Popped, Rowed};
use crate::{
    error::IssueError,
    node::Node,
    refill::{chance, pause_after},
};

/// How soon rows that ran out are looked at again, if the filler does not say that there are more.
const DRY_PAUSE: Duration = Duration::from_millis(50);
/// How long the popper sleeps at most without looking whether it is still needed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Pops until the keyspace is closed or the node is gone.
pub(super) async fn keep(node: Weak<Node>, rowed: Arc<Rowed>) {
    let mut failures = 0;
    while rowed.closed().is_none() && node.strong_count() > 0 {
        let wish = rowed.wish(&rowed.lock());
        let Some(count) = wish else {
            let _ = tokio::time::timeout(LOOK_EVERY, rowed.wanted.notified()).await;
            continue;
        };
        // Asked first: what is pushed while we pop may be there to be popped.
        let dry = if rowed.filling.is_used_up() { IssueError::Exhausted } else { IssueError::OutOfStock };
        let popped = match rowed.pool() {
            Ok(pool) => pool.pop(count).await,
            Err(error) => Err(error),
        };
        match popped {
            Ok(popped) => {
                failures = 0;
                let enough = popped.keys.len() >= count as usize;
                rowed.popped(popped, (!enough).then_some(dry));
                if !enough {
                    rowed.filling.look_again();
                    let _ = tokio::time::timeout(DRY_PAUSE, rowed.filling.filled()).await;
                }
            }
            Err(error) => {
                rowed.failed(&error);
                failures += 1;
                sleep(pause_after(failures, chance())).await;
            }
        }
    }
}

impl Rowed {
    fn popped(&self, popped: Popped, dry: Option<IssueError>) {
        self.lay(&popped.keys);
        let mut counter = self.lock();
        counter.rows = Some(popped.left);
        counter.verdict = dry.map(|error| (Instant::now(), error));
        drop(counter);
        self.arrived.notify_waiters();
    }

    fn failed(&self, error: &PoolError) {
        let mut counter = self.lock();
        let is_news = !counter.verdict.as_ref().is_some_and(|(_, met)| *met == IssueError::from(error));
        counter.verdict = Some((Instant::now(), error.into()));
        drop(counter);
        if is_news {
            tracing::warn!(keyspace = %self.track, %error, "keyspace `{}` cannot pop: {error}", self.track);
        }
        self.arrived.notify_waiters();
    }
}
