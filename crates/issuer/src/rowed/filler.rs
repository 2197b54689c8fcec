//! Tops a row pool up to its capacity, walking the keyspace's track.
//!
//! Nobody but fillers reserves on the track of a row pool, so every number below its cursor is to be pushed once:
//! in the order of the track, by whichever filler is there, whoever reserved it. The ledger's cursor says what may be
//! pushed, the store's `next` what was, and a push moves `next` together with the rows. So a filler keeps nothing in
//! mind that a crash could lose, and a push that is repeated, late or sent by two fillers takes effect once.
//!
//! One store at a time is filled: the ledger counts *eras* on a second track of the keyspace (`ks/0`), and a store
//! knows the era it was begun in. The order of looks matters. Whoever begins an era counts it first and reads the
//! cursor afterwards; whoever pushes reads the cursor first and the era afterwards. Therefore a number is below
//! the start of the new era, or its filler finds that its own era is over; it is never pushed into two stores.

use std::{
    num::NonZeroU64,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use keymill_id::{Block, Number, Scratch, Slab};
use keymill_ledger::{LedgerError, Track, WorkerId, ops};
use tokio::{
    sync::{Notify, futures::Notified},
    time::{Instant, sleep, timeout},
};

use super::{Begun, Era, PoolError, Pushed, RowPool, Rowed, Standing};
use crate::{
    node::{Node, NodeState},
    refill::{chance, pause_after},
};

/// How often the level is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long the filler that was chosen stays chosen without a word: another takes over within seconds.
const LEAD_FOR: Duration = Duration::from_secs(3);
const LEAD_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Filling starts when a sixteenth of the capacity is gone, so that single pops cause no single pushes.
const SLACK: u64 = 16;
/// Numbers of one reserve. They wait in the ledger until they are pushed, so a crash wastes none of them.
const RESERVE_MAX: u64 = 1 << 20;

/// What the filler shows to others.
#[derive(Debug, Default)]
pub(super) struct Filling {
    nudge: Notify,
    filled: Notify,
    /// Rows that were asked for beyond the capacity; 0: none.
    goal: AtomicU64,
    /// The first number that was not pushed, plus one; 0: not known.
    next: AtomicU64,
    pushed: AtomicU64,
    skipped: AtomicU64,
    begun_anew: AtomicU64,
    used_up: AtomicBool,
    trouble: std::sync::Mutex<Option<String>>,
    /// Counts the fillers that were started; all but the last end after their turn.
    started: AtomicU64,
}

/// A glance from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FillGlance {
    /// Rows left, as far as is known.
    pub level: Option<u64>,
    /// Keys this process pushed.
    pub pushed: u64,
    /// How often this process found that the store may have forgotten something, and began anew.
    pub begun_anew: u64,
    /// Every number of the space was pushed.
    pub used_up: bool,
    /// Numbers this process drew because the rows were gone, and those of them that were taken.
    pub draws: u64,
    pub collisions: u64,
    /// Why it does not go on, if it does not.
    pub trouble: Option<String>,
}

impl Filling {
    /// The filler should look now.
    pub(super) fn look_again(&self) {
        self.nudge.notify_one();
    }

    /// Resolves when rows were added.
    pub(super) fn filled(&self) -> Notified<'_> {
        self.filled.notified()
    }

    pub(super) fn next(&self) -> Option<Number> {
        Number::new(self.next.load(Ordering::Relaxed).checked_sub(1)?)
    }

    pub(super) fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    pub(super) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.used_up.load(Ordering::Relaxed)
    }

    fn learn_next(&self, next: Number) {
        self.next.store(next.get() + 1, Ordering::Relaxed);
    }

    /// Says whether that is news.
    fn troubled(&self, trouble: Option<String>) -> bool {
        let mut kept = self.trouble.lock().expect("nothing panics while it holds this");
        let is_news = *kept != trouble;
        *kept = trouble;
        is_news
    }
}

