//! Which lane a thread uses: threads take numbers in turn, once each.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
}

/// This thread's lane out of so many.
#[inline]
pub(crate) fn of(lanes: usize) -> usize {
    MINE.get() % lanes
}
