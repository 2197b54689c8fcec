//! Keeps a node's workers: leases and renews them, and reserves their windows well ahead.

use std::{
    num::NonZeroU64,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use keymill_id::{NUMBER_MAX, Number};
use keymill_ledger::{
    LedgerError, Timestamp, Track,
    ops::{LeaseWorker, Workers},
};
use tokio::time::Instant;

use crate::{
    error::IssueError,
    node::{Node, NodeState},
    timed::{Lane, Timed},
    tuning::Tuned,
};

/// How often windows and leases are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A window reaches at least this far ahead, however short the outage budget.
const WINDOW_MIN_MS: u64 = 1_000;
/// It is extended when less than 9/16 of it is left, like a stock.
const LOW_WATER_16THS: u64 = 9;

/// How often all nodes' leases are counted.
const COUNT_EVERY: Duration = Duration::from_secs(10);
/// From this share of all workers on, someone should know.
const NEARLY_ALL_PERCENT: u64 = 80;

/// Runs as long as the node and the keyspace do.
pub(crate) async fn keep(node: Weak<Node>, timed: Arc<Timed>) {
    let mut counted: Option<Instant> = None;
    loop {
        let Some(alive) = node.upgrade() else { return };
        if timed.closed().is_some() {
            return;
        }
        let serving = *alive.state.borrow() == NodeState::Serving;
        let wait = if serving { tend(&alive, &timed).await } else { LOOK_EVERY };
        if serving && counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY) {
            counted = Some(Instant::now());
            count(&alive, &timed).await;
        }
        drop(alive);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = timed.nudge.notified() => {}
        }
    }
}

/// One look at everything. Returns how long until the next.
async fn tend(node: &Arc<Node>, timed: &Arc<Timed>) -> Duration {
    let tuned = timed.tuned();
    // Read once: what was judged is what is used, or a step in between would be reserved from.
    let now = node.now();
    if let Some(ahead_ms) = node.clock_ahead(now, tuned.forward_max) {
        // A bad clock must not burn a worker for years: no window is reserved from it.
        timed.troubled(IssueError::ClockAhead { by_ms: ahead_ms });
        return LOOK_EVERY;
    }
    let tended = async {
        for lane in timed.lanes().iter() {
            renew(node, timed, lane, &tuned).await?;
        }
        for lane in timed.lanes().iter() {
            extend(node, timed, lane, &tuned, now).await?;
        }
        if timed.lanes().len() < usize::from(tuned.workers) {
            hire(node, timed, &tuned, now).await?;
        }
        Ok::<(), LedgerError>(())
    };
    match tended.await {
        Ok(()) if timed.lanes().len() < usize::from(tuned.workers) => Duration::ZERO,
        Ok(()) => LOOK_EVERY,
        Err(error) => {
            timed.troubled(IssueError::from_ledger(&error));
            if matches!(error, LedgerError::WorkerTaken { .. } | LedgerError::NoWorker { .. }) {
                timed.counters.conflicts.fetch_add(1, Ordering::Relaxed);
                if timed.unemployed.is_new(&error) {
                    tracing::warn!(keyspace = %timed.keyspace, %error, "{error}; retrying");
                }
                return Duration::from_secs(1);
            }
            node.note(&error, "worker");
            node.pause()
        }
    }
}

/// Counts the leases of all nodes, and says when few workers are left.
async fn count(node: &Node, timed: &Timed) {
    let op = Workers { keyspace: timed.keyspace.clone() };
    let Ok(leases) = node.ledger().workers(op).await else { return };
    let now = node.now();
    let live = leases.iter().filter(|lease| lease.is_live(now)).count() as u64;
    let capacity = u64::from(timed.layout.workers());
    let before = timed.leased.swap(live, Ordering::Relaxed);
    let nearly_all = |leased: u64| leased * 100 >= capacity * NEARLY_ALL_PERCENT;
    if nearly_all(live) && !nearly_all(before) {
        tracing::warn!(
            keyspace = %timed.keyspace, leased_workers = live, all_workers = capacity,
            "{live} of {capacity} workers of `{}` are in use", timed.keyspace
        );
    }
}

