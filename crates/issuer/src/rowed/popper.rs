//! Pops what the tray wishes for: one pop at a time, and none when nobody asks.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
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
        rowed.popping.store(true, Ordering::Relaxed);
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
    fn popped(&self, mut popped: Popped, dry: Option<IssueError>) {
        self.drop_flawed(&mut popped.keys);
        self.lay(&popped.keys);
        self.popping.store(false, Ordering::Relaxed);
        let mut counter = self.lock();
        counter.rows = Some(popped.left);
        counter.verdict = dry.map(|error| (Instant::now(), error));
        drop(counter);
        self.arrived.notify_waiters();
    }

    /// Other programs can put rows there as well. What no import would take is nobody's key, and is not handed out.
    fn drop_flawed(&self, keys: &mut Vec<Vec<u8>>) {
        let flaw = |key: &[u8]| match std::str::from_utf8(key) {
            Ok(key) => self.flaw(key),
            Err(_) => Some("it is not text".to_owned()),
        };
        let (before, mut why) = (keys.len(), None);
        keys.retain(|key| {
            let flaw = flaw(key);
            let is_sound = flaw.is_none();
            why = flaw.or(why.take());
            is_sound
        });
        let dropped = (before - keys.len()) as u64;
        let Some(why) = why else { return };
        self.burned.fetch_add(dropped, Ordering::Relaxed);
        if self.flawed.is_new(&why) {
            tracing::warn!(
                keyspace = %self.track, rows = dropped,
                "{dropped} rows of keyspace `{}` are no keys and were dropped: {why}; bring keys in with `keymill import \
                 keys`",
                self.track
            );
        }
    }

    fn failed(&self, error: &PoolError) {
        self.popping.store(false, Ordering::Relaxed);
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
