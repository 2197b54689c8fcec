//! A keyspace that this node serves, whatever its scheme.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use keymill_id::{Block, Definition, Digest, KeyspaceName, Mint, Number};
use keymill_ledger::{
    KeyspaceRow, Timestamp, Track, TrackRow,
    ops::{Progress, Settlement},
};
use tokio::time::{Instant, timeout_at};

use crate::{
    derived::Derived,
    error::IssueError,
    free::Free,
    haul::Haul,
    key_log::Book,
    meter::Meter,
    milled::Milled,
    node::Node,
    rowed::{DrawGlance, FillGlance, PoolError, RowHome, Rowed},
    stock::Offer,
    timed::{TimeGlance, Timed},
    tuning::{OnEmpty, Places, Tuned},
};

#[derive(Debug)]
pub struct Served {
    pub name: KeyspaceName,
    pub definition: Definition,
    pub fingerprint: String,
    pub created_at: Timestamp,
    /// `rate_limit`, for the front ends to charge.
    pub meter: Meter,
    settings: ArcSwap<Settings>,
    pub(crate) given_back: AtomicU64,
    book: Book,
    supply: Supply,
}

/// Its tuning, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Settings {
    #[serde(flatten)]
    pub tuned: Tuned,
    #[serde(flatten)]
    pub places: Places,
}

/// Where its keys come from.
#[derive(Debug)]
enum Supply {
    /// Made ahead from reserved numbers.
    Milled(Arc<Milled>),
    /// Made ahead too, and popped from where they lie as rows.
    Rowed(Arc<Rowed>),
    /// Made when asked for, from reserved time.
    Timed(Arc<Timed>),
    /// Made when asked for, from nothing.
    Free(Free),
    /// Made from content; there is nothing to take.
    Derived(Derived),
}

/// A glance from outside.
#[derive(Debug, Clone, Copy)]
pub struct Glance {
    /// Numbers in memory, spelled or not.
    pub stock: u64,
    pub issued: u64,
    pub burned: u64,
    pub reserves: u64,
    /// Keys a second, of this node.
    pub rate: f64,
}

/// What is left of a track when its keyspace is closed.
#[derive(Debug)]
pub struct Leftovers {
    pub track: Track,
    pub unissued: Vec<Block>,
    /// Keys that were popped and not handed out: nobody's, if they are not given back.
    pub popped: Vec<Vec<u8>>,
    pub offer: Option<Offer>,
    pub progress: Option<Progress>,
}

impl Served {
    pub(crate) fn new(
        row: &KeyspaceRow,
        definition: Definition,
        settings: Settings,
        node: &Arc<Node>,
    ) -> Result<Self, IssueError> {
        let (tuned, clock, waiting) = (settings.tuned, &node.clock, node.settings.waiting_takes);
        let rows = match &definition {
            Definition::Pool(pool) => pool.rows().cloned(),
            _ => None,
        };
        let supply = match (&definition, rows) {
            (_, Some(rows)) => {
                let ledger = node.ledger_identity().ok_or(IssueError::Starting)?.id;
                let home = RowHome { ledger, keyspace: row.name.clone(), rows };
                let (mint, pools) = (Mint::compile(&definition), node.settings.row_pools.clone());
                let (settings, node) = (settings.clone(), Arc::downgrade(node));
                Supply::Rowed(Arc::new(Rowed::new(home, mint, settings, waiting, pools, node)))
            }
            (Definition::Pool(_) | Definition::Sequence(_), None) => {
                let (track, mint) = (Track::of(row.name.clone()), Mint::compile(&definition));
                let (lanes, hopper) = (node.settings.lanes, node.hopper.clone());
                Supply::Milled(Arc::new(Milled::new(track, mint, tuned, lanes, waiting, hopper)))
            }
            (Definition::Snowflake(snowflake), None) => {
                let (layout, region) = (snowflake.layout().clone(), snowflake.region());
                let (name, clock) = (row.name.clone(), clock.clone());
                Supply::Timed(Arc::new(Timed::new(name, layout, region, tuned, waiting, clock)))
            }
            (Definition::Free(scheme), None) => Supply::Free(Free::new(*scheme, clock.clone())),
            (Definition::Digest(digest), None) => Supply::Derived(Derived::new(Digest::compile(digest))),
        };
        Ok(Self {
            name: row.name.clone(),
            definition,
            fingerprint: row.fingerprint.clone(),
            created_at: row.created_at,
            meter: Meter::new(tuned.rate_limit.map(|rate| rate.0)),
            settings: ArcSwap::from_pointee(settings),
            given_back: AtomicU64::new(0),
            book: Book::new(node.settings.key_log.clone(), &tuned, clock.clone()),
            supply,
        })
    }

    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Takes exactly `count` keys, or none: now if they are ready, else once they are.
    #[inline]
    pub async fn take(&self, count: u32, patience: Duration) -> Result<Haul, IssueError> {
        let haul = match &self.supply {
            Supply::Milled(milled) => milled.take(count, patience).await,
            Supply::Rowed(rowed) => rowed.take(count, patience).await,
            Supply::Timed(timed) => timed.take(count, patience).await,
            Supply::Free(free) => free.take(count),
            Supply::Derived(derived) => Err(derived.refusal()),
        }?;
        if self.book.is_kept() {
            self.write_down(&haul).await?;
        }
        Ok(haul)
    }

