//! A node's life: it registers, beats, burns when the ledger is halted, comes back once it is advanced,
//! and gives back when it stops.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use keymill_ledger::{Grade, KeyspaceReport, LedgerError, NodeReport, ops};
use tokio::time::Instant;

use crate::{
    error::IssueError,
    node::{CreateError, Elsewhere, LedgerIdentity, Node, NodeState, Wanted},
    skip_ahead,
};

/// How often rates are measured.
const OBSERVE_EVERY: Duration = Duration::from_millis(250);
/// How often the audit is brought forward.
const AUDIT_EVERY: Duration = Duration::from_secs(10);
/// How long a stop waits for reserves and pops that are under way, so that they can be given back too.
const SETTLE_WAIT: Duration = Duration::from_millis(500);

impl Node {
    /// Burns everything in memory: the ledger may grant the same numbers to someone else.
    async fn burn(&self, why: IssueError) {
        let _editing = self.editing.lock().await;
        let keyspaces = self.keyspaces.swap(Arc::default());
        for served in keyspaces.values() {
            served.close(why.clone(), self.now());
        }
    }

    fn report(&self) -> NodeReport {
        let keyspaces = self.all_known().into_iter().map(|served| {
            let glance = served.glance();
            KeyspaceReport { keyspace: served.name.clone(), stock: glance.stock, rate: glance.rate }
        });
        NodeReport {
            version: self.settings.version.clone(),
            address: self.settings.address.clone(),
            keyspaces: keyspaces.collect(),
        }
    }

    /// One attempt to become a serving node.
    async fn join(self: &Arc<Self>) -> Result<(), CreateError> {
        self.refuse_region_elsewhere().await?;
        let remembers = self.pen.remembers();
        let registration = self.pen.register(self.report()).await?;
        if !remembers && registration.epoch > 1 {
            tracing::warn!(
                node = %self.name(),
                "node `{}` was here before, but its witness is gone: had the ledger been restored from an old copy, \
                 nobody would notice; keep the witness with the node", self.name()
            );
        }
        let identity = LedgerIdentity { id: registration.ledger.clone(), region: registration.region };
        *self.identity.lock().expect("nothing panics while it holds this") = Some(identity);
        let is_empty = !self.settings.if_empty.is_empty()
            && self.ledger().survey(ops::Survey { at: self.now() }).await?.head.keyspaces == 0;
        let to_try = self.settings.if_empty.iter().filter(|_| is_empty);
        let own = self.own.load_full();
        for Wanted { name, stated, tuning } in own.wanted.iter().chain(to_try) {
            self.establish(name, stated, tuning).await?;
        }
        self.reload(registration.changes).await?;
        tracing::info!(
            node = %self.name(), epoch = registration.epoch, ledger = %registration.ledger,
            "node `{}` serves (start {})", self.name(), registration.epoch
        );
        self.failures.store(0, Ordering::Relaxed);
        self.halted.over();
        self.set_state(NodeState::Serving);
        Ok(())
    }

    /// Two ledgers of one region would make the same IDs. Asked before the ledger keeps our region for ever.
    async fn refuse_region_elsewhere(&self) -> Result<(), LedgerError> {
        let Some(region) = self.settings.region else { return Ok(()) };
        if self.settings.elsewhere.is_empty() {
            return Ok(());
        }
        let own = self.ledger().survey(ops::Survey { at: self.now() }).await?.head.id;
        for Elsewhere { at, ledger, region: theirs } in &self.settings.elsewhere {
            if *theirs == region && *ledger != own {
                return Err(LedgerError::RegionElsewhere { region, at: at.clone() });
            }
        }
        Ok(())
    }

    async fn beat(self: &Arc<Self>, audit: bool) -> Result<(), LedgerError> {
        let served = self.all_known();
        let now = self.now();
        let mut progress: Vec<ops::Progress> =
            if audit { served.iter().flat_map(|served| served.progress(now)).collect() } else { Vec::new() };
        // All nodes lock tracks in one order, or they would now and then wait for each other.
        progress.sort_by(|a, b| a.track.cmp(&b.track));
        // An answer that was lost may have been counted: better twice in a sum for people than never.
        let pulse = self.pen.heartbeat(self.report(), progress.clone()).await.inspect_err(|_| {
            served.iter().for_each(|served| served.unreported(&progress));
        })?;
        self.heard_time(pulse.now, self.ledger().keeps_time());
        if pulse.changes != self.changes.load(Ordering::Relaxed) {
            self.reload(pulse.changes).await?;
        }
        Ok(())
    }

    /// No longer ready: new work is refused, what is on the shelf still goes out.
    pub fn drain(&self) {
        let was = self.state.borrow().clone();
        if was == NodeState::Serving {
            self.was_serving.store(true, Ordering::Relaxed);
        }
        self.set_state(NodeState::Draining);
        self.nudge.notify_one();
    }

