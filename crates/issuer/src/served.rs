//! A keyspace that this node serves, whatever its scheme.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use keymill_id::{Block, Definition, KeyspaceName, Mint, Number};
use keymill_ledger::{
    KeyspaceRow, Timestamp, Track,
    ops::{Progress, Settlement},
};

use crate::{
    clock::Clock,
    error::IssueError,
    free::Free,
    haul::Haul,
    meter::Meter,
    milled::{Hopper, Milled},
    stock::Offer,
    timed::{TimeGlance, Timed},
    tuning::{Places, Tuned},
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
    /// Made when asked for, from reserved time.
    Timed(Arc<Timed>),
    /// Made when asked for, from nothing.
    Free(Free),
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
    pub offer: Option<Offer>,
    pub progress: Option<Progress>,
}

impl Served {
    pub(crate) fn new(
        row: &KeyspaceRow,
        definition: Definition,
        settings: Settings,
        lanes: usize,
        waiting: usize,
        hopper: Hopper,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let tuned = settings.tuned;
        let supply = match &definition {
            Definition::Pool(_) | Definition::Sequence(_) => {
                let (track, mint) = (Track::of(row.name.clone()), Mint::compile(&definition));
                Supply::Milled(Arc::new(Milled::new(track, mint, tuned, lanes, waiting, hopper)))
            }
            Definition::Snowflake(snowflake) => {
                let (layout, region) = (snowflake.layout().clone(), snowflake.region());
                let (name, clock) = (row.name.clone(), clock.clone());
                Supply::Timed(Arc::new(Timed::new(name, layout, region, tuned, waiting, clock)))
            }
            Definition::Free(scheme) => Supply::Free(Free::new(*scheme, clock.clone())),
        };
        Self {
            name: row.name.clone(),
            definition,
            fingerprint: row.fingerprint.clone(),
            created_at: row.created_at,
            meter: Meter::new(tuned.rate_limit.map(|rate| rate.0)),
            settings: ArcSwap::from_pointee(settings),
            supply,
        }
    }

    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Takes exactly `count` keys, or none: now if they are ready, else once they are.
    #[inline]
    pub async fn take(&self, count: u32, patience: Duration) -> Result<Haul, IssueError> {
        match &self.supply {
            Supply::Milled(milled) => milled.take(count, patience).await,
            Supply::Timed(timed) => timed.take(count, patience).await,
            Supply::Free(free) => free.take(count),
        }
    }

    /// Takes exactly `count` IDs as the numbers they are, or none. `None`: its keys are no such numbers.
    pub async fn take_ids(&self, count: u32, patience: Duration) -> Option<Result<Vec<u64>, IssueError>> {
        Some(self.timed()?.take_ids(count, patience).await)
    }

    /// Takes `count` keys if they are ready. `Err` holds what there was of them, which is for
    /// [`complete`](Self::complete) or is burned.
    #[inline]
    pub fn take_ready(&self, count: u32) -> Result<Haul, Haul> {
        match &self.supply {
            Supply::Milled(milled) => milled.take_now(count),
            Supply::Timed(_) => Err(Haul::default()),
            Supply::Free(free) => free.take(count).map_err(|_| Haul::default()),
        }
    }

    /// Waits until `haul` holds `count` keys; fewer, but at least one, only where no more will ever come.
    pub async fn complete(&self, haul: Haul, count: u32, patience: Duration) -> Result<Haul, IssueError> {
        match &self.supply {
            Supply::Milled(milled) => milled.complete(haul, count, patience).await,
            Supply::Timed(timed) => timed.take(count, patience).await,
            Supply::Free(free) => free.take(count),
        }
    }

    /// Takes `count` numbers of a sequence that follow one another without a gap, and says which is first.
    pub async fn take_run(&self, count: u32, patience: Duration) -> Result<Number, IssueError> {
        match &self.supply {
            Supply::Milled(milled) => milled.take_run(count, patience).await,
            _ => Err(IssueError::Internal),
        }
    }

