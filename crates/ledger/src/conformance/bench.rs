//! What a store must offer to be tested: an empty ledger, and handles onto it.

use std::{future::Future, sync::Arc};

use crate::Store;

/// One ledger for one test, empty at first, and whatever keeps it there: a directory, an engine, a prefix
/// on a shared server.
pub trait Bench: Send + Sync + 'static {
    type Store: Store;

    /// A handle onto the ledger. An engine with clients connects another one each time, so that two
    /// handles know nothing of each other; an embedded store, which only one process may open, gives
    /// the one it has.
    fn handle(&self) -> impl Future<Output = Arc<Self::Store>> + Send;

    /// Lets so many milliseconds pass on the clock that leases are judged by. Tests move the clock they
    /// send themselves, so only a store that reads its engine's clock has to wait here.
    fn pass(&self, millis: u64) -> impl Future<Output = ()> + Send;
}

/// A store that can be sent back in time, as a restored copy or a failover to a lagging standby does.
/// Handles stay usable.
pub trait Rewinds: Bench {
    type Moment: Send;

    fn moment(&self) -> impl Future<Output = Self::Moment> + Send;
    fn rewind(&self, to: Self::Moment) -> impl Future<Output = ()> + Send;
}

/// A store whose engine can become another one with the same rows.
pub trait FailsOver: Bench {
    fn fail_over(&self) -> impl Future<Output = ()> + Send;
}