    /// Stops cleanly: no more keys, then what was not issued goes back, then the books are closed.
    /// What the deadline leaves undone is burned.
    pub async fn stop(self: &Arc<Self>, deadline: Duration) -> Stopped {
        self.drain();
        let mut stopped = Stopped::default();
        if !self.was_serving.load(Ordering::Relaxed) || matches!(*self.state.borrow(), NodeState::Dead { .. })
        {
            self.burn(IssueError::Draining).await;
            return stopped;
        }
        let until = Instant::now() + deadline;
        let served = self.all_known();
        let settled = Instant::now() + SETTLE_WAIT;
        while served.iter().any(|served| served.is_refilling()) && Instant::now() < settled {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let now = self.now();
        let mut leftovers: Vec<_> = served
            .iter()
            .flat_map(|served| {
                served.close(IssueError::Draining, now).into_iter().map(move |left| (served, left))
            })
            .collect();
        let progress = leftovers.iter_mut().filter_map(|(_, left)| left.progress.take()).collect();
        let mut settlements = Vec::new();
        for (served, mut left) in leftovers {
            let popped = std::mem::take(&mut left.popped);
            let (count, unpopped) = (popped.len() as u64, served.give_back_rows(popped, until).await);
            stopped.given_back += unpopped;
            stopped.burned += count - unpopped;
            let offer = left.offer.filter(|_| Instant::now() < until);
            let given = match offer {
                Some(offer) => self.pen.give_back(&left.track, offer).await.ok(),
                None => None,
            };
            let from = match given {
                Some(ops::GivenBack::Taken { count, .. }) => {
                    stopped.given_back += count;
                    served.given_back.fetch_add(count, Ordering::Relaxed);
                    offer.map(|offer| offer.from)
                }
                _ => None,
            };
            let settlement = left.settle(from);
            stopped.burned += settlement.unissued.iter().map(|block| block.count()).sum::<u64>();
            settlements.push(settlement);
        }
        if let Err(error) = self.pen.stop(progress, settlements).await {
            tracing::warn!(%error, "the ledger did not hear of this stop: {error}");
        }
        stopped
    }
}

/// What became of the stock.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    pub given_back: u64,
    pub burned: u64,
}

/// Registers, beats, and comes back after a halt. Ends with the node.
pub(crate) async fn supervise(node: Weak<Node>) {
    let mut audited = Instant::now();
    let mut halted_since = None;
    loop {
        let Some(node) = node.upgrade() else { return };
        let state = node.state.borrow().clone();
        let wait = match state {
            NodeState::Dead { reason } => {
                node.burn(IssueError::Draining).await;
                tracing::debug!(reason, "the supervisor ends");
                return;
            }
            NodeState::Draining => return,
            NodeState::Serving => {
                let audit = audited.elapsed() >= AUDIT_EVERY;
                match node.beat(audit).await {
                    Ok(()) => {
                        node.note_success();
                        if audit {
                            audited = Instant::now();
                        }
                        node.settings.heartbeat
                    }
                    Err(error) => {
                        node.note(&error, "heartbeat");
                        node.pause()
                    }
                }
            }
            NodeState::Starting { .. } | NodeState::Halted { .. } => {
                match try_to_join(&node, &mut halted_since).await {
                    Ok(()) => Duration::ZERO,
                    Err(wait) => wait,
                }
            }
        };
        let nudged = node.clone();
        drop(node);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = nudged.nudge.notified() => {}
        }
    }
}

/// `halted_since` is since when the ledger is known to be halted and within reach.
async fn try_to_join(node: &Arc<Node>, halted_since: &mut Option<Instant>) -> Result<(), Duration> {
    let state = node.state.borrow().clone();
    if let NodeState::Halted { reason } = state {
        node.burn(IssueError::LedgerHalted(reason)).await;
    }
    let error = match node.join().await {
        Ok(()) => {
            *halted_since = None;
            return Ok(());
        }
        Err(CreateError::Ledger(error)) => error,
        Err(unwanted) => {
            node.set_state(NodeState::Dead { reason: unwanted.to_string() });
            return Err(Duration::ZERO);
        }
    };
    match &error {
        LedgerError::Halted { reason } => {
            node.burn(IssueError::LedgerHalted(reason.clone())).await;
            node.set_state(NodeState::Halted { reason: reason.clone() });
            let since = *halted_since.get_or_insert_with(Instant::now);
            match node.pen.report_witness().await {
                Ok(()) => {
                    let is_over = since.elapsed() >= skip_ahead::grace(&node.settings);
                    if is_over && node.ledger().grade() == Grade::Lossy {
                        skip_ahead::skip_ahead(node).await;
                    }
                }
                Err(LedgerError::NotHalted) => {}
                Err(error) if node.halted.is_new(&error) => {
                    tracing::warn!(%error, "the witness could not be reported: {error}");
                }
                Err(_) => {}
            }
            Err(node.settings.heartbeat.min(Duration::from_secs(1)))
        }
        transient if transient.is_transient() => {
            *halted_since = None;
            node.note(transient, "register");
            node.set_state(NodeState::Starting { why: Some(transient.to_string()) });
            Err(node.pause())
        }
        fatal => {
            node.set_state(NodeState::Dead { reason: fatal.to_string() });
            Err(Duration::ZERO)
        }
    }
}

/// Measures rates, for as long as the node lives.
pub(crate) async fn observe(node: Weak<Node>) {
    let mut ticks = tokio::time::interval(OBSERVE_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        ticks.tick().await;
        let Some(node) = node.upgrade() else { return };
        let seconds = last.elapsed().as_secs_f64();
        last = Instant::now();
        for served in node.all_known() {
            served.observe(seconds);
        }
    }
}
