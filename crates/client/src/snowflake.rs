//! IDs of a snowflake keyspace, made in this process.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use keymill_id::{KeyspaceName, Next, Pause};
use tokio::{
    sync::Notify,
    task::{JoinHandle, yield_now},
    time::{Instant, sleep},
};

use crate::{
    board::Board,
    client::Shared,
    core::Core,
    error::{Error, GaveUp},
    keeper,
    keyspace::checked,
    lane::Lane,
};

/// The timer's resolution: shorter ticks are waited for by yielding.
const TIMER: Duration = Duration::from_millis(2);
/// How often a clock that is behind is looked at.
const BEHIND_SLEEP: Duration = Duration::from_millis(5);
/// How long to wait for a clock that is behind, before callers are told.
const ROLLBACK_WAIT: Duration = Duration::from_secs(2);

/// Makes the IDs of one worker. Cheap to clone; all clones, and all that a client gives out for one name, share
/// the worker.
///
/// The worker is leased from a server, and with it a window of its time, which is no one else's and is extended
/// in the background: an ID costs no call. If no server answers, IDs are made until the window ends
/// (see [`window`](crate::ClientBuilder::window)). If the lease is lost, another worker is leased, and what is
/// left of the old window is used meanwhile. No ID ever embeds a tick outside a window that was lent to us.
#[derive(Debug, Clone)]
pub struct Snowflake {
    mint: Arc<Mint>,
    /// The client lives as long as its handles do.
    _client: Arc<Shared>,
}

/// A worker, and what keeps it.
#[derive(Debug)]
pub(crate) struct Mint {
    pub core: Arc<Core>,
    pub name: KeyspaceName,
    pub holder: String,
    pub window: Duration,
    pub board: Board,
    lane: ArcSwapOption<Lane>,
    /// The clock was beyond the last window that was lent.
    astray: AtomicBool,
    nudge: Notify,
    closed: AtomicBool,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Mint {
    /// Begins to lease a worker at once.
    pub(crate) fn start(core: Arc<Core>, name: KeyspaceName, holder: String, window: Duration) -> Arc<Self> {
        let mint = Arc::new(Self {
            core,
            name,
            holder,
            window,
            board: Board::default(),
            lane: ArcSwapOption::empty(),
            astray: AtomicBool::new(false),
            nudge: Notify::new(),
            closed: AtomicBool::new(false),
            keeper: Mutex::default(),
        });
        let task = mint.core.runtime.spawn(keeper::run(mint.clone()));
        *mint.lock_keeper() = Some(task);
        mint
    }

    pub(crate) fn lane(&self) -> Option<Arc<Lane>> {
        self.lane.load_full()
    }

    /// Shows a new lane. The one before makes no more IDs.
    pub(crate) fn admit(&self, lane: Lane) {
        if let Some(before) = self.lane.swap(Some(Arc::new(lane))) {
            before.generator.stop();
        }
        self.board.good_news();
    }

    pub(crate) fn is_astray(&self) -> bool {
        self.astray.load(Ordering::Relaxed)
    }

    pub(crate) fn set_astray(&self, astray: bool) {
        self.astray.store(astray, Ordering::Relaxed);
    }

    /// Waits until somebody needs a worker, or more of its time.
    pub(crate) async fn nudged(&self) {
        self.nudge.notified().await;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Ends it without a word to the server: the lease runs out by itself.
    pub(crate) fn abandon(&self) {
        self.closed.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.lock_keeper().take() {
            keeper.abort();
        }
        if let Some(lane) = self.lane.load().as_ref() {
            lane.generator.stop();
        }
        self.board.bad_news(Error::Closed);
    }

    /// Makes no more IDs, and gives the worker back.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        let keeper = self.lock_keeper().take();
        self.closed.store(true, Ordering::Relaxed);
        if let Some(keeper) = keeper {
            keeper.abort();
            // It may just be showing a lane: afterwards it does not.
            let _ = keeper.await;
        }
        self.board.bad_news(Error::Closed);
        match self.lane.swap(None) {
            Some(lane) => self.release(&lane).await,
            None => Ok(()),
        }
    }

    /// Waits for a worker.
    pub(crate) async fn until_leased(&self) -> Result<(), Error> {
        let look = || {
            if self.is_closed() { Err(Error::Closed) } else { Ok(self.lane.load().is_some().then_some(())) }
        };
        self.board.wait(&self.core, self.core.deadline(), look, || self.nudge.notify_one()).await
    }

    fn lock_keeper(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.keeper.lock().expect("nothing panics while it holds the task")
    }
}

impl Snowflake {
    pub(crate) fn new(mint: Arc<Mint>, client: Arc<Shared>) -> Self {
        Self { mint, _client: client }
    }

    pub fn name(&self) -> &str {
        self.mint.name.as_ref()
    }

