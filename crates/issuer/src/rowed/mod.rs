//! Keys that lie as rows in Redis or in SQL tables, where other programs take them too.
//!
//! A row pool walks the same track as a virtual one. The [`filler`] reserves numbers, spells them and pushes the
//! keys; from then on they count as issued, and a node pops them like anyone else: in batches. What it has not
//! handed out when it stops goes back where the store can tell that this is safe, and is burned elsewhere and by a
//! crash. That is why nothing is popped ahead while the keyspace is quiet, and no more than the rate asks for while it
//! is not.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use keymill_id::{Mint, Number};
use keymill_ledger::{Timestamp, Track, ops::Progress};
use tokio::{sync::Notify, time::Instant};

use crate::{
    error::IssueError,
    haul::Haul,
    news::News,
    node::Node,
    served::{Glance, Leftovers, Settings},
    tuning::OnEmpty,
    waiting::WaitingRoom,
};

mod contract;
mod draw;
mod filler;
mod import;
mod popper;
mod tray;

pub use contract::{Begun, Era, NoRowPools, PoolError, Popped, Pushed, RowHome, RowPool, RowPools, Standing};
pub use draw::DrawGlance;
pub use filler::FillGlance;
pub use import::{IMPORTED_KEY_MAX, Imported};

use draw::{ATTEMPTS_MAX, DRAWN_AT_ONCE, Draws};
use filler::Filling;
use tray::Tray;

/// How long a pop that brought nothing speaks for the pool.
const DRY_FOR: Duration = Duration::from_millis(100);

/// How long someone who wants to know the level waits for the store.
const COUNT_WITHIN: Duration = Duration::from_millis(500);

/// A pool, or why there is none.
type Opened = Result<Arc<dyn RowPool>, PoolError>;

#[derive(Debug)]
pub(crate) struct Rowed {
    pub(crate) track: Track,
    pub(crate) mint: Mint,
    home: RowHome,
    pools: Arc<dyn RowPools>,
    pool: ArcSwap<Opened>,
    settings: ArcSwap<Settings>,
    counter: Mutex<Counter>,
    waiting: WaitingRoom,
    /// Keys came, or it is known that none will.
    arrived: Notify,
    /// The popper should look whether to pop.
    wanted: Notify,
    /// A pop is on its way.
    popping: AtomicBool,
    filling: Filling,
    draws: Draws,
    burned: AtomicU64,
    /// Rows that are no keys.
    flawed: News,
    node: Weak<Node>,
}

/// What callers, the popper and the curious touch.
#[derive(Debug, Default)]
struct Counter {
    tray: Tray,
    closed: Option<IssueError>,
    /// What the last pop met, if it brought too little, and when.
    verdict: Option<(Instant, IssueError)>,
    /// Rows left, as far as is known.
    rows: Option<u64>,
    reported: Reported,
}

/// What the last audit said.
#[derive(Debug, Default, Clone, Copy)]
struct Reported {
    pushed: u64,
    skipped: u64,
}

impl Rowed {
    pub(crate) fn new(
        home: RowHome,
        mint: Mint,
        settings: Settings,
        waiting: usize,
        pools: Arc<dyn RowPools>,
        node: Weak<Node>,
    ) -> Self {
        let pool = pools.open(&home, &settings);
        Self {
            track: Track::of(home.keyspace.clone()),
            mint,
            home,
            pools,
            pool: ArcSwap::from_pointee(pool),
            settings: ArcSwap::from_pointee(settings),
            counter: Mutex::default(),
            waiting: WaitingRoom::new(waiting),
            arrived: Notify::new(),
            wanted: Notify::new(),
            popping: AtomicBool::new(false),
            filling: Filling::default(),
            draws: Draws::default(),
            burned: AtomicU64::new(0),
            flawed: News::default(),
            node,
        }
    }

    /// Begins to pop and to fill, for as long as the node lives.
    pub(crate) fn start(self: &Arc<Self>) {
        tokio::spawn(popper::keep(self.node.clone(), self.clone()));
        tokio::spawn(filler::keep(self.node.clone(), self.clone()));
    }

    /// Fills by another filler, over a connection of its own. The one before is not cut off in the middle of a write;
    /// it ends by itself, once what it waits for has come or timed out.
    pub(crate) fn restart_filler(self: &Arc<Self>) {
        self.pool.store(Arc::new(self.pools.open(&self.home, &self.settings.load())));
        tokio::spawn(filler::keep(self.node.clone(), self.clone()));
    }

    fn pool(&self) -> Opened {
        Opened::clone(&self.pool.load())
    }

    pub(crate) fn ceiling(&self) -> Number {
        Number::new(self.mint.size()).expect("a definition's space fits the ledger's numbers")
    }

    /// Takes exactly `count` keys, or none: now if they were popped already, else once they are.
    pub(crate) async fn take(&self, count: u32, patience: Duration) -> Result<Haul, IssueError> {
        match self.take_now(count) {
            Ok(haul) => Ok(haul),
            Err(haul) => self.wait(haul, count, patience, false).await,
        }
    }

