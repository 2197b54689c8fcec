//! Keys in memory, and the only code on the path of a take.
//!
//! One chunk is shown; to take is to add to its counter. Only when it is used up is a lock taken, to show the
//! next. All threads share the one chunk, so that keys leave in the order they came: tickets rise.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;

use crate::chunk::{Chunk, Taken};

#[derive(Debug, Default)]
pub(crate) struct Cache {
    shown: ArcSwapOption<Chunk>,
    back: Mutex<Back>,
    /// Somebody found nothing.
    starved: AtomicBool,
    /// Few are left, or none: whoever refills should look.
    low: Notify,
}

/// Behind the shown chunk: those that wait their turn.
#[derive(Debug, Default)]
struct Back {
    chunks: VecDeque<Chunk>,
    waiting: u64,
    /// Keys of chunks that were shown before this one.
    taken: u64,
    /// Tell when no more than this is left.
    low: u64,
    closed: bool,
}

/// What whoever refills needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Glance {
    pub taken: u64,
    pub left: u64,
    pub starved: bool,
}

impl Cache {
    /// Takes one key of the shown chunk and hands it to `use_it`, or gives `use_it` back.
    #[inline]
    pub(crate) fn with_key<R, F: FnOnce(&[u8]) -> R>(&self, use_it: F) -> Result<R, F> {
        let shown = self.shown.load();
        let Some(chunk) = shown.as_ref() else { return Err(use_it) };
        match self.take(chunk, 1) {
            Some(taken) => Ok(chunk.with_key(taken.from, use_it)),
            None => Err(use_it),
        }
    }

    /// Takes one key, if keys are numbers here and one is ready.
    #[inline]
    pub(crate) fn take_number(&self) -> Option<u64> {
        loop {
            let shown = self.shown.load();
            if let Some(chunk) = shown.as_ref() {
                if !chunk.is_numbers() {
                    return None;
                }
                if let Some(taken) = self.take(chunk, 1) {
                    return chunk.number(taken.from);
                }
            }
            drop(shown);
            if !self.show_next() {
                return None;
            }
        }
    }

    /// Whether the chunk that is shown holds text.
    pub(crate) fn shows_text(&self) -> bool {
        self.shown.load().as_ref().is_some_and(|chunk| !chunk.is_numbers())
    }

    /// Hands `use_it` up to `count` positions of the shown chunk, after showing the next one if need be. How
    /// many it was; 0 when there is nothing.
    pub(crate) fn with_some(&self, count: u32, mut use_it: impl FnMut(&Chunk, u32)) -> u32 {
        loop {
            let shown = self.shown.load();
            if let Some(chunk) = shown.as_ref()
                && let Some(taken) = self.take(chunk, count)
            {
                (taken.from..taken.to).for_each(|at| use_it(chunk, at));
                return taken.to - taken.from;
            }
            drop(shown);
            if !self.show_next() {
                return 0;
            }
        }
    }

    #[inline]
    fn take(&self, chunk: &Chunk, count: u32) -> Option<Taken> {
        let taken = chunk.take(count)?;
        if taken.low {
            self.low.notify_one();
        }
        Some(taken)
    }

    /// Shows the next chunk; false when there is none.
    #[cold]
    fn show_next(&self) -> bool {
        let mut back = self.lock();
        if self.shown_left() > 0 {
            return true; // someone else was quicker
        }
        let Some(next) = back.chunks.pop_front() else { return false };
        let count = u64::from(next.count());
        back.waiting -= count;
        let left = count + back.waiting;
        if left <= back.low {
            self.low.notify_one();
        }
        // Once the key at this position is taken, `low` are left.
        let mark = left.checked_sub(back.low + 1);
        let before = self.shown.swap(Some(next.shown(mark)));
        back.taken += before.map_or(0, |chunk| u64::from(chunk.count()));
        true
    }

    /// Puts a chunk behind the others. False: the cache is closed, and the chunk is burned.
    pub(crate) fn stack(&self, chunk: Chunk) -> bool {
        let mut back = self.lock();
        if back.closed {
            return false;
        }
        back.waiting += u64::from(chunk.count());
        back.chunks.push_back(chunk);
        true
    }

    /// Tells whoever refills that there is nothing.
    pub(crate) fn cry(&self) {
        self.starved.store(true, Ordering::Relaxed);
        self.low.notify_one();
    }