    /// Whether keys leave only once they are written down. They are then never ready.
    pub fn is_recorded(&self) -> bool {
        self.book.is_kept()
    }

    async fn write_down(&self, haul: &Haul) -> Result<(), IssueError> {
        let keys = haul.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        self.book.write(&self.name, &self.definition, keys).await
    }

    /// Takes exactly `count` IDs as the numbers they are, or none. `None`: its keys are no such numbers.
    pub async fn take_ids(&self, count: u32, patience: Duration) -> Option<Result<Vec<u64>, IssueError>> {
        let timed = self.timed()?;
        let ids = match timed.take_ids(count, patience).await {
            Ok(ids) => ids,
            Err(error) => return Some(Err(error)),
        };
        if self.book.is_kept() {
            let keys = ids.iter().map(u64::to_string).collect();
            let written = self.book.write(&self.name, &self.definition, keys).await;
            return Some(written.map(|()| ids));
        }
        Some(Ok(ids))
    }

    /// Takes `count` keys if they are ready. `Err` holds what there was of them, which is for
    /// [`complete`](Self::complete) or is burned.
    #[inline]
    pub fn take_ready(&self, count: u32) -> Result<Haul, Haul> {
        match &self.supply {
            _ if self.book.is_kept() => Err(Haul::default()),
            Supply::Milled(milled) => milled.take_now(count),
            Supply::Rowed(rowed) => rowed.take_now(count),
            Supply::Timed(_) => Err(Haul::default()),
            Supply::Free(free) => free.take(count).map_err(|_| Haul::default()),
            Supply::Derived(_) => Err(Haul::default()),
        }
    }

    /// Waits until `haul` holds `count` keys; fewer, but at least one, only where no more will ever come.
    pub async fn complete(&self, haul: Haul, count: u32, patience: Duration) -> Result<Haul, IssueError> {
        let haul = match &self.supply {
            Supply::Milled(milled) => milled.complete(haul, count, patience).await,
            Supply::Rowed(rowed) => rowed.complete(haul, count, patience).await,
            Supply::Timed(timed) => timed.take(count, patience).await,
            Supply::Free(free) => free.take(count),
            Supply::Derived(derived) => Err(derived.refusal()),
        }?;
        if self.book.is_kept() {
            self.write_down(&haul).await?;
        }
        Ok(haul)
    }

    /// Takes `count` numbers of a sequence that follow one another without a gap, and says which is first.
    pub async fn take_run(&self, count: u32, patience: Duration) -> Result<Number, IssueError> {
        let Supply::Milled(milled) = &self.supply else { return Err(IssueError::Internal) };
        let first = milled.take_run(count, patience).await?;
        if self.book.is_kept() {
            let numbers = (0..u64::from(count)).filter_map(|n| first.checked_add(n));
            let keys = numbers.filter_map(|number| milled.mint.spell_one(number)).collect();
            self.book.write(&self.name, &self.definition, keys).await?;
        }
        Ok(first)
    }