/// Why a turn ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stuck {
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the filler was ended in the middle of its work")]
    Ended,
}

/// Fills until the keyspace is closed, another filler was started or the node is gone.
pub(super) async fn keep(node: Weak<Node>, rowed: Arc<Rowed>) {
    // Two at a time do no harm: see the head of this file.
    let started = rowed.filling.started.fetch_add(1, Ordering::Relaxed) + 1;
    let mut filler = Filler { rowed, known: None, led: None, reached: None };
    let mut failures = 0;
    while filler.rowed.closed().is_none() && filler.rowed.filling.started.load(Ordering::Relaxed) == started {
        let Some(node) = node.upgrade() else { return };
        let pause = match filler.turn(&node).await {
            Ok(()) => {
                failures = 0;
                if filler.rowed.filling.troubled(None) {
                    tracing::info!(keyspace = %filler.rowed.track, "keyspace `{}` is filled again", filler.rowed.track);
                }
                LOOK_EVERY
            }
            Err(stuck) => {
                failures += 1;
                filler.complain(&node, &stuck);
                pause_after(failures, chance())
            }
        };
        drop(node);
        if failures > 0 {
            // Whatever hurries us would hurry a store that has trouble already.
            sleep(pause).await;
        } else {
            let _ = timeout(pause, filler.rowed.filling.nudge.notified()).await;
        }
    }
    if let (Some(node), Ok(pool)) = (node.upgrade(), filler.rowed.pool())
        && filler.led.is_some()
    {
        let _ = pool.resign(node.name()).await;
    }
}

#[derive(Debug)]
struct Filler {
    rowed: Arc<Rowed>,
    /// How far the store acknowledged to be, and in which era.
    known: Option<(Era, Number)>,
    /// When we were last chosen.
    led: Option<Instant>,
    /// The capacity that was reached, and has not been left by much since.
    reached: Option<u64>,
}

/// The era of the ledger, and what the store says of it.
struct Place {
    era: Era,
    next: Number,
    level: u64,
}

impl Filler {
    async fn turn(&mut self, node: &Arc<Node>) -> Result<(), Stuck> {
        if *node.state.borrow() != NodeState::Serving {
            return Ok(());
        }
        let pool = self.rowed.pool()?;
        let pool = &*pool;
        let asked_for = self.rowed.filling.goal.load(Ordering::Relaxed) > 0;
        if !self.leads(node, pool).await? && !asked_for {
            self.look(pool).await?;
            return Ok(());
        }
        self.top_up(node, pool).await
    }

    async fn look(&self, pool: &dyn RowPool) -> Result<Standing, PoolError> {
        let standing = pool.standing().await?;
        self.rowed.learn_rows(standing.level);
        if standing.era.is_some() && standing.next >= self.rowed.ceiling() {
            self.used_up();
        }
        Ok(standing)
    }

    /// Whether we are the one that fills.
    async fn leads(&mut self, node: &Node, pool: &dyn RowPool) -> Result<bool, PoolError> {
        if self.led.is_some_and(|led| led.elapsed() < LEAD_AGAIN_AFTER) {
            return Ok(true);
        }
        let leads = pool.lead(node.name(), LEAD_FOR).await?;
        self.led = leads.then(Instant::now);
        Ok(leads)
    }

    /// Pushes until the pool is full, or the space is used up.
    async fn top_up(&mut self, node: &Arc<Node>, pool: &dyn RowPool) -> Result<(), Stuck> {
        loop {
            let standing = self.look(pool).await?;
            // The ledger is asked only where there is something to do.
            if self.agrees_with(&standing) && self.want(standing.level).is_none() {
                return Ok(());
            }
            let place = self.place(node, pool, standing).await?;
            let Some(want) = self.want(place.level) else { return Ok(()) };
            let Some(cursor) = self.reserved_up_to(node, place.next, want).await? else { return Ok(()) };
            // After the cursor was read: see the head of this file.
            if self.era(node).await? != place.era {
                continue;
            }
            let end = Number::new(place.next.get().saturating_add(want)).unwrap_or(cursor).min(cursor);
            if let Some(block) = Block::new(place.next, end) {
                self.push(node, pool, place.era, block).await?;
            }
            if self.rowed.closed().is_some() {
                return Ok(());
            }
        }
    }

