//! Keys made ahead from reserved numbers: a mint, a stock, a shelf, and those who wait for keys.
//! Pools and sequences are served this way.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use keymill_id::{Block, Mint, Number, Scratch};
use keymill_ledger::{
    LedgerError, Timestamp, Track,
    ops::{Progress, Reserved},
};
use tokio::{sync::Notify, time::Instant};

use crate::{
    error::IssueError,
    haul::Haul,
    served::{Glance, Leftovers},
    shelf::{Chunk, Rest, Shelf},
    stock::Stock,
    tuning::Tuned,
    waiting::WaitingRoom,
};

/// Spelled keys a keyspace may keep on its shelf, in bytes.
const SHELF_BYTES: u64 = 4 << 20;
/// Keys the mill spells for one keyspace before it turns to the next.
const TURN_KEYS: u64 = 1 << 16;

/// Where a keyspace asks to be milled.
pub(crate) type Hopper = mpsc::Sender<Arc<Milled>>;

#[derive(Debug)]
pub(crate) struct Milled {
    pub(crate) track: Track,
    pub(crate) mint: Mint,
    shelf: Shelf,
    store: Mutex<Store>,
    /// Below this many keys behind the lanes, the mill should come.
    low: AtomicU64,
    queued: AtomicBool,
    starved: AtomicBool,
    waiting: WaitingRoom,
    arrived: Notify,
    hopper: Hopper,
}

/// What only the mill, the refill and the curious touch.
#[derive(Debug)]
struct Store {
    stock: Stock,
    tuned: Tuned,
    /// Why no more keys come out, ever, from this value.
    closed: Option<IssueError>,
    /// What the last refill met, if it failed.
    trouble: Option<IssueError>,
    scratch: Scratch,
    burned: u64,
    reserves: u64,
    reported: Reported,
    observed: u64,
}

/// What the last audit said.
#[derive(Debug, Default, Clone, Copy)]
struct Reported {
    issued: u64,
    burned: u64,
}

impl Milled {
    pub(crate) fn new(
        track: Track,
        mint: Mint,
        tuned: Tuned,
        lanes: usize,
        waiting: usize,
        hopper: Hopper,
    ) -> Self {
        let lanes = if mint.ordered() { 1 } else { lanes };
        let ceiling = Number::new(mint.size()).expect("a definition's space fits the ledger's numbers");
        Self {
            track,
            mint,
            shelf: Shelf::new(lanes),
            store: Mutex::new(Store {
                stock: Stock::new(tuned, ceiling),
                tuned,
                closed: None,
                trouble: None,
                scratch: Scratch::default(),
                burned: 0,
                reserves: 0,
                reported: Reported::default(),
                observed: 0,
            }),
            low: AtomicU64::new(1),
            queued: AtomicBool::new(false),
            starved: AtomicBool::new(false),
            waiting: WaitingRoom::new(waiting),
            arrived: Notify::new(),
            hopper,
        }
    }

    pub(crate) fn ceiling(&self) -> Number {
        Number::new(self.mint.size()).expect("a definition's space fits the ledger's numbers")
    }

    /// Takes exactly `count` keys, or none: now if they are ready, else once they are milled.
    #[inline]
    pub(crate) async fn take(self: &Arc<Self>, count: u32, patience: Duration) -> Result<Haul, IssueError> {
        match self.take_now(count) {
            Ok(haul) => Ok(haul),
            Err(haul) => self.wait(haul, count, patience, false).await,
        }
    }

    /// Waits until `haul` holds `count` keys; fewer, but at least one, only where no more will ever come.
    pub(crate) async fn complete(
        self: &Arc<Self>,
        haul: Haul,
        count: u32,
        patience: Duration,
    ) -> Result<Haul, IssueError> {
        self.wait(haul, count, patience, true).await
    }

    /// Takes one key if this thread's lane shows one, and hands it to `use_it`.
    #[inline]
    pub(crate) fn with_one<R>(self: &Arc<Self>, use_it: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let used = self.shelf.with_one(use_it);
        if self.shelf.waiting() < self.low.load(Ordering::Relaxed) {
            self.ask_for_milling();
        }
        used
    }