    /// Waits until few are left, or until somebody cries.
    pub(crate) async fn until_low(&self) {
        self.low.notified().await;
    }

    /// Sets how many are few.
    pub(crate) fn set_low(&self, low: u64) {
        self.lock().low = low;
    }

    /// Keys ready to be taken.
    pub(crate) fn ready(&self) -> u64 {
        let back = self.lock();
        self.shown_left() + back.waiting
    }

    /// What was taken and what is left, and whether somebody cried since the last time.
    pub(crate) fn glance(&self) -> Glance {
        let back = self.lock();
        let shown = self.shown.load();
        let taken = shown.as_ref().map_or(0, |chunk| u64::from(chunk.taken()));
        Glance {
            taken: back.taken + taken,
            left: self.shown_left() + back.waiting,
            starved: self.starved.swap(false, Ordering::Relaxed),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Closes it for good; how many keys were burned.
    pub(crate) fn close(&self) -> u64 {
        let mut back = self.lock();
        back.closed = true;
        back.chunks.clear();
        let shown = self.shown.swap(None).map_or(0, |chunk| chunk.close());
        shown + std::mem::take(&mut back.waiting)
    }

    fn shown_left(&self) -> u64 {
        self.shown.load().as_ref().map_or(0, |chunk| chunk.left())
    }

    fn lock(&self) -> MutexGuard<'_, Back> {
        self.back.lock().expect("nothing panics while it holds the cache")
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;
    use crate::chunk::tests::run;

    fn take(cache: &Cache, count: u32) -> Vec<u64> {
        let mut out = Vec::new();
        while (out.len() as u64) < u64::from(count) {
            let left = count - u32::try_from(out.len()).unwrap();
            if cache.with_some(left, |chunk, at| out.push(chunk.number(at).unwrap())) == 0 {
                break;
            }
        }
        out
    }

    #[test]
    fn keys_leave_once_and_in_the_order_they_came() {
        let cache = Cache::default();
        cache.stack(run(0, 3));
        cache.stack(run(10, 2));
        assert_eq!(cache.ready(), 5);
        assert!(cache.with_key(|_| ()).is_err(), "nothing is shown yet");
        assert_eq!(take(&cache, 4), [0, 1, 2, 10]);
        assert_eq!(cache.with_key(<[u8]>::to_vec).ok().as_deref(), Some(&b"11"[..]));
        assert!(take(&cache, 1).is_empty());
        assert_eq!(cache.glance(), Glance { taken: 5, left: 0, starved: false });
    }

    #[tokio::test]
    async fn whoever_takes_the_key_above_low_water_tells() {
        let cache = Cache::default();
        cache.set_low(4);
        cache.stack(run(0, 6));
        cache.stack(run(10, 2));
        let told = async || tokio::time::timeout(std::time::Duration::ZERO, cache.until_low()).await.is_ok();
        take(&cache, 3);
        assert!(!told().await, "five are left");
        take(&cache, 1);
        assert!(told().await, "four are left");
        take(&cache, 1);
        assert!(!told().await, "told once");
        cache.cry();
        assert!(told().await && cache.glance().starved && !cache.glance().starved);
    }

    #[test]
    fn closing_burns_exactly_what_was_left() {
        let cache = Cache::default();
        cache.stack(run(0, 6));
        cache.stack(run(10, 2));
        take(&cache, 3);
        assert_eq!(cache.close(), 5);
        assert!(!cache.stack(run(20, 1)));
        assert_eq!((take(&cache, 1), cache.close()), (vec![], 0));
    }

    #[test]
    fn many_threads_never_take_one_key_twice_and_leave_none() {
        const CHUNKS: u64 = 200;
        let cache = Cache::default();
        let taken = thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut mine = Vec::new();
                        while !cache.is_closed() || cache.ready() > 0 {
                            let before = mine.len();
                            if let Some(number) = cache.take_number() {
                                mine.push(number);
                            } else {
                                cache.with_some(3, |chunk, at| mine.push(chunk.number(at).unwrap()));
                            }
                            if mine.len() == before && cache.glance().taken == CHUNKS * 50 {
                                break;
                            }
                        }
                        mine
                    })
                })
                .collect();
            for chunk in 0..CHUNKS {
                cache.stack(run(chunk * 50, 50));
            }
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(taken.len() as u64, CHUNKS * 50);
        assert_eq!(taken.iter().collect::<HashSet<_>>().len(), taken.len());
    }
}
