//! Worker leases: who uses which worker id. Tidy ids and liveness; uniqueness rests on windows.

use std::collections::BTreeSet;

use keymill_id::{KeyspaceName, Number};

use super::{Operation, Stamp};
use crate::{LeaseRow, LedgerError, NodeName, Rows, Timestamp, Track, WorkerId};

/// Leases a worker that nobody holds and whose last window is past.
#[derive(Debug, Clone)]
pub struct LeaseWorker {
    pub stamp: Stamp,
    pub keyspace: KeyspaceName,
    /// The node's name for its own workers, an SDK's for a worker it was lent.
    pub holder: String,
    /// A static worker id: this one or none.
    pub wanted: Option<WorkerId>,
    /// How many workers the layout has room for.
    pub capacity: u32,
    pub ttl_ms: u64,
    /// A worker whose cursor is above this tick is not free yet: its last owner may still be using it.
    pub free_below: Number,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub worker: WorkerId,
    /// What a renewal must show.
    pub term: u64,
    pub expires_at: Timestamp,
}

impl LeaseRow {
    pub fn is_live(&self, now: Timestamp) -> bool {
        !self.released && now < self.expires_at
    }
}

impl Operation for LeaseWorker {
    type Answer = Lease;
    const NAME: &'static str = "lease_worker";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<Lease, LedgerError> {
        self.stamp.check(rows).await?;
        let now = rows.clock(self.stamp.at).await?;
        let leases = rows.leases(&self.keyspace).await?;
        let worker = match self.wanted {
            Some(worker) => self.check_static(&leases, worker, now)?,
            None => self.choose(rows, &leases, now).await?,
        };
        let term = leases.iter().find(|lease| lease.worker == worker).map_or(1, |lease| lease.term + 1);
        let expires_at = now.after(self.ttl_ms);
        rows.put_lease(&LeaseRow {
            keyspace: self.keyspace.clone(),
            worker,
            holder: self.holder.clone(),
            term,
            expires_at,
            released: false,
        })
        .await?;
        Ok(Lease { worker, term, expires_at })
    }
}

impl LeaseWorker {
    fn check_static(
        &self,
        leases: &[LeaseRow],
        worker: WorkerId,
        now: Timestamp,
    ) -> Result<WorkerId, LedgerError> {
        let held = leases.iter().find(|lease| lease.worker == worker && lease.is_live(now));
        match held {
            Some(lease) if lease.holder != self.holder => Err(LedgerError::WorkerTaken {
                keyspace: self.keyspace.clone(),
                worker,
                holder: lease.holder.clone(),
            }),
            _ => Ok(worker),
        }
    }

    /// A worker that was never used, else the one at rest for longest.
    async fn choose<R: Rows>(
        &self,
        rows: &mut R,
        leases: &[LeaseRow],
        now: Timestamp,
    ) -> Result<WorkerId, LedgerError> {
        let no_worker = || LedgerError::NoWorker { keyspace: self.keyspace.clone(), capacity: self.capacity };
        let in_layout = |worker: &WorkerId| u32::from(worker.0) < self.capacity;
        let used: BTreeSet<WorkerId> = leases.iter().map(|lease| lease.worker).collect();
        let fresh = (0..=u16::MAX).map(WorkerId).take_while(in_layout).filter(|id| !used.contains(id));
        for worker in fresh {
            // Its lease may have been lost in a rewind, and its track put back by `advance`.
            if self.cursor(rows, worker).await? <= self.free_below {
                return Ok(worker);
            }
        }
        let mut rested: Option<(Number, WorkerId)> = None;
        let ended = leases.iter().filter(|lease| !lease.is_live(now)).map(|lease| lease.worker);
        for worker in ended.filter(in_layout) {
            let cursor = self.cursor(rows, worker).await?;
            if cursor <= self.free_below && rested.is_none_or(|best| (cursor, worker) < best) {
                rested = Some((cursor, worker));
            }
        }
        rested.map(|(_, worker)| worker).ok_or_else(no_worker)
    }

    async fn cursor<R: Rows>(&self, rows: &mut R, worker: WorkerId) -> Result<Number, LedgerError> {
        let track = Track::of_worker(self.keyspace.clone(), worker);
        Ok(rows.track(&track).await?.unwrap_or_default().cursor)
    }
}

/// Keeps a lease alive. Only the holder of its term can.
#[derive(Debug, Clone)]
pub struct RenewWorker {
    pub stamp: Stamp,
    pub keyspace: KeyspaceName,
    pub worker: WorkerId,
    pub term: u64,
    pub ttl_ms: u64,
}

impl Operation for RenewWorker {
    type Answer = Lease;
    const NAME: &'static str = "renew_worker";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<Lease, LedgerError> {
        self.stamp.check(rows).await?;
        let now = rows.clock(self.stamp.at).await?;
        let mut row = held(rows, &self.keyspace, self.worker, self.term).await?;
        // Expired but not taken by anyone: the term is still ours, and so is the worker.
        row.expires_at = row.expires_at.max(now.after(self.ttl_ms));
        rows.put_lease(&row).await?;
        Ok(Lease { worker: row.worker, term: row.term, expires_at: row.expires_at })
    }
}

/// Ends a lease; the worker is free once its window is past.
#[derive(Debug, Clone)]
pub struct ReleaseWorker {
    pub stamp: Stamp,
    pub keyspace: KeyspaceName,
    pub worker: WorkerId,
    pub term: u64,
}

impl Operation for ReleaseWorker {
    type Answer = ();
    const NAME: &'static str = "release_worker";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<(), LedgerError> {
        self.stamp.check(rows).await?;
        let mut row = held(rows, &self.keyspace, self.worker, self.term).await?;
        row.released = true;
        rows.put_lease(&row).await
    }
}

/// All leases of a keyspace, live or not.
#[derive(Debug, Clone)]
pub struct Workers {
    pub keyspace: KeyspaceName,
}

impl Operation for Workers {
    type Answer = Vec<LeaseRow>;
    const NAME: &'static str = "workers";
    const READS_ONLY: bool = true;

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<Vec<LeaseRow>, LedgerError> {
        rows.leases(&self.keyspace).await
    }
}

async fn held<R: Rows>(
    rows: &mut R,
    keyspace: &KeyspaceName,
    worker: WorkerId,
    term: u64,
) -> Result<LeaseRow, LedgerError> {
    let row = rows.lease(keyspace, worker).await?.filter(|row| row.term == term && !row.released);
    row.ok_or_else(|| LedgerError::LeaseLost { keyspace: keyspace.clone(), worker })
}

/// Ends every lease that `node` holds for itself.
pub(super) async fn release_all<R: Rows>(rows: &mut R, node: &NodeName) -> Result<(), LedgerError> {
    for mut lease in rows.leases_of(node.as_str()).await? {
        lease.released = true;
        rows.put_lease(&lease).await?;
    }
    Ok(())
}