async fn renew(node: &Node, timed: &Timed, lane: &Arc<Lane>, tuned: &Tuned) -> Result<(), LedgerError> {
    if lane.since_renewed() < tuned.lease_ttl.duration() / 3 {
        return Ok(());
    }
    let renewed = node.pen.renew_worker(&timed.keyspace, lane.worker, lane.term, tuned.lease_ttl.0).await;
    match renewed {
        Ok(_) => {
            timed.counters.renewals.fetch_add(1, Ordering::Relaxed);
            lane.renewed();
            Ok(())
        }
        Err(LedgerError::LeaseLost { .. }) => {
            // Our windows stay ours, so nothing that left is in doubt; but the worker is another's now.
            timed.counters.losses.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                keyspace = %timed.keyspace, worker = lane.worker.0,
                "the lease on worker {} of `{}` is lost; leasing another", lane.worker, timed.keyspace
            );
            timed.dismiss(lane);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn extend(
    node: &Node,
    timed: &Timed,
    lane: &Lane,
    tuned: &Tuned,
    now: Timestamp,
) -> Result<(), LedgerError> {
    let ticks = window_ticks(timed, tuned);
    let now = timed.layout.tick_of_clock(now.0);
    if lane.ticks_left(now) * 16 >= ticks * LOW_WATER_16THS {
        return Ok(());
    }
    let wanted_end = now.saturating_add(ticks);
    let count = wanted_end.saturating_sub(lane.end().max(now)).max(1);
    let reserved = reserve(node, timed, &lane.track, now, count).await?;
    timed.extend(lane, &reserved);
    Ok(())
}

async fn hire(node: &Node, timed: &Timed, tuned: &Tuned, now: Timestamp) -> Result<(), LedgerError> {
    let wall = now.0;
    let rested = timed.layout.tick_of_clock(wall.saturating_sub(tuned.recycle_delay.0));
    let keyspace = timed.keyspace.clone();
    let lease = node
        .pen
        .lease_worker(|stamp| LeaseWorker {
            stamp,
            keyspace,
            holder: node.name().to_string(),
            wanted: tuned.worker.map(keymill_ledger::WorkerId),
            capacity: timed.layout.workers(),
            ttl_ms: tuned.lease_ttl.0,
            free_below: number(rested),
        })
        .await?;
    let track = Track::of_worker(timed.keyspace.clone(), lease.worker);
    let now = timed.layout.tick_of_clock(wall);
    let reserved = reserve(node, timed, &track, now, window_ticks(timed, tuned)).await?;
    timed.unemployed.over();
    tracing::info!(
        keyspace = %timed.keyspace, worker = lease.worker.0,
        "`{}` makes IDs as worker {}", timed.keyspace, lease.worker
    );
    timed.admit(lease.worker, lease.term, track, &reserved);
    Ok(())
}

async fn reserve(
    node: &Node,
    timed: &Timed,
    track: &Track,
    now: u64,
    count: u64,
) -> Result<keymill_ledger::ops::Reserved, LedgerError> {
    let count = NonZeroU64::new(count).unwrap_or(NonZeroU64::MIN);
    node.reserve(track, number(now), count, number(timed.layout.ticks())).await
}

fn window_ticks(timed: &Timed, tuned: &Tuned) -> u64 {
    (tuned.outage_budget.0.max(WINDOW_MIN_MS) / u64::from(timed.layout.tick_ms())).max(2)
}

/// Ticks are numbers of the ledger: a layout that issues has at most 2^62 of them.
fn number(tick: u64) -> Number {
    Number::new(tick.min(NUMBER_MAX)).unwrap_or(Number::MAX)
}
