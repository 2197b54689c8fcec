//! Time-ordered IDs, made when they are asked for: a generator per worker that this node holds.
//!
//! An ID embeds only ticks of a window that was reserved on its worker's track; `worker` keeps the
//! leases and the windows. What the clock does decides how soon an ID can be had, never whether it is
//! unique.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use keymill_id::{self as id, Block, KeyspaceName, Layout, Number, Pause, SharedGenerator, Window};
use keymill_ledger::{
    Timestamp, Track, WorkerId,
    ops::{Progress, Reserved},
};
use tokio::{sync::Notify, time::Instant};

use crate::{
    clock::Clock,
    error::IssueError,
    haul::{Haul, Piece},
    news::News,
    served::{Glance, Leftovers},
    stock::Offer,
    thread_lane,
    tuning::{OnOverflow, OnRollback, Tuned},
    waiting::WaitingRoom,
};

/// Ticks shorter than this are waited for by giving way to other tasks; a timer would miss most of them.
const TIMER_MS: u32 = 4;
/// How long to sleep at a time while the clock is behind.
const BEHIND_SLEEP: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) keyspace: KeyspaceName,
    pub(crate) layout: Layout,
    pub(crate) region: u32,
    clock: Arc<dyn Clock>,
    lanes: ArcSwap<Vec<Arc<Lane>>>,
    state: Mutex<State>,
    /// Wakes whoever keeps the workers.
    pub(crate) nudge: Notify,
    /// Wakes callers who wait for a worker or a window.
    changed: Notify,
    waiting: WaitingRoom,
    pub(crate) counters: Counters,
    /// Why it has fewer workers than it wants.
    pub(crate) unemployed: News,
    /// Live leases of all nodes, as of the last look.
    pub(crate) leased: AtomicU64,
}

/// One worker of ours: its generator, and what is needed to renew and to give back.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) worker: WorkerId,
    pub(crate) term: u64,
    pub(crate) track: Track,
    generator: SharedGenerator,
    issued: AtomicU64,
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    /// Where our last windows that lie end to end begin, and the track's revision after the last.
    start: Number,
    revision: u64,
    renewed: Instant,
    reported: u64,
}

#[derive(Debug)]
struct State {
    tuned: Tuned,
    closed: Option<IssueError>,
    trouble: Option<IssueError>,
    observed: u64,
    rate: f64,
    reserves: u64,
    burned: u64,
    /// IDs of lanes that are gone.
    retired_lanes: u64,
}

/// What went other than planned.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    overflows: AtomicU64,
    rollbacks: AtomicU64,
    rollback_ms_max: AtomicU64,
    pub(crate) renewals: AtomicU64,
    pub(crate) losses: AtomicU64,
    pub(crate) conflicts: AtomicU64,
}

/// The same from outside, for the metrics and for people.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeGlance {
    pub overflows: u64,
    pub rollbacks: u64,
    pub rollback_ms_max: u64,
    pub renewals: u64,
    pub losses: u64,
    pub conflicts: u64,
    /// Workers that any node holds, as of the last look.
    pub leased: u64,
    /// How many workers the layout has room for.
    pub capacity: u32,
    /// How long until the layout's time runs out.
    pub epoch_left_ms: u64,
    pub workers: Vec<WorkerGlance>,
}

/// One worker of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerGlance {
    pub worker: u16,
    pub issued: u64,
    /// How far its window reaches ahead.
    pub window_left_ms: u64,
    /// How far its last ID was ahead of the clock.
    pub ahead_ms: u64,
}

