//! Workers lent to SDKs: a worker id under a lease, and windows of its time in which they make IDs themselves.
//!
//! A window that was lent counts as issued, whatever becomes of the borrower: it never comes back, and the
//! ledger reserves each tick once, so no two borrowers can hold the same. The lease only keeps worker ids tidy.

use std::{num::NonZeroU64, sync::Arc};

use keymill_id::{KeyspaceName, Layout, NUMBER_MAX, Number, Window};
use keymill_ledger::{LedgerError, Timestamp, Track, WorkerId, ops::LeaseWorker};

use crate::{error::IssueError, node::Node, served::Served, timed::Timed, tuning::Tuned};

/// The longest window that is lent at a time: a borrower that dies burns so much of a worker's time.
pub const WINDOW_MS_MAX: u32 = 600_000;
/// How far ahead of the clock windows may reach, however often a lease is renewed.
const AHEAD_MS_MAX: u64 = 2 * WINDOW_MS_MAX as u64;
/// The longest name of a borrower, in characters.
pub const HOLDER_MAX: usize = 63;

/// A worker, and a window that is the borrower's alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loan {
    pub lease: LeaseId,
    pub region: u32,
    pub layout: Layout,
    pub window: Window,
    /// How soon the lease is to be renewed.
    pub ttl_ms: u64,
}

/// Why a worker was not lent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LendError {
    #[error("`{keyspace}` has no workers: only snowflake keyspaces do")]
    NoWorkers { keyspace: KeyspaceName },
    #[error(
        "every ID of `{keyspace}` is written down before it leaves (`audit`), so none can be made elsewhere; take them"
    )]
    Recorded { keyspace: KeyspaceName },
    #[error("`holder` must be 1 to {HOLDER_MAX} of A-Z a-z 0-9 . _ - : / @")]
    Holder,
    #[error("`holder` is the name of a node; choose another")]
    HolderIsNode,
    #[error("`window_ms` must be at most {WINDOW_MS_MAX}, and is {0}")]
    Window(u32),
    #[error("`lease_id` is not one of worker {worker} of `{keyspace}`")]
    LeaseId { keyspace: KeyspaceName, worker: u32 },
    /// Lease again.
    #[error(
        "the lease on worker {worker} of `{keyspace}` is over: it was released, or the worker is another's"
    )]
    LeaseLost { keyspace: KeyspaceName, worker: WorkerId },
    /// Renew later.
    #[error(
        "the windows of worker {worker} of `{keyspace}` reach {AHEAD_MS_MAX} ms ahead of the clock already"
    )]
    FarAhead { keyspace: KeyspaceName, worker: WorkerId },
    #[error(transparent)]
    Issue(#[from] IssueError),
}

/// Which worker, for the how-manieth time. It is a name and not a password; the check catches one that was
/// mistyped, or meant for another keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseId {
    pub worker: WorkerId,
    term: u64,
    check: u32,
}

impl LeaseId {
    fn new(served: &Served, worker: WorkerId, term: u64) -> Self {
        let named = format!("{} {} {worker} {term}", served.name, served.fingerprint);
        Self { worker, term, check: crc32fast::hash(named.as_bytes()) }
    }

    /// Reads one that must be of this keyspace and worker.
    fn read(served: &Served, worker: u32, text: &str) -> Result<Self, LendError> {
        let read = || {
            let (told, rest) = text.split_once('-')?;
            let (term, _) = rest.split_once('-')?;
            let lease = Self::new(served, WorkerId(told.parse().ok()?), term.parse().ok()?);
            (u32::from(lease.worker.0) == worker && lease.to_string() == text).then_some(lease)
        };
        read().ok_or_else(|| LendError::LeaseId { keyspace: served.name.clone(), worker })
    }
}

impl std::fmt::Display for LeaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{:08x}", self.worker, self.term, self.check)
    }
}

impl Node {
    /// Lends a worker that nobody holds, and its first window.
    pub async fn lend_worker(
        &self,
        served: &Served,
        holder: &str,
        window_ms: u32,
    ) -> Result<Loan, LendError> {
        let terms = self.terms(served, window_ms)?;
        self.check_holder(holder).await?;
        let Terms { timed, tuned, now, .. } = &terms;
        let rested = timed.layout.tick_of_clock(now.0.saturating_sub(tuned.recycle_delay.0));
        let op = |stamp| LeaseWorker {
            stamp,
            keyspace: served.name.clone(),
            holder: holder.to_owned(),
            wanted: None,
            capacity: timed.layout.workers(),
            ttl_ms: tuned.lease_ttl.0,
            free_below: number(rested),
        };
        let leased = self.pen.lease_worker(op).await.map_err(|error| self.refused(served, &error))?;
        let lease = LeaseId::new(served, leased.worker, leased.term);
        self.lend_window(served, lease, &terms).await
    }

