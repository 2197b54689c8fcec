//! Who may wait for keys that are not ready.
//!
//! Each keyspace has so many places to wait and no more. One that is starved refuses the next caller at
//! once, instead of collecting callers until it takes the others down with it.

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::IssueError;

#[derive(Debug)]
pub(crate) struct WaitingRoom {
    places: Semaphore,
    most: usize,
}

impl WaitingRoom {
    pub(crate) fn new(places: usize) -> Self {
        let most = places.min(Semaphore::MAX_PERMITS);
        Self { places: Semaphore::new(most), most }
    }

    pub(crate) fn taken(&self) -> usize {
        self.most.saturating_sub(self.places.available_permits())
    }

    /// A place, until it is dropped.
    pub(crate) fn enter(&self) -> Result<SemaphorePermit<'_>, IssueError> {
        self.places.try_acquire().map_err(|_| IssueError::Overloaded)
    }
}