    /// Waits until `haul` holds `count` keys; fewer, but at least one, only where no more will ever come.
    pub(crate) async fn complete(
        &self,
        haul: Haul,
        count: u32,
        patience: Duration,
    ) -> Result<Haul, IssueError> {
        self.wait(haul, count, patience, true).await
    }

    pub(crate) fn take_now(&self, count: u32) -> Result<Haul, Haul> {
        let mut haul = Haul::default();
        let mut counter = self.lock();
        counter.tray.grab_more(count, &mut haul);
        let wishes = self.wish(&counter).is_some();
        drop(counter);
        if wishes {
            self.wanted.notify_one();
        }
        if haul.count() == count { Ok(haul) } else { Err(haul) }
    }

    pub(crate) fn with_one<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let haul = self.take_now(1).ok()?;
        haul.keys().next().map(use_it)
    }

    async fn wait(
        &self,
        mut haul: Haul,
        count: u32,
        patience: Duration,
        fewer_at_the_end: bool,
    ) -> Result<Haul, IssueError> {
        let deadline = Instant::now() + patience;
        let (mut place, mut drawn) = (None, 0);
        loop {
            // Before looking: what arrives from here on wakes us.
            let arrived = self.arrived.notified();
            let verdict = self.look(count, &mut haul);
            if haul.count() == count {
                return Ok(haul);
            }
            match verdict {
                Verdict::Closed(error) => return self.give_up(haul, error),
                Verdict::UsedUp if fewer_at_the_end && haul.count() > 0 => return Ok(haul),
                Verdict::UsedUp => return self.give_up(haul, IssueError::Exhausted),
                Verdict::Dry(error) => match self.settings.load().tuned.on_empty {
                    OnEmpty::Wait => {}
                    OnEmpty::Refuse => return self.give_up(haul, error),
                    OnEmpty::Random => {
                        let lacks = (count - haul.count()).min(DRAWN_AT_ONCE);
                        drawn += u64::from(lacks);
                        if drawn > u64::from(count) * u64::from(ATTEMPTS_MAX) || Instant::now() >= deadline {
                            return self.give_up(haul, IssueError::OutOfStock);
                        }
                        match self.draw(lacks).await {
                            Ok(()) => continue,
                            Err(error) => return self.give_up(haul, error),
                        }
                    }
                },
                Verdict::Unknown => {}
            }
            if place.is_none() {
                match self.waiting.enter() {
                    Ok(entered) => place = Some(entered),
                    Err(overloaded) => return self.give_up(haul, overloaded),
                }
            }
            let lack = Lack::of(self, count - haul.count());
            self.wanted.notify_one();
            let in_time = tokio::time::timeout_at(deadline, arrived).await.is_ok();
            drop(lack);
            if !in_time {
                let met = self.lock().verdict.as_ref().map(|(_, error)| error.clone());
                return self.give_up(haul, met.unwrap_or(IssueError::OutOfStock));
            }
        }
    }

    /// Takes what there is, and says what to expect if that is not enough.
    fn look(&self, count: u32, haul: &mut Haul) -> Verdict {
        let mut counter = self.lock();
        if let Some(error) = &counter.closed {
            return Verdict::Closed(error.clone());
        }
        counter.tray.grab_more(count, haul);
        match &counter.verdict {
            Some((at, _)) if at.elapsed() >= DRY_FOR => Verdict::Unknown,
            Some((_, IssueError::Exhausted)) => Verdict::UsedUp,
            Some((_, error)) => Verdict::Dry(error.clone()),
            None => Verdict::Unknown,
        }
    }

    /// Keys for whoever comes first.
    fn lay(&self, keys: &[Vec<u8>]) {
        let mut counter = self.lock();
        if counter.closed.is_some() {
            // They came too late to be handed to anyone.
            self.burned.fetch_add(keys.len() as u64, Ordering::Relaxed);
        } else {
            counter.tray.deposit(keys);
        }
    }

    /// Keys of a haul that was not completed never left.
    fn give_up(&self, haul: Haul, error: IssueError) -> Result<Haul, IssueError> {
        let mut counter = self.lock();
        if counter.closed.is_some() {
            self.burned.fetch_add(haul.count().into(), Ordering::Relaxed);
        } else {
            counter.tray.put_back(&haul);
        }
        drop(counter);
        self.arrived.notify_waiters();
        Err(error)
    }

    fn wish(&self, counter: &Counter) -> Option<u32> {
        if counter.closed.is_some() {
            return None;
        }
        counter.tray.wish(&self.settings.load().tuned, counter.rows)
    }

    /// So many seconds went by.
    pub(crate) fn observe(&self, seconds: f64) {
        let mut counter = self.lock();
        counter.tray.observe(seconds);
        let wishes = self.wish(&counter).is_some();
        drop(counter);
        if wishes {
            self.wanted.notify_one();
        }
    }

    pub(crate) fn tune(&self, settings: Settings) {
        let before = self.settings.swap(Arc::new(settings.clone()));
        if before.places.redis_url != settings.places.redis_url {
            self.pool.store(Arc::new(self.pools.open(&self.home, &settings)));
        }
        self.filling.look_again();
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.taken()
    }

    pub(crate) fn glance(&self) -> Glance {
        let counter = self.lock();
        Glance {
            stock: counter.tray.held(),
            issued: counter.tray.issued,
            burned: self.burned.load(Ordering::Relaxed),
            reserves: 0,
            rate: counter.tray.rate(),
        }
    }

    /// Rows left, as far as is known.
    pub(crate) fn rows(&self) -> Option<u64> {
        self.lock().rows
    }

    /// Asks the store how many rows are left, for a moment at most.
    pub(crate) async fn count_rows(&self) -> Result<u64, PoolError> {
        let pool = self.pool()?;
        let counted = tokio::time::timeout(COUNT_WITHIN, pool.standing()).await;
        let late = |_| PoolError::Unavailable(format!("no answer within {COUNT_WITHIN:?}"));
        let level = counted.map_err(late)??.level;
        self.learn_rows(level);
        Ok(level)
    }

    fn learn_rows(&self, rows: u64) {
        self.lock().rows = Some(rows);
    }

    /// Whether `number` was reserved but not pushed, or popped and has not left.
    pub(crate) fn holds(&self, number: Number) -> bool {
        let popped = self.mint.spell_one(number).is_some_and(|key| self.lock().tray.contains(key.as_bytes()));
        popped || self.filling.next().is_some_and(|next| number >= next)
    }

    /// How far this node filled since the last time, if it did.
    pub(crate) fn progress(&self, now: Timestamp) -> Option<Progress> {
        let issued_up_to = self.filling.next()?;
        let mut counter = self.lock();
        let at = Reported { pushed: self.filling.pushed(), skipped: self.filling.skipped() };
        let before = std::mem::replace(&mut counter.reported, at);
        let (issued, burned) = (at.pushed - before.pushed, at.skipped - before.skipped);
        (issued > 0 || burned > 0).then(|| Progress {
            track: self.track.clone(),
            issued_up_to,
            issued,
            burned,
            last_issued_at: now,
        })
    }

    /// The ledger did not hear of it: it belongs to what is told next.
    pub(crate) fn unreported(&self, progress: &Progress) {
        let mut counter = self.lock();
        counter.reported.pushed = counter.reported.pushed.saturating_sub(progress.issued);
        counter.reported.skipped = counter.reported.skipped.saturating_sub(progress.burned);
    }

    /// Whether keys are on their way.
    pub(crate) fn is_popping(&self) -> bool {
        self.popping.load(Ordering::Relaxed)
    }

    /// Closes the keyspace for good. What was popped is burned, unless it is [given back](Self::give_back). Nothing
    /// goes back to the ledger: what was reserved is pushed by whoever fills next.
    pub(crate) fn close(&self, why: IssueError, now: Timestamp) -> Leftovers {
        let mut counter = self.lock();
        counter.closed.get_or_insert(why);
        let popped = counter.tray.empty();
        drop(counter);
        self.burned.fetch_add(popped.len() as u64, Ordering::Relaxed);
        self.arrived.notify_waiters();
        self.wanted.notify_one();
        self.filling.look_again();
        let progress = self.progress(now);
        Leftovers { track: self.track.clone(), unissued: Vec::new(), popped, offer: None, progress }
    }

    /// Makes rows of what was popped and never left, and says of how many. Tried once: where nobody knows what became
    /// of it, they are burned.
    pub(crate) async fn give_back(&self, popped: Vec<Vec<u8>>) -> u64 {
        let given = match self.pool() {
            Ok(pool) => pool.give_back(popped).await,
            Err(error) => Err(error),
        };
        let given = given.unwrap_or_else(|error| {
            tracing::warn!(
                keyspace = %self.track, %error,
                "what was popped of keyspace `{}` and not handed out is burned: {error}", self.track
            );
            0
        });
        self.burned.fetch_sub(given, Ordering::Relaxed);
        given
    }

    /// Why no more keys come out, if none do.
    pub(crate) fn closed(&self) -> Option<IssueError> {
        self.lock().closed.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counter> {
        self.counter.lock().expect("nothing panics while it holds the counter")
    }
}

/// What a caller who has too few keys may expect.
enum Verdict {
    Unknown,
    /// The last pop, a moment ago, did not bring enough.
    Dry(IssueError),
    /// Every number was pushed, and every row popped.
    UsedUp,
    Closed(IssueError),
}

/// Someone waits for keys, until this is dropped.
struct Lack<'r> {
    rowed: &'r Rowed,
    count: u32,
}

impl<'r> Lack<'r> {
    fn of(rowed: &'r Rowed, count: u32) -> Self {
        rowed.lock().tray.lack(count);
        Self { rowed, count }
    }
}

impl Drop for Lack<'_> {
    fn drop(&mut self) {
        self.rowed.lock().tray.lack_no_more(self.count);
    }
}

impl From<&PoolError> for IssueError {
    fn from(error: &PoolError) -> Self {
        Self::NoRows(error.to_string())
    }
}
