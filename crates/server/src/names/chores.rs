//! What the desk does by itself: writes visits down, and clears away what has expired.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use keymill_registry::{RegistryError, VisitSum};
use tokio::{sync::watch, time::Instant};

use super::Names;

/// How often visits are written down…
const VISITS_EVERY: Duration = Duration::from_secs(2);
/// … unless that takes more than this share of the time, 1 / 20, and there is room to wait.
const VISITS_SHARE: u32 = 20;
/// Visited links in one transaction.
const VISITS_BATCH: usize = 1000;
/// Rows that one transaction clears away, and how many of those follow each other.
const SWEEP_BATCH: u32 = 500;
const SWEEP_ROUNDS: u32 = 200;
/// Others get in between two batches.
const SWEEP_PAUSE: Duration = Duration::from_millis(20);

/// Until the server stops; then the last visits are written down.
pub(crate) async fn keep(names: Weak<Names>, sweep_every: Duration, mut stopping: watch::Receiver<bool>) {
    let mut sweep_at = Instant::now() + sweep_every / 2;
    let mut pause = VISITS_EVERY;
    loop {
        let Some(visits) = names.upgrade().map(|names| names.visits.clone()) else { return };
        let stopped = tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = visits.are_many() => false,
            _ = stopping.wait_for(|stop| *stop) => true,
        };
        let Some(names) = names.upgrade() else { return };
        let begun = Instant::now();
        names.write_visits().await;
        pause = VISITS_EVERY.max(begun.elapsed() * VISITS_SHARE);
        if stopped {
            return;
        }
        if Instant::now() >= sweep_at && !sweep_every.is_zero() {
            names.sweep().await;
            sweep_at = Instant::now() + sweep_every;
        }
    }
}

impl Names {
    pub(crate) async fn write_visits(self: &Arc<Self>) {
        let Ok(registry) = self.registry() else { return };
        let counts = self.visits.take();
        let total = counts.iter().map(|count| u64::from(count.count)).sum();
        match registry.sum_visits(counts).await {
            Ok(sums) => {
                let mut sums = sums.into_iter();
                while sums.len() > 0 {
                    let batch: Vec<VisitSum> = sums.by_ref().take(VISITS_BATCH).collect();
                    let total = batch.iter().map(|sum| sum.sum).sum();
                    self.note_written(total, registry.add_visits(batch).await);
                }
            }
            Err(error) => self.note_written(total, Err(error)),
        }
    }

    fn note_written(&self, visits: u64, written: Result<(), RegistryError>) {
        match written {
            Ok(()) => {
                self.counters.visits.fetch_add(visits, Ordering::Relaxed);
                self.unwritten.over();
            }
            // Written down by nobody, or by someone who did not say so: not counted twice.
            Err(error) if self.unwritten.is_new(&error) => {
                tracing::warn!(%error, visits, "visits cannot be written down: {error}");
            }
            Err(_) => {}
        }
    }

    async fn sweep(self: &Arc<Self>) {
        let Ok(registry) = self.registry() else { return };
        for _ in 0..SWEEP_ROUNDS {
            let now = self.now_ms();
            match registry.sweep(now, SWEEP_BATCH, self.reusable_at(now)).await {
                Ok(swept) => {
                    self.counters.swept.fetch_add(swept.expired, Ordering::Relaxed);
                    self.unswept.over();
                    let most = swept.expired.max(swept.freed).max(swept.receipts);
                    if most < u64::from(SWEEP_BATCH) {
                        return;
                    }
                }
                Err(error) => {
                    if self.unswept.is_new(&error) {
                        tracing::warn!(%error, "what has expired cannot be cleared away: {error}");
                    }
                    return;
                }
            }
            tokio::time::sleep(SWEEP_PAUSE).await;
        }
    }
}