impl Timed {
    pub(crate) fn new(
        keyspace: KeyspaceName,
        layout: Layout,
        region: u32,
        tuned: Tuned,
        waiting: usize,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            keyspace,
            layout,
            region,
            clock,
            lanes: ArcSwap::default(),
            state: Mutex::new(State {
                tuned,
                closed: None,
                trouble: None,
                observed: 0,
                rate: 0.0,
                reserves: 0,
                burned: 0,
                retired_lanes: 0,
            }),
            nudge: Notify::new(),
            changed: Notify::new(),
            waiting: WaitingRoom::new(waiting),
            counters: Counters::default(),
            unemployed: News::default(),
            leased: AtomicU64::new(0),
        }
    }

    #[inline]
    fn tick(&self) -> u64 {
        self.layout.tick_of_clock(self.clock.wall().0)
    }

    /// One ID, if it can be had at once.
    #[inline]
    pub(crate) fn with_one<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let lanes = self.lanes.load();
        let lane = lanes.get(thread_lane::of(lanes.len().max(1)))?;
        let run = lane.generator.run(self.tick(), 1).ok()?;
        lane.issued.fetch_add(1, Ordering::Relaxed);
        Some(use_it(itoa::Buffer::new().format(run.first).as_bytes()))
    }

    /// Exactly `count` IDs as text, rising.
    pub(crate) async fn take(&self, count: u32, patience: Duration) -> Result<Haul, IssueError> {
        Ok(spell(&self.take_ids(count, patience).await?))
    }

    /// Exactly `count` IDs, rising. IDs that were made when patience ends are lost, not handed out.
    pub(crate) async fn take_ids(&self, count: u32, patience: Duration) -> Result<Vec<u64>, IssueError> {
        let mut ids = Vec::with_capacity(count as usize);
        let deadline = Instant::now() + patience;
        let (mut behind_since, mut place) = (None, None);
        loop {
            let pause = match self.fill(count as usize, &mut ids) {
                Ok(()) => {
                    // They rise within a lane, and nearly always came from one.
                    if !ids.is_sorted() {
                        ids.sort_unstable();
                    }
                    return Ok(ids);
                }
                Err(pause) => pause,
            };
            if let Some(error) = self.lock().closed.clone() {
                return Err(error);
            }
            if place.is_none() {
                place = Some(self.waiting.enter()?);
            }
            self.wait(pause, deadline, &mut behind_since).await?;
        }
    }

    /// Adds IDs until there are `count`. `None`: there is no worker.
    fn fill(&self, count: usize, ids: &mut Vec<u64>) -> Result<(), Option<Pause>> {
        let lanes = self.lanes.load();
        if lanes.is_empty() {
            return Err(None);
        }
        let mine = thread_lane::of(lanes.len());
        let mut pause = None;
        // When a lane's tick is used up, the others may have some left; but IDs of one answer rise only
        // within a lane, so they are put in order at the end.
        for lane in lanes.iter().cycle().skip(mine).take(lanes.len()) {
            let before = ids.len();
            let filled = lane.generator.next_many(self.tick(), count - before, ids);
            lane.issued.fetch_add((ids.len() - before) as u64, Ordering::Relaxed);
            match filled {
                Ok(()) => return Ok(()),
                Err(why) => pause = pause.or(Some(why)),
            }
        }
        Err(pause)
    }

    async fn wait(
        &self,
        pause: Option<Pause>,
        deadline: Instant,
        behind_since: &mut Option<Instant>,
    ) -> Result<(), IssueError> {
        let late = Instant::now() >= deadline;
        match pause {
            Some(Pause::TickUsedUp) => {
                self.counters.overflows.fetch_add(1, Ordering::Relaxed);
                if late {
                    return Err(IssueError::OutOfStock);
                }
                if self.layout.tick_ms() < TIMER_MS {
                    tokio::task::yield_now().await;
                } else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            Some(Pause::ClockBehind { by }) => {
                let Tuned { on_rollback, rollback_wait, .. } = self.lock().tuned;
                let Some(since) = *behind_since else {
                    // Another thread may just have read a newer time: look again before believing it.
                    *behind_since = Some(Instant::now());
                    return Ok(());
                };
                let by_ms = by.saturating_mul(self.layout.tick_ms().into());
                self.counters.rollbacks.fetch_add(1, Ordering::Relaxed);
                self.counters.rollback_ms_max.fetch_max(by_ms, Ordering::Relaxed);
                let hopeless = by_ms > rollback_wait.0 || since.elapsed() > rollback_wait.duration();
                if late || on_rollback == OnRollback::Fail || hopeless {
                    return Err(IssueError::ClockBehind { by_ms });
                }
                tokio::time::sleep(BEHIND_SLEEP).await;
            }
            Some(Pause::WindowUsedUp) | None => {
                let changed = self.changed.notified();
                self.nudge.notify_one();
                if late || tokio::time::timeout_at(deadline, changed).await.is_err() {
                    return Err(self.lock().trouble.clone().unwrap_or(IssueError::OutOfStock));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn lanes(&self) -> Arc<Vec<Arc<Lane>>> {
        self.lanes.load_full()
    }

    pub(crate) fn tuned(&self) -> Tuned {
        self.lock().tuned
    }

    pub(crate) fn tune(&self, tuned: Tuned) {
        self.lock().tuned = tuned;
        self.nudge.notify_one();
    }

    /// A worker was leased and its first window reserved.
    pub(crate) fn admit(&self, worker: WorkerId, term: u64, track: Track, reserved: &Reserved) {
        let mut state = self.lock();
        state.reserves += 1;
        state.trouble = None;
        if state.closed.is_some() {
            return; // burned: the window was never used
        }
        let window = window_of(reserved.block);
        let settings = settings(&state.tuned, &self.layout);
        let generator =
            SharedGenerator::new(self.layout.clone(), self.region, worker.0.into(), window, settings);
        let (start, revision) = (reserved.block.start(), reserved.revision);
        let book = Book { start, revision, renewed: Instant::now(), reported: 0 };
        let lane = Lane { worker, term, track, generator, issued: AtomicU64::new(0), book: Mutex::new(book) };
        let mut lanes = Vec::clone(&self.lanes.load());
        lanes.push(Arc::new(lane));
        self.lanes.store(Arc::new(lanes));
        drop(state);
        self.changed.notify_waiters();
    }

    /// A lane's next window was reserved.
    pub(crate) fn extend(&self, lane: &Lane, reserved: &Reserved) {
        let mut state = self.lock();
        state.reserves += 1;
        state.trouble = None;
        if state.closed.is_some() {
            return;
        }
        let window = window_of(reserved.block);
        let mut book = lane.lock();
        if window.start() != lane.generator.end() {
            book.start = reserved.block.start();
        }
        book.revision = reserved.revision;
        lane.generator.extend(window);
        drop((book, state));
        self.changed.notify_waiters();
    }

    /// A lease is lost: the lane makes no more IDs. Its window stays ours, and is burned.
    pub(crate) fn dismiss(&self, lane: &Arc<Lane>) {
        let mut state = self.lock();
        let unused = lane.generator.stop();
        state.burned += unused.map_or(0, Window::ticks);
        state.retired_lanes += lane.issued.load(Ordering::Relaxed);
        let lanes = self.lanes.load().iter().filter(|other| !Arc::ptr_eq(other, lane)).cloned().collect();
        self.lanes.store(Arc::new(lanes));
    }

    pub(crate) fn troubled(&self, trouble: IssueError) {
        self.lock().trouble = Some(trouble);
    }

    pub(crate) fn closed(&self) -> Option<IssueError> {
        self.lock().closed.clone()
    }

    /// How far the clock is behind, where that makes the node unfit to serve.
    pub(crate) fn unfit(&self) -> Option<u64> {
        if self.lock().tuned.on_rollback != OnRollback::Fail {
            return None;
        }
        let tick = self.tick();
        let behind = self.lanes.load().iter().map(|lane| lane.generator.ahead(tick)).max()?;
        (behind > 1).then(|| behind * u64::from(self.layout.tick_ms()))
    }

    fn issued(&self, state: &State) -> u64 {
        let lanes = self.lanes.load();
        state.retired_lanes + lanes.iter().map(|lane| lane.issued.load(Ordering::Relaxed)).sum::<u64>()
    }

    /// A first-order average over some seconds.
    #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    pub(crate) fn observe(&self, seconds: f64) {
        let mut state = self.lock();
        let issued = self.issued(&state);
        let now = (issued - state.observed) as f64 / seconds.max(0.001);
        state.observed = issued;
        state.rate += (now - state.rate) * (1.0 - (-seconds / 3.0).exp());
        if state.rate < 0.001 {
            state.rate = 0.0;
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.taken()
    }

    pub(crate) fn glance(&self) -> Glance {
        let state = self.lock();
        let tick = self.tick();
        let ticks: u64 = self.lanes.load().iter().map(|lane| lane.generator.ticks_left(tick)).sum();
        Glance {
            stock: ticks.saturating_mul(self.layout.per_tick()),
            issued: self.issued(&state),
            burned: state.burned,
            reserves: state.reserves,
            rate: state.rate,
        }
    }

    pub(crate) fn time_glance(&self) -> TimeGlance {
        let Counters { overflows, rollbacks, rollback_ms_max, renewals, losses, conflicts } = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (tick, tick_ms) = (self.tick(), u64::from(self.layout.tick_ms()));
        let worker = |lane: &Arc<Lane>| WorkerGlance {
            worker: lane.worker.0,
            issued: read(&lane.issued),
            window_left_ms: lane.ticks_left(tick) * tick_ms,
            ahead_ms: lane.generator.ahead(tick) * tick_ms,
        };
        TimeGlance {
            overflows: read(overflows),
            rollbacks: read(rollbacks),
            rollback_ms_max: read(rollback_ms_max),
            renewals: read(renewals),
            losses: read(losses),
            conflicts: read(conflicts),
            leased: self.leased.load(Ordering::Relaxed),
            capacity: self.layout.workers(),
            epoch_left_ms: self.layout.ends_at_ms().saturating_sub(self.clock.wall().0),
            workers: self.lanes.load().iter().map(worker).collect(),
        }
    }

    pub(crate) fn progress(&self, now: Timestamp) -> Vec<Progress> {
        self.lanes.load().iter().filter_map(|lane| lane.progress(now)).collect()
    }

    /// The ledger did not hear of it: it belongs to what is told next.
    pub(crate) fn unreported(&self, progress: &Progress) {
        if let Some(lane) = self.lanes.load().iter().find(|lane| lane.track == progress.track) {
            let mut book = lane.lock();
            book.reported = book.reported.saturating_sub(progress.issued);
        }
    }

    /// Closes every lane: no ID is made after this, and what was never embedded may go back.
    pub(crate) fn close(&self, why: IssueError, now: Timestamp) -> Vec<Leftovers> {
        let mut state = self.lock();
        state.closed.get_or_insert(why);
        let lanes = self.lanes.swap(Arc::default());
        let mut left = Vec::new();
        for lane in lanes.iter() {
            state.retired_lanes += lane.issued.load(Ordering::Relaxed);
            let progress = lane.progress(now);
            let unused = lane.generator.stop().and_then(block_of);
            let book = lane.lock();
            let offer =
                unused.map(|block| Offer { from: block.start().max(book.start), revision: book.revision });
            left.push(Leftovers {
                track: lane.track.clone(),
                unissued: unused.into_iter().collect(),
                popped: Vec::new(),
                offer,
                progress,
            });
        }
        drop(state);
        self.changed.notify_waiters();
        left
    }

    /// Whether `tick` lies ahead in a window of ours: no ID has embedded it yet.
    pub(crate) fn holds(&self, worker: WorkerId, tick: u64) -> bool {
        let ahead = |lane: &Arc<Lane>| {
            lane.worker == worker && tick >= lane.unused_from() && tick < lane.generator.end()
        };
        self.lanes.load().iter().any(ahead)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the state but an assertion that must")
    }
}

impl Lane {
    /// Ticks of the window that are left.
    pub(crate) fn ticks_left(&self, now: u64) -> u64 {
        self.generator.ticks_left(now)
    }

    pub(crate) fn renewed(&self) {
        self.lock().renewed = Instant::now();
    }

    pub(crate) fn since_renewed(&self) -> Duration {
        self.lock().renewed.elapsed()
    }

    /// Where the window ends: the first tick that must not be embedded.
    pub(crate) fn end(&self) -> u64 {
        self.generator.end()
    }

    fn unused_from(&self) -> u64 {
        self.generator.end() - self.generator.ticks_left(0)
    }

    fn progress(&self, now: Timestamp) -> Option<Progress> {
        let mut book = self.lock();
        let issued = self.issued.load(Ordering::Relaxed);
        let since = issued - std::mem::replace(&mut book.reported, issued);
        let issued_up_to = Number::new(self.unused_from())?;
        (since > 0).then(|| Progress {
            track: self.track.clone(),
            issued_up_to,
            issued: since,
            burned: 0,
            last_issued_at: now,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nothing panics while it holds the book but an assertion that must")
    }
}

fn settings(tuned: &Tuned, layout: &Layout) -> id::Settings {
    // Borrowing may use what is reserved anyway, but leaves half of it for an outage.
    let ticks_max = tuned.outage_budget.0 / 2 / u64::from(layout.tick_ms());
    id::Settings {
        sequence_start: tuned.sequence_start.into(),
        on_overflow: match tuned.on_overflow {
            OnOverflow::Wait => id::OnOverflow::Wait,
            OnOverflow::Borrow => id::OnOverflow::Borrow { ticks_max },
        },
        on_rollback: match tuned.on_rollback {
            OnRollback::Logical => id::OnRollback::Logical,
            OnRollback::Wait | OnRollback::Fail => id::OnRollback::Refuse,
        },
    }
}

fn window_of(block: Block) -> Window {
    Window::new(block.start().get(), block.end().get()).expect("a block is not empty")
}

fn block_of(window: Window) -> Option<Block> {
    Block::new(Number::new(window.start())?, Number::new(window.end())?)
}

/// Rising IDs as decimal text, a piece per width.
fn spell(ids: &[u64]) -> Haul {
    let mut haul = Haul::default();
    let mut buffer = itoa::Buffer::new();
    let mut joined: Vec<u8> = Vec::with_capacity(ids.len() * 19);
    let mut stride = 0;
    for id in ids {
        let text = buffer.format(*id).as_bytes();
        if text.len() != stride && !joined.is_empty() {
            haul.add(Piece::made(std::mem::take(&mut joined), stride));
        }
        stride = text.len();
        joined.extend_from_slice(text);
    }
    if !joined.is_empty() {
        haul.add(Piece::made(joined, stride));
    }
    haul
}