    /// The path of a take: what is on the shelf. `Err` holds what there was of it.
    #[inline]
    pub(crate) fn take_now(self: &Arc<Self>, count: u32) -> Result<Haul, Haul> {
        let haul = self.shelf.grab(count);
        if self.shelf.waiting() < self.low.load(Ordering::Relaxed) {
            self.ask_for_milling();
        }
        if haul.count() == count { Ok(haul) } else { Err(haul) }
    }

    #[cold]
    async fn wait(
        self: &Arc<Self>,
        mut haul: Haul,
        count: u32,
        patience: Duration,
        fewer_at_the_end: bool,
    ) -> Result<Haul, IssueError> {
        let deadline = Instant::now() + patience;
        let mut place = None;
        loop {
            // Before looking: what arrives from here on wakes us.
            let arrived = self.arrived.notified();
            self.shelf.grab_more(count, &mut haul);
            if haul.count() == count {
                return Ok(haul);
            }
            if let Some(error) = self.hopeless() {
                if fewer_at_the_end && error == IssueError::Exhausted && haul.count() > 0 {
                    return Ok(haul);
                }
                self.return_unissued(haul);
                return Err(error);
            }
            if place.is_none() {
                match self.waiting.enter() {
                    Ok(entered) => place = Some(entered),
                    Err(overloaded) => {
                        self.return_unissued(haul);
                        return Err(overloaded);
                    }
                }
            }
            self.starved.store(true, Ordering::Relaxed);
            self.ask_for_milling();
            if tokio::time::timeout_at(deadline, arrived).await.is_err() {
                self.return_unissued(haul);
                return Err(self.lock().trouble.clone().unwrap_or(IssueError::OutOfStock));
            }
        }
    }

    /// Why waiting cannot help, if it cannot.
    fn hopeless(&self) -> Option<IssueError> {
        let store = self.lock();
        match &store.closed {
            Some(error) => Some(error.clone()),
            None if store.stock.is_dry() && self.shelf.ready() == 0 => Some(IssueError::Exhausted),
            None => None,
        }
    }

    /// Takes `count` numbers that follow one another without a gap: from the shelf if it shows them, else
    /// from all that is held, else once enough of them came. Answers the first.
    pub(crate) async fn take_run(
        self: &Arc<Self>,
        count: u32,
        patience: Duration,
    ) -> Result<Number, IssueError> {
        let deadline = Instant::now() + patience;
        let mut place = None;
        loop {
            // Before looking: what arrives from here on wakes us.
            let arrived = self.arrived.notified();
            let run = self.shelf.take_run(count).or_else(|| self.cut_run(count));
            if self.shelf.waiting() < self.low.load(Ordering::Relaxed) {
                self.ask_for_milling();
            }
            if let Some(run) = run {
                return Ok(run.start());
            }
            self.no_run_will_come(count)?;
            if place.is_none() {
                place = Some(self.waiting.enter()?);
            }
            self.ask_for_milling();
            if tokio::time::timeout_at(deadline, arrived).await.is_err() {
                return Err(self.lock().trouble.clone().unwrap_or(IssueError::OutOfStock));
            }
        }
    }

    /// Cuts the first run that is long enough out of the shelf and the stock behind it. Numbers before it
    /// are burned: once later ones have left, they must not.
    #[cold]
    fn cut_run(&self, count: u32) -> Option<Block> {
        let count = u64::from(count);
        let mut store = self.lock();
        if store.closed.is_some() {
            return None;
        }
        let mut held = self.shelf.hold();
        let mut line = held.blocks()?;
        line.extend(store.stock.blocks()?);
        let (skipped, run) = first_run(&line, count)?;
        let mut left = skipped + count;
        left -= held.cut(left);
        while left > 0 {
            let cut = store.stock.withdraw(left, |_| self.ceiling()).expect("the line was counted");
            left -= cut.block.count();
        }
        held.count_issued(count);
        store.burned += skipped;
        Some(run)
    }

    /// Why no run of that length will ever come, if none will; else more is asked for.
    fn no_run_will_come(&self, count: u32) -> Result<(), IssueError> {
        let mut store = self.lock();
        if let Some(error) = &store.closed {
            return Err(error.clone());
        }
        if store.stock.is_exhausted() && !store.stock.is_refilling() {
            return Err(IssueError::Exhausted);
        }
        store.stock.want_run(count.into());
        Ok(())
    }