    /// Keeps a lease, and lends the next window: above every one that was lent before.
    pub async fn renew_loan(
        &self,
        served: &Served,
        worker: u32,
        lease: &str,
        window_ms: u32,
    ) -> Result<Loan, LendError> {
        let terms = self.terms(served, window_ms)?;
        let lease = LeaseId::read(served, worker, lease)?;
        let ttl_ms = terms.tuned.lease_ttl.0;
        let renewed = self.pen.renew_worker(&served.name, lease.worker, lease.term, ttl_ms).await;
        renewed.map_err(|error| self.refused(served, &error))?;
        self.lend_window(served, lease, &terms).await
    }

    /// Ends a lease. What was lent stays lent.
    pub async fn release_loan(&self, served: &Served, worker: u32, lease: &str) -> Result<(), LendError> {
        self.terms(served, 0)?;
        let lease = LeaseId::read(served, worker, lease)?;
        let released = self.pen.release_worker(&served.name, lease.worker, lease.term).await;
        released.map_err(|error| self.refused(served, &error))
    }

    async fn lend_window(&self, served: &Served, lease: LeaseId, terms: &Terms) -> Result<Loan, LendError> {
        let Terms { timed, tuned, now, ticks } = terms;
        let layout = &timed.layout;
        let from = layout.tick_of_clock(now.0);
        let ahead = from.saturating_add(AHEAD_MS_MAX / u64::from(layout.tick_ms()));
        let track = Track::of_worker(served.name.clone(), lease.worker);
        let ceiling = number(ahead.min(layout.ticks()));
        let reserved = self.pen.lend(&track, number(from), *ticks, ceiling).await;
        let reserved = reserved.map_err(|error| match error {
            LedgerError::Exhausted { .. } if ahead < layout.ticks() => {
                LendError::FarAhead { keyspace: served.name.clone(), worker: lease.worker }
            }
            error => self.refused(served, &error),
        })?;
        self.note_success();
        Ok(Loan {
            lease,
            region: timed.region,
            layout: layout.clone(),
            window: reserved.block.into(),
            ttl_ms: tuned.lease_ttl.0,
        })
    }

    /// What a loan is made on, if this node may make one.
    fn terms(&self, served: &Served, window_ms: u32) -> Result<Terms, LendError> {
        if served.is_recorded() {
            return Err(LendError::Recorded { keyspace: served.name.clone() });
        }
        self.refuse_unless_serving()?;
        let Some(timed) = served.timed() else {
            return Err(LendError::NoWorkers { keyspace: served.name.clone() });
        };
        if let Some(error) = timed.closed() {
            return Err(error.into());
        }
        if window_ms > WINDOW_MS_MAX {
            return Err(LendError::Window(window_ms));
        }
        let tuned = timed.tuned();
        // Read once: what was judged is what is used.
        let now = self.now();
        if let Some(by_ms) = self.clock_ahead(now, tuned.forward_max) {
            return Err(IssueError::ClockAhead { by_ms }.into());
        }
        let wanted_ms = match window_ms {
            0 => tuned.outage_budget.0.min(WINDOW_MS_MAX.into()),
            stated => stated.into(),
        };
        let ticks = NonZeroU64::new(wanted_ms / u64::from(timed.layout.tick_ms())).unwrap_or(NonZeroU64::MIN);
        Ok(Terms { timed: timed.clone(), tuned, now, ticks })
    }

    /// A node's leases end with the node, so a borrower must not pass for one.
    async fn check_holder(&self, holder: &str) -> Result<(), LendError> {
        let symbol = |b: u8| b.is_ascii_alphanumeric() || b"._-:/@".contains(&b);
        if holder.is_empty() || holder.len() > HOLDER_MAX || !holder.bytes().all(symbol) {
            return Err(LendError::Holder);
        }
        let nodes = self.ledger().nodes().await.map_err(|error| IssueError::from_ledger(&error))?;
        if nodes.iter().any(|node| node.name.as_str() == holder) {
            return Err(LendError::HolderIsNode);
        }
        Ok(())
    }

    fn refused(&self, served: &Served, error: &LedgerError) -> LendError {
        match error {
            LedgerError::LeaseLost { worker, .. } => {
                LendError::LeaseLost { keyspace: served.name.clone(), worker: *worker }
            }
            LedgerError::NoWorker { .. } | LedgerError::Exhausted { .. } => {
                IssueError::from_ledger(error).into()
            }
            _ => {
                self.note(error, "lend");
                IssueError::from_ledger(error).into()
            }
        }
    }
}

#[derive(Debug)]
struct Terms {
    timed: Arc<Timed>,
    tuned: Tuned,
    now: Timestamp,
    ticks: NonZeroU64,
}

/// Ticks are numbers of the ledger.
fn number(tick: u64) -> Number {
    Number::new(tick.min(NUMBER_MAX)).unwrap_or(Number::MAX)
}
