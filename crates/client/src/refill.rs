//! The task that keeps a cache filled: one per keyspace, one fetch at a time.

use std::sync::Arc;

use keymill_wire::Code;
use tokio::time::sleep;

use crate::{error::Error, fetch::Order, keyspace::Store, sizing::Sizing};

/// A refill comes in so many batches, so that some of it comes even where the rest is late or refused. One that
/// was too large for that is tried again at the size of a batch.
const BATCHES: u64 = 8;
/// The most keys in a batch: as many as servers send unless asked.
const BATCH_MAX: u32 = 1000;

/// Runs until it is aborted.
pub(crate) async fn run(store: Arc<Store>, mut sizing: Sizing) {
    let Store { core, name, cache, board, .. } = &*store;
    let stack = |chunk| {
        cache.stack(chunk);
        board.good_news();
    };
    let (mut most, mut failures) = (u64::MAX, 0);
    loop {
        let glance = cache.glance();
        let wish = sizing.wish(core.now(), glance.taken, glance.left, glance.starved);
        cache.set_low(sizing.low());
        if wish == 0 {
            cache.until_low().await;
            continue;
        }
        let count = wish.min(most);
        let batch = count.div_ceil(BATCHES);
        let order =
            Order { count, batch: u32::try_from(batch).map_or(BATCH_MAX, |batch| batch.min(BATCH_MAX)) };
        match core.fetch(name, order, &|failure| board.note(failure), &stack).await {
            Ok(()) => {
                core.counters.refills.add(1);
                (most, failures) = (most.saturating_mul(2), 0);
            }
            Err(error) if is_too_much(&error) && count > 1 => most = batch,
            Err(error) => {
                core.counters.refills_failed.add(1);
                failures += 1;
                let passes = error.is_transient();
                board.bad_news(error);
                if passes {
                    sleep(core.pause(failures)).await;
                } else {
                    // Whoever needs a key will hear the same, at the price of a call.
                    cache.until_low().await;
                }
            }
        }
    }
}

/// Whether a smaller order may be met: a batch comes whole or not at all, so that the last keys of a keyspace,
/// and those of a limited rate, have to be asked for in small ones.
fn is_too_much(error: &Error) -> bool {
    let limited = error.failure().is_some_and(|failure| failure.status == tonic::Code::ResourceExhausted);
    limited || matches!(error.code(), Some(Code::Exhausted | Code::CountOutOfRange))
}