    /// How many rows are missing, if it is time to add them.
    fn want(&mut self, level: u64) -> Option<u64> {
        let goal = self.rowed.filling.goal.load(Ordering::Relaxed);
        if goal > 0 && level < goal {
            return Some(goal - level);
        }
        self.rowed.filling.goal.store(0, Ordering::Relaxed);
        let capacity = self.rowed.settings.load().tuned.capacity.0;
        if level >= capacity {
            self.reached = Some(capacity);
        } else if level <= capacity - capacity.div_ceil(SLACK) {
            self.reached = None;
        }
        (self.reached != Some(capacity)).then(|| capacity - level)
    }

    /// Whether the store is as we know it, or further.
    fn agrees_with(&self, standing: &Standing) -> bool {
        let known = self.known.filter(|(era, _)| standing.era == Some(*era));
        standing.doubt.is_none() && known.is_some_and(|(_, next)| next <= standing.next)
    }

    /// Where to go on. A store that is new, or that may have forgotten something, is begun anew.
    async fn place(
        &mut self,
        node: &Arc<Node>,
        pool: &dyn RowPool,
        mut standing: Standing,
    ) -> Result<Place, Stuck> {
        loop {
            let era = self.era(node).await?;
            let acknowledged = self.known.filter(|(known, _)| *known == era).map(|(_, next)| next);
            match judge(&standing, era, acknowledged) {
                None => {
                    self.known = Some((era, standing.next));
                    self.rowed.filling.learn_next(standing.next);
                    return Ok(Place { era, next: standing.next, level: standing.level });
                }
                Some(why) => self.begin(node, pool, &standing, era, &why).await?,
            }
            standing = pool.standing().await?;
        }
    }