    /// Keys of a haul that was not completed never left: a pool shelves them again. A sequence burns
    /// them, since later tickets may have left in the meantime and tickets only rise.
    fn return_unissued(&self, haul: Haul) {
        if haul.count() == 0 {
            return;
        }
        if matches!(self.mint, Mint::Sequence(_)) {
            self.lock().burned += u64::from(haul.count());
        } else {
            self.shelf.put_back(haul);
            self.arrived.notify_waiters();
        }
    }

    #[cold]
    pub(crate) fn ask_for_milling(self: &Arc<Self>) {
        if !self.queued.load(Ordering::Relaxed) && !self.queued.swap(true, Ordering::Relaxed) {
            // A closed hopper means that the process is on its way out.
            let _ = self.hopper.send(self.clone());
        }
    }

    /// One turn of the mill: spell what the shelf lacks. Returns how many numbers to reserve, if any.
    pub(crate) fn mill(self: &Arc<Self>) -> Option<std::num::NonZeroU64> {
        self.queued.store(false, Ordering::Relaxed);
        let mut spelled = 0;
        loop {
            let mut store = self.lock();
            if store.closed.is_some() {
                return None;
            }
            let Store { stock, scratch, burned, .. } = &mut *store;
            let most = SHELF_BYTES / self.key_bytes();
            let target = stock.shelf_target(most);
            self.low.store(target.div_ceil(2), Ordering::Relaxed);
            if self.shelf.waiting() >= target {
                break;
            }
            if spelled >= TURN_KEYS {
                self.ask_for_milling();
                break;
            }
            let Some(run) = stock.withdraw(stock.chunk(most), |n| self.mint.segment_end(n)) else { break };
            let slab = self.mint.spell_block(run.block, &run.holes, scratch);
            spelled += run.block.count();
            *burned += run.block.count() - u64::from(slab.len());
            if !slab.is_empty() {
                // Under the store's lock, so that closing finds every number in one place or the other.
                self.shelf.stack(Chunk::new(slab));
            }
            drop(store);
            self.arrived.notify_waiters();
        }
        let starved = self.starved.load(Ordering::Relaxed);
        self.lock().stock.wish(self.shelf.ready(), starved)
    }

    fn key_bytes(&self) -> u64 {
        self.mint.width(Number::ZERO).max(1) as u64
    }

    /// A wish was granted. False: the keyspace is closed, and the numbers are burned.
    pub(crate) fn deposit(self: &Arc<Self>, reserved: Reserved) -> bool {
        let mut store = self.lock();
        store.reserves += 1;
        store.trouble = None;
        if store.closed.is_some() {
            store.burned += reserved.block.count();
            store.stock.disappointed(false);
            return false;
        }
        store.stock.deposit(reserved);
        drop(store);
        self.ask_for_milling();
        true
    }

    /// A refill failed; callers hear of it when their patience ends.
    pub(crate) fn troubled(&self, error: &LedgerError) {
        self.lock().trouble = Some(IssueError::from_ledger(error));
    }

    /// The wish is over and was not granted.
    pub(crate) fn disappointed(self: &Arc<Self>, exhausted: bool) {
        self.lock().stock.disappointed(exhausted);
        self.arrived.notify_waiters();
        self.ask_for_milling();
    }

    /// A quarter of a second or so went by.
    pub(crate) fn observe(self: &Arc<Self>, seconds: f64) {
        let issued = self.shelf.issued();
        let starved = self.starved.swap(false, Ordering::Relaxed);
        let mut store = self.lock();
        let since = issued.saturating_sub(store.observed);
        store.observed = issued;
        store.stock.observe(since, seconds, starved);
        drop(store);
        if since > 0 {
            self.ask_for_milling();
        }
    }

    pub(crate) fn tune(&self, tuned: Tuned) {
        let mut store = self.lock();
        store.tuned = tuned;
        store.stock.tune(tuned);
    }

    /// A hole was made above the cursor by ourselves.
    pub(crate) fn revised(&self, before: u64, after: u64) {
        self.lock().stock.revised(before, after);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.taken()
    }

    pub(crate) fn glance(&self) -> Glance {
        let store = self.lock();
        Glance {
            stock: store.stock.held() + self.shelf.ready(),
            issued: self.shelf.issued(),
            burned: store.burned,
            reserves: store.reserves,
            rate: store.stock.rate(),
        }
    }