    /// The next ID, above all that this worker made before.
    #[inline]
    pub async fn next_id(&self) -> Result<u64, Error> {
        match self.try_next_id() {
            Ok(id) => Ok(id),
            Err(pause) => Box::pin(self.wait_for_id(pause)).await,
        }
    }

    /// The same without waiting. `None`: there is no worker.
    #[inline]
    pub(crate) fn try_next_id(&self) -> Result<u64, Option<Pause>> {
        let shown = self.mint.lane.load();
        let lane = shown.as_ref().ok_or(None)?;
        match lane.generator.next(lane.tick()) {
            Next::Id(id) => Ok(id),
            Next::ClockBehind { by } => Err(Some(Pause::ClockBehind { by })),
            Next::WindowUsedUp => Err(Some(Pause::WindowUsedUp)),
            Next::TickUsedUp => Err(Some(Pause::TickUsedUp)),
        }
    }

    /// `count` IDs, each above the last unless the worker had to be replaced between them.
    pub async fn next_ids(&self, count: u32) -> Result<Vec<u64>, Error> {
        let count = checked(count)?;
        let mut ids = Vec::with_capacity(count);
        let (deadline, mut behind_since) = (self.mint.core.deadline(), None);
        while ids.len() < count {
            let made = match self.mint.lane.load().as_ref() {
                Some(lane) => {
                    lane.generator.next_many(lane.tick(), count - ids.len(), &mut ids).map_err(Some)
                }
                None => Err(None),
            };
            if let Err(pause) = made {
                self.wait(pause, deadline, &mut behind_since).await?;
            }
        }
        Ok(ids)
    }

    /// Which worker makes the IDs at the moment.
    pub fn worker(&self) -> Option<u32> {
        self.mint.lane.load().as_ref().map(|lane| lane.generator.worker())
    }

    /// How long IDs can be made without a word from a server.
    pub fn window_left(&self) -> Duration {
        let left = |lane: &Arc<Lane>| lane.span(lane.generator.ticks_left(lane.tick()));
        self.mint.lane.load().as_ref().map_or(Duration::ZERO, left)
    }

    /// Makes no more IDs, and gives the worker back to the server.
    pub async fn close(&self) -> Result<(), Error> {
        self.mint.close().await
    }

    async fn wait_for_id(&self, mut pause: Option<Pause>) -> Result<u64, Error> {
        let (deadline, mut behind_since) = (self.mint.core.deadline(), None);
        loop {
            self.wait(pause, deadline, &mut behind_since).await?;
            match self.try_next_id() {
                Ok(id) => return Ok(id),
                Err(again) => pause = again,
            }
        }
    }

    async fn wait(
        &self,
        pause: Option<Pause>,
        deadline: Instant,
        behind_since: &mut Option<Instant>,
    ) -> Result<(), Error> {
        if self.mint.is_closed() {
            return Err(Error::Closed);
        }
        match pause {
            Some(Pause::TickUsedUp) => self.wait_for_tick(deadline).await,
            Some(Pause::ClockBehind { by }) => self.wait_for_clock(by, behind_since).await,
            Some(Pause::WindowUsedUp) | None => self.wait_for_window(deadline).await,
        }
    }

    async fn wait_for_tick(&self, deadline: Instant) -> Result<(), Error> {
        let core = &self.mint.core;
        if Instant::now() >= deadline {
            return Err(Error::Unanswered { why: GaveUp::Deadline(core.deadline), last: None });
        }
        let tick = self.mint.lane.load().as_ref().map_or(TIMER, |lane| lane.span(1));
        if tick < TIMER {
            yield_now().await;
        } else {
            sleep(TIMER / 2).await;
        }
        Ok(())
    }

    async fn wait_for_clock(&self, by: u64, behind_since: &mut Option<Instant>) -> Result<(), Error> {
        let Some(since) = *behind_since else {
            // Another thread may just have read a newer time: look again before believing it.
            *behind_since = Some(Instant::now());
            return Ok(());
        };
        let by = self.mint.lane.load().as_ref().map_or(Duration::ZERO, |lane| lane.span(by));
        if by > ROLLBACK_WAIT || since.elapsed() > ROLLBACK_WAIT {
            return Err(Error::ClockBehind { by });
        }
        sleep(BEHIND_SLEEP).await;
        Ok(())
    }

    /// Waits until the window reaches beyond the clock.
    async fn wait_for_window(&self, deadline: Instant) -> Result<(), Error> {
        let mint = &self.mint;
        let look = || {
            if mint.is_closed() {
                return Err(Error::Closed);
            }
            let usable = mint.lane.load().as_ref().is_some_and(|lane| lane.tick() < lane.generator.end());
            Ok(usable.then_some(()))
        };
        mint.board.wait(&mint.core, deadline, look, || mint.nudge.notify_one()).await
    }
}