    async fn begin(
        &mut self,
        node: &Arc<Node>,
        pool: &dyn RowPool,
        standing: &Standing,
        last: Era,
        why: &str,
    ) -> Result<(), Stuck> {
        // Counted first, and the cursor read afterwards: see the head of this file.
        let counted = node.reserve(&self.eras(), Number::ZERO, NonZeroU64::MIN, Number::MAX).await?;
        let era = Era { term: counted.block.end().get(), ..last };
        let next = self.cursor(node).await?;
        let Begun::Anew { burned } = pool.begin(standing.era, era, next).await? else { return Ok(()) };
        self.rowed.burned.fetch_add(burned, Ordering::Relaxed);
        // A store that nothing was ever pushed into can have lost nothing.
        if next > Number::ZERO {
            self.rowed.filling.begun_anew.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                keyspace = %self.rowed.track, burned_rows = burned, next_number = next.get(),
                "the rows of keyspace `{}` are lossy: {why}; {burned} of them are burned and the pool is begun anew \
                 at number {next}", self.rowed.track
            );
        }
        Ok(())
    }

    /// The end of what is reserved, above `next`; `None` when the space is used up.
    async fn reserved_up_to(
        &self,
        node: &Arc<Node>,
        next: Number,
        want: u64,
    ) -> Result<Option<Number>, LedgerError> {
        // What others reserved and did not push comes first.
        let cursor = self.cursor(node).await?;
        if cursor > next {
            return Ok(Some(cursor));
        }
        let ceiling = self.rowed.ceiling();
        if cursor >= ceiling {
            self.used_up();
            return Ok(None);
        }
        let count = NonZeroU64::new(want.min(RESERVE_MAX)).unwrap_or(NonZeroU64::MIN);
        match node.reserve(&self.rowed.track, Number::ZERO, count, ceiling).await {
            Ok(reserved) => Ok(Some(reserved.block.end())),
            // Another filler took the last ones, and they are there to be pushed.
            Err(LedgerError::Exhausted { .. }) => Ok(Some(ceiling)),
            Err(error) => Err(error),
        }
    }

    fn used_up(&self) {
        let Filling { used_up, goal, .. } = &self.rowed.filling;
        goal.store(0, Ordering::Relaxed);
        if !used_up.swap(true, Ordering::Relaxed) {
            tracing::warn!(keyspace = %self.rowed.track, "keyspace `{}` is used up", self.rowed.track);
        }
    }

    /// Pushes a reserved block, piece by piece, spelling the next one meanwhile.
    async fn push(
        &mut self,
        node: &Arc<Node>,
        pool: &dyn RowPool,
        era: Era,
        block: Block,
    ) -> Result<(), Stuck> {
        let track = self.rowed.track.clone();
        let holes: Arc<[Number]> = node.ledger().holes(ops::HolesIn { track, block }).await?.into();
        let mut rest = Some(block);
        let most = pool.push_max();
        let mut spelled = self.spell_first(&mut rest, &holes, most).await?;
        while let Some(slab) = spelled {
            let (pushed, following) =
                tokio::join!(pool.push(era, &slab), self.spell_first(&mut rest, &holes, most));
            let Pushed::Done { level } = pushed? else { return Ok(()) };
            self.pushed(&slab, era, level);
            let is_led = self.leads(node, pool).await?;
            let asked_for = self.rowed.filling.goal.load(Ordering::Relaxed) > 0;
            if self.rowed.closed().is_some() || !(is_led || asked_for) {
                return Ok(());
            }
            spelled = following?;
        }
        Ok(())
    }

    fn pushed(&mut self, slab: &Slab, era: Era, level: u64) {
        let (filling, next) = (&self.rowed.filling, slab.block().end());
        self.known = Some((era, next));
        filling.learn_next(next);
        filling.pushed.fetch_add(slab.len().into(), Ordering::Relaxed);
        filling.skipped.fetch_add(slab.block().count() - u64::from(slab.len()), Ordering::Relaxed);
        self.rowed.learn_rows(level);
        filling.filled.notify_waiters();
    }

    /// Spells the beginning of `rest`, off the runtime's threads.
    async fn spell_first(
        &self,
        rest: &mut Option<Block>,
        holes: &Arc<[Number]>,
        most: u64,
    ) -> Result<Option<Slab>, Stuck> {
        let Some(block) = *rest else { return Ok(None) };
        let to_edge = self.rowed.mint.segment_end(block.start()).get() - block.start().get();
        let (first, remaining) = block.split_at(most.min(to_edge));
        *rest = remaining;
        let (rowed, holes) = (self.rowed.clone(), holes.clone());
        let spelled = tokio::task::spawn_blocking(move || {
            let from = holes.partition_point(|hole| *hole < first.start());
            let to = holes.partition_point(|hole| *hole < first.end());
            rowed.mint.spell_block(first, &holes[from..to], &mut Scratch::default())
        });
        spelled.await.map(Some).map_err(|_| Stuck::Ended)
    }

    async fn cursor(&self, node: &Node) -> Result<Number, LedgerError> {
        let op = ops::TrackAt { track: self.rowed.track.clone() };
        match node.ledger().track(op).await? {
            Some(track) => Ok(track.cursor),
            None => Err(LedgerError::UnknownKeyspace { keyspace: self.rowed.track.keyspace.clone() }),
        }
    }

    fn eras(&self) -> Track {
        eras(&self.rowed)
    }

    async fn era(&self, node: &Node) -> Result<Era, LedgerError> {
        current_era(node, &self.rowed).await
    }

    /// Draws the consequence of a turn that ended early, and says so once.
    fn complain(&mut self, node: &Node, stuck: &Stuck) {
        if let Stuck::Ledger(error) = stuck {
            node.note(error, "fill");
        }
        self.led = None;
        if self.rowed.filling.troubled(Some(stuck.to_string())) {
            let track = &self.rowed.track;
            tracing::warn!(keyspace = %track, error = %stuck, "keyspace `{track}` cannot be filled: {stuck}; retrying");
        }
    }
}