    /// Whether `number` is held here and has not left.
    pub(crate) fn holds(&self, number: Number) -> bool {
        let store = self.lock();
        store.stock.contains(number)
            || self.shelf.rests().iter().filter_map(|rest| self.numbers_of(rest)).any(|b| b.contains(number))
    }

    fn numbers_of(&self, rest: &Rest) -> Option<Block> {
        rest.numbers(|key| {
            let text = std::str::from_utf8(key).expect("alphabets are ASCII");
            self.mint.number_of(text).expect("a key that was spelled can be read back")
        })
    }

    /// How far this keyspace got since the last time, if it got anywhere.
    pub(crate) fn progress(&self, now: Timestamp) -> Option<Progress> {
        let mut store = self.lock();
        let rests = self.shelf.rests();
        let unissued = rests.iter().filter_map(|rest| self.numbers_of(rest)).map(Block::start).min();
        self.progress_of(&mut store, unissued, now)
    }

    /// The ledger did not hear of it: it belongs to what is told next.
    pub(crate) fn unreported(&self, progress: &Progress) {
        let mut store = self.lock();
        store.reported.issued = store.reported.issued.saturating_sub(progress.issued);
        store.reported.burned = store.reported.burned.saturating_sub(progress.burned);
    }

    fn progress_of(&self, store: &mut Store, unissued: Option<Number>, now: Timestamp) -> Option<Progress> {
        let lowest = unissued.into_iter().chain(store.stock.first()).min();
        let issued_up_to = lowest.or(store.stock.end())?;
        let at = Reported { issued: self.shelf.issued(), burned: store.burned };
        let before = std::mem::replace(&mut store.reported, at);
        let issued = at.issued.saturating_sub(before.issued);
        let burned = at.burned.saturating_sub(before.burned);
        (issued > 0 || burned > 0).then(|| Progress {
            track: self.track.clone(),
            issued_up_to,
            issued,
            burned,
            last_issued_at: now,
        })
    }

    /// Whether a refill is on its way.
    pub(crate) fn is_refilling(&self) -> bool {
        self.lock().stock.is_refilling()
    }

    /// Closes the keyspace for good. Every number it held either left before, or is in what this
    /// returns and will never leave.
    pub(crate) fn close(&self, why: IssueError, now: Timestamp) -> Leftovers {
        let mut store = self.lock();
        store.closed.get_or_insert(why);
        let rests = self.shelf.close();
        let mut unissued: Vec<Block> = rests.iter().filter_map(|rest| self.numbers_of(rest)).collect();
        unissued.extend(store.stock.drain());
        let offer = store.stock.offer(&unissued);
        let progress = self.progress_of(&mut store, None, now);
        drop(store);
        self.arrived.notify_waiters();
        Leftovers { track: self.track.clone(), unissued, popped: Vec::new(), offer, progress }
    }

    /// Why no more keys come out, if none do.
    pub(crate) fn closed(&self) -> Option<IssueError> {
        self.lock().closed.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().expect("nothing panics while it holds the store but an assertion that must")
    }
}

/// The first run of `count` numbers in a line of blocks, and how many numbers lie before it.
fn first_run(line: &[Block], count: u64) -> Option<(u64, Block)> {
    let mut skipped = 0;
    let mut run: Option<Block> = None;
    for block in line {
        run = match run {
            Some(before) if before.end() == block.start() => Block::new(before.start(), block.end()),
            before => {
                skipped += before.map_or(0, Block::count);
                Some(*block)
            }
        };
        if let Some(run) = run.filter(|run| run.count() >= count) {
            return Some((skipped, run.split_at(count).0));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u64, end: u64) -> Block {
        Block::new(Number::new(start).unwrap(), Number::new(end).unwrap()).unwrap()
    }

    #[test]
    fn a_run_goes_across_blocks_that_touch_and_skips_those_that_are_too_short() {
        let line = [block(3, 5), block(5, 9), block(20, 22), block(30, 50)];
        assert_eq!(first_run(&line, 2), Some((0, block(3, 5))));
        assert_eq!(first_run(&line, 6), Some((0, block(3, 9))));
        assert_eq!(first_run(&line, 7), Some((8, block(30, 37))));
        assert_eq!(first_run(&line, 21), None);
        assert_eq!(first_run(&[], 1), None);
    }
}