    /// Takes one key if it can be had at once, and hands it to `use_it`.
    #[inline]
    pub fn with_one<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match &self.supply {
            _ if self.book.is_kept() => None,
            Supply::Milled(milled) => milled.with_one(use_it),
            Supply::Rowed(rowed) => rowed.with_one(use_it),
            Supply::Timed(timed) => timed.with_one(use_it),
            Supply::Free(free) => {
                let haul = free.take(1).ok()?;
                haul.keys().next().map(use_it)
            }
            Supply::Derived(_) => None,
        }
    }

    /// Keys the space can spell, where that is a number one would count.
    pub fn size(&self) -> Option<u64> {
        match &self.supply {
            Supply::Milled(milled) => Some(milled.mint.size()),
            Supply::Rowed(rowed) => Some(rowed.mint.size()),
            Supply::Timed(timed) => {
                let per_tick = timed.layout.per_tick() * u64::from(timed.layout.workers());
                timed.layout.ticks().checked_mul(per_tick)
            }
            Supply::Free(_) => None,
            Supply::Derived(derived) => derived.digest.size(),
        }
    }

    /// What makes its keys out of content, where that is how they are made.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.supply {
            Supply::Derived(derived) => Some(&derived.digest),
            _ => None,
        }
    }

    /// What makes its keys out of numbers, where that is how they are made.
    pub fn mint(&self) -> Option<&Mint> {
        match &self.supply {
            Supply::Milled(milled) => Some(&milled.mint),
            Supply::Rowed(rowed) => Some(&rowed.mint),
            _ => None,
        }
    }

    pub fn glance(&self) -> Glance {
        match &self.supply {
            Supply::Milled(milled) => milled.glance(),
            Supply::Rowed(rowed) => rowed.glance(),
            Supply::Timed(timed) => timed.glance(),
            Supply::Free(free) => {
                Glance { stock: 0, issued: free.issued(), burned: 0, reserves: 0, rate: 0.0 }
            }
            Supply::Derived(_) => Glance { stock: 0, issued: 0, burned: 0, reserves: 0, rate: 0.0 },
        }
    }

    /// Callers who wait for keys that are not ready.
    pub fn waiting(&self) -> usize {
        match &self.supply {
            Supply::Milled(milled) => milled.waiting(),
            Supply::Rowed(rowed) => rowed.waiting(),
            Supply::Timed(timed) => timed.waiting(),
            Supply::Free(_) | Supply::Derived(_) => 0,
        }
    }

    /// Numbers that this process gave back to the ledger.
    pub fn given_back(&self) -> u64 {
        self.given_back.load(Ordering::Relaxed)
    }

    /// Where its IDs come from time.
    pub(crate) fn timed(&self) -> Option<&Arc<Timed>> {
        match &self.supply {
            Supply::Timed(timed) => Some(timed),
            _ => None,
        }
    }

    /// Where its keys lie as rows.
    pub(crate) fn rowed(&self) -> Option<&Arc<Rowed>> {
        match &self.supply {
            Supply::Rowed(rowed) => Some(rowed),
            _ => None,
        }
    }

    /// How the rows of a row pool fare.
    pub fn fill_glance(&self) -> Option<FillGlance> {
        Some(self.rowed()?.fill_glance())
    }

    /// Learns how many rows are left, where there are any; what was known before stands if they cannot be had.
    pub async fn look_at_rows(&self) {
        let _ = self.count_rows().await;
    }

    /// Makes rows of what was popped and never left, where they may go back, and says of how many. What the deadline
    /// leaves undone is burned.
    pub(crate) async fn give_back_rows(&self, popped: Vec<Vec<u8>>, until: Instant) -> u64 {
        let Some(rowed) = self.rowed().filter(|_| !popped.is_empty()) else { return 0 };
        let given = timeout_at(until, rowed.give_back(popped)).await.unwrap_or_default();
        self.given_back.fetch_add(given, Ordering::Relaxed);
        given
    }

    /// How many rows are left, asked now; `None` where there are none.
    pub async fn count_rows(&self) -> Option<Result<u64, PoolError>> {
        Some(self.rowed()?.count_rows().await)
    }

    /// Starts anew whoever fills it: the filler of rows, or the refill of a stock.
    pub fn restart_filler(&self) {
        match &self.supply {
            Supply::Rowed(rowed) => rowed.restart_filler(),
            _ => self.warm(),
        }
    }

    /// What random draws cost, with the track as it is, where the keyspace is tuned to draw.
    pub fn draw_glance(&self, track: &TrackRow) -> Option<DrawGlance> {
        let rowed = self.rowed()?;
        let draws = self.settings.load().tuned.on_empty == OnEmpty::Random;
        draws.then(|| rowed.draw_glance(track))
    }

    /// Adds rows now, until there are `goal` of them or as many as the capacity. False: there are no rows.
    pub fn fill(&self, goal: Option<u64>) -> bool {
        self.rowed().map(|rowed| rowed.fill(goal)).is_some()
    }

    /// What a time-ordered keyspace measures of itself.
    pub fn time_glance(&self) -> Option<TimeGlance> {
        Some(self.timed()?.time_glance())
    }

    /// How far the clock is behind, where that makes the node unfit to serve.
    pub fn unfit(&self) -> Option<u64> {
        self.timed()?.unfit()
    }

    /// Nothing is left here, and the ledger has to be asked before there is.
    pub fn has_run_dry(&self) -> bool {
        let needs_ledger = matches!(self.supply, Supply::Milled(_) | Supply::Timed(_)) && !self.is_retired();
        needs_ledger && self.glance().stock == 0
    }

    /// Whether `number` is held here and has not left.
    pub fn holds(&self, number: Number) -> bool {
        match &self.supply {
            Supply::Milled(milled) => milled.holds(number),
            Supply::Rowed(rowed) => rowed.holds(number),
            _ => false,
        }
    }

    /// Gets ready before the first caller comes.
    pub(crate) fn warm(&self) {
        match &self.supply {
            Supply::Milled(milled) => milled.ask_for_milling(),
            Supply::Rowed(rowed) => rowed.start(),
            Supply::Timed(timed) => timed.nudge.notify_one(),
            Supply::Free(_) | Supply::Derived(_) => {}
        }
    }

    /// So many seconds went by.
    pub(crate) fn observe(&self, seconds: f64) {
        match &self.supply {
            Supply::Milled(milled) => milled.observe(seconds),
            Supply::Rowed(rowed) => rowed.observe(seconds),
            Supply::Timed(timed) => timed.observe(seconds),
            Supply::Free(_) | Supply::Derived(_) => {}
        }
    }

    pub(crate) fn tune(&self, settings: Settings) {
        let tuned = settings.tuned;
        self.settings.store(Arc::new(settings));
        self.meter.set_rate(tuned.rate_limit.map(|rate| rate.0));
        self.book.tune(&tuned);
        match &self.supply {
            Supply::Milled(milled) => milled.tune(tuned),
            Supply::Rowed(rowed) => rowed.tune(Settings::clone(&self.settings.load())),
            Supply::Timed(timed) => timed.tune(tuned),
            Supply::Free(_) | Supply::Derived(_) => {}
        }
    }

    /// A hole was made above the cursor by ourselves.
    pub(crate) fn revised(&self, before: u64, after: u64) {
        if let Supply::Milled(milled) = &self.supply {
            milled.revised(before, after);
        }
    }

    /// How far it got since the last time.
    pub(crate) fn progress(&self, now: Timestamp) -> Vec<Progress> {
        match &self.supply {
            Supply::Milled(milled) => milled.progress(now).into_iter().collect(),
            Supply::Rowed(rowed) => rowed.progress(now).into_iter().collect(),
            Supply::Timed(timed) => timed.progress(now),
            Supply::Free(_) | Supply::Derived(_) => Vec::new(),
        }
    }

    /// What the ledger did not hear of is told again.
    pub(crate) fn unreported(&self, progress: &[Progress]) {
        for progress in progress.iter().filter(|progress| progress.track.keyspace == self.name) {
            match &self.supply {
                Supply::Milled(milled) => milled.unreported(progress),
                Supply::Rowed(rowed) => rowed.unreported(progress),
                Supply::Timed(timed) => timed.unreported(progress),
                Supply::Free(_) | Supply::Derived(_) => {}
            }
        }
    }

    /// Whether a reserve or a pop is on its way.
    pub(crate) fn is_refilling(&self) -> bool {
        match &self.supply {
            Supply::Milled(milled) => milled.is_refilling(),
            Supply::Rowed(rowed) => rowed.is_popping(),
            _ => false,
        }
    }

    /// Closes the keyspace for good. Every number it held either left before, or is in what this
    /// returns and will never leave.
    pub(crate) fn close(&self, why: IssueError, now: Timestamp) -> Vec<Leftovers> {
        match &self.supply {
            Supply::Milled(milled) => vec![milled.close(why, now)],
            Supply::Rowed(rowed) => vec![rowed.close(why, now)],
            Supply::Timed(timed) => timed.close(why, now),
            Supply::Free(free) => {
                free.close(why);
                Vec::new()
            }
            Supply::Derived(derived) => {
                derived.close(why);
                Vec::new()
            }
        }
    }

    /// Takes the keyspace out of service, for ever: there is nobody to give its stock back to.
    pub(crate) fn retire(&self, now: Timestamp) {
        if !self.is_retired() {
            self.close(IssueError::Retired, now);
        }
    }

    pub fn is_retired(&self) -> bool {
        let closed = match &self.supply {
            Supply::Milled(milled) => milled.closed(),
            Supply::Rowed(rowed) => rowed.closed(),
            Supply::Timed(timed) => timed.closed(),
            Supply::Free(free) => free.closed(),
            Supply::Derived(derived) => derived.closed(),
        };
        closed == Some(IssueError::Retired)
    }
}

impl Leftovers {
    /// What stays with us and is burned, if the numbers from `given_back` on went back.
    pub(crate) fn settle(self, given_back: Option<Number>) -> Settlement {
        let below = |block: Block| match given_back {
            Some(from) => Block::new(block.start(), block.end().min(from)),
            None => Some(block),
        };
        Settlement { track: self.track, unissued: self.unissued.into_iter().filter_map(below).collect() }
    }
}