/// A row pool's keys have no workers: the track of the first counts its eras.
fn eras(rowed: &Rowed) -> Track {
    Track::of_worker(rowed.track.keyspace.clone(), WorkerId(0))
}

/// The era that the ledger counts now.
pub(super) async fn current_era(node: &Node, rowed: &Rowed) -> Result<Era, LedgerError> {
    let counted = node.ledger().track(ops::TrackAt { track: eras(rowed) }).await?;
    let head = node.ledger().survey(ops::Survey { at: node.now() }).await?.head;
    Ok(Era { advances: head.advances, term: counted.map_or(0, |track| track.cursor.get()) })
}

/// Why the store cannot be gone on with, if it cannot. `acknowledged` is how far it told us to be in this era.
pub(super) fn judge(standing: &Standing, era: Era, acknowledged: Option<Number>) -> Option<String> {
    if let Some(doubt) = &standing.doubt {
        return Some(doubt.clone());
    }
    match standing.era {
        None if era.term == 0 => Some("it is new".to_owned()),
        None => Some("it was flushed or replaced".to_owned()),
        Some(kept) if kept.advances != era.advances => {
            Some("the ledger was advanced after a rewind, and may have forgotten what left".to_owned())
        }
        Some(kept) if kept != era => Some(format!("another store was filled since (era {kept}, now {era})")),
        Some(_) => match acknowledged {
            Some(next) if standing.next < next => {
                Some(format!("it went back from number {next} to {}", standing.next))
            }
            _ => None,
        },
    }
}

impl Rowed {
    /// Adds rows now, up to `goal` of them or up to the capacity.
    pub(crate) fn fill(&self, goal: Option<u64>) {
        let capacity = self.settings.load().tuned.capacity.0;
        self.filling.goal.fetch_max(goal.unwrap_or(capacity), Ordering::Relaxed);
        self.filling.look_again();
    }

    pub(crate) fn fill_glance(&self) -> FillGlance {
        let filling = &self.filling;
        let (draws, collisions) = self.draws.counts();
        FillGlance {
            draws,
            collisions,
            level: self.rows(),
            pushed: filling.pushed(),
            begun_anew: filling.begun_anew.load(Ordering::Relaxed),
            used_up: filling.is_used_up(),
            trouble: filling.trouble.lock().expect("nothing panics while it holds this").clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERA: Era = Era { advances: 0, term: 2 };

    fn standing(era: Option<Era>, next: u64) -> Standing {
        Standing { era, next: Number::new(next).unwrap(), level: 0, doubt: None }
    }

    #[test]
    fn a_store_is_gone_on_with_only_if_it_is_the_current_one_and_forgot_nothing() {
        let acknowledged = Number::new(10);
        assert_eq!(judge(&standing(Some(ERA), 10), ERA, acknowledged), None);
        assert_eq!(judge(&standing(Some(ERA), 12), ERA, acknowledged), None, "someone else pushed");
        assert_eq!(judge(&standing(Some(ERA), 0), ERA, None), None);
        let anew = |standing: Standing, era| judge(&standing, era, acknowledged).is_some();
        assert!(anew(standing(Some(ERA), 9), ERA), "it went back");
        assert!(anew(standing(None, 0), ERA), "it was flushed");
        assert!(anew(standing(None, 0), Era { advances: 0, term: 0 }), "it is new");
        assert!(anew(standing(Some(ERA), 10), Era { term: 3, ..ERA }), "another store came after it");
        assert!(anew(standing(Some(ERA), 10), Era { advances: 1, ..ERA }), "the ledger was advanced");
        let doubtful = Standing { doubt: Some("it restarted".to_owned()), ..standing(Some(ERA), 10) };
        assert!(anew(doubtful, ERA));
    }
}