    /// Takes one key if it can be had at once, and hands it to `use_it`.
    #[inline]
    pub fn with_one<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match &self.supply {
            Supply::Milled(milled) => milled.with_one(use_it),
            Supply::Timed(timed) => timed.with_one(use_it),
            Supply::Free(free) => {
                let haul = free.take(1).ok()?;
                haul.keys().next().map(use_it)
            }
        }
    }

    /// Keys the space can spell, where that is a number one would count.
    pub fn size(&self) -> Option<u64> {
        match &self.supply {
            Supply::Milled(milled) => Some(milled.mint.size()),
            Supply::Timed(timed) => {
                let per_tick = timed.layout.per_tick() * u64::from(timed.layout.workers());
                timed.layout.ticks().checked_mul(per_tick)
            }
            Supply::Free(_) => None,
        }
    }

    /// What makes its keys out of numbers, where that is how they are made.
    pub fn mint(&self) -> Option<&Mint> {
        match &self.supply {
            Supply::Milled(milled) => Some(&milled.mint),
            _ => None,
        }
    }

    pub fn glance(&self) -> Glance {
        match &self.supply {
            Supply::Milled(milled) => milled.glance(),
            Supply::Timed(timed) => timed.glance(),
            Supply::Free(free) => {
                Glance { stock: 0, issued: free.issued(), burned: 0, reserves: 0, rate: 0.0 }
            }
        }
    }

    /// Where its IDs come from time.
    pub(crate) fn timed(&self) -> Option<&Arc<Timed>> {
        match &self.supply {
            Supply::Timed(timed) => Some(timed),
            _ => None,
        }
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
        let needs_ledger = !matches!(self.supply, Supply::Free(_)) && !self.is_retired();
        needs_ledger && self.glance().stock == 0
    }

    /// Whether `number` is held here and has not left.
    pub fn holds(&self, number: Number) -> bool {
        match &self.supply {
            Supply::Milled(milled) => milled.holds(number),
            _ => false,
        }
    }

    /// Gets ready before the first caller comes.
    pub(crate) fn warm(&self) {
        match &self.supply {
            Supply::Milled(milled) => milled.ask_for_milling(),
            Supply::Timed(timed) => timed.nudge.notify_one(),
            Supply::Free(_) => {}
        }
    }

    /// So many seconds went by.
    pub(crate) fn observe(&self, seconds: f64) {
        match &self.supply {
            Supply::Milled(milled) => milled.observe(seconds),
            Supply::Timed(timed) => timed.observe(seconds),
            Supply::Free(_) => {}
        }
    }

    pub(crate) fn tune(&self, settings: Settings) {
        let tuned = settings.tuned;
        self.settings.store(Arc::new(settings));
        self.meter.set_rate(tuned.rate_limit.map(|rate| rate.0));
        match &self.supply {
            Supply::Milled(milled) => milled.tune(tuned),
            Supply::Timed(timed) => timed.tune(tuned),
            Supply::Free(_) => {}
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
            Supply::Timed(timed) => timed.progress(now),
            Supply::Free(_) => Vec::new(),
        }
    }

    /// What the ledger did not hear of is told again.
    pub(crate) fn unreported(&self, progress: &[Progress]) {
        for progress in progress.iter().filter(|progress| progress.track.keyspace == self.name) {
            match &self.supply {
                Supply::Milled(milled) => milled.unreported(progress),
                Supply::Timed(timed) => timed.unreported(progress),
                Supply::Free(_) => {}
            }
        }
    }

    /// Whether a reserve is on its way.
    pub(crate) fn is_refilling(&self) -> bool {
        match &self.supply {
            Supply::Milled(milled) => milled.is_refilling(),
            _ => false,
        }
    }

    /// Closes the keyspace for good. Every number it held either left before, or is in what this
    /// returns and will never leave.
    pub(crate) fn close(&self, why: IssueError, now: Timestamp) -> Vec<Leftovers> {
        match &self.supply {
            Supply::Milled(milled) => vec![milled.close(why, now)],
            Supply::Timed(timed) => timed.close(why, now),
            Supply::Free(free) => {
                free.close(why);
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
            Supply::Timed(timed) => timed.closed(),
            Supply::Free(free) => free.closed(),
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
