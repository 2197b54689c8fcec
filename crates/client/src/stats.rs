//! What a client has done so far, as numbers.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::breaker::BreakerState;

/// A count that only rises.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.count().fmt(f)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub calls: Counter,
    pub retries: Counter,
    pub retries_denied: Counter,
    pub refills: Counter,
    pub refills_failed: Counter,
    pub keys_fetched: Counter,
    pub keys_burned: Counter,
    pub workers_leased: Counter,
    pub lease_renewals: Counter,
    pub leases_lost: Counter,
}

/// What [`Client::stats`](crate::Client::stats) shows: counts since the client was built.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls to the servers, however many attempts each took.
    pub calls: u64,
    /// Attempts beyond the first of a call.
    pub retries: u64,
    /// Retries that the budget did not allow.
    pub retries_denied: u64,
    /// Times that a cache was filled.
    pub refills: u64,
    /// Times that it could not be.
    pub refills_failed: u64,
    /// Keys that the servers sent.
    pub keys_fetched: u64,
    /// Keys that were closed away, or that came to a caller who had given up.
    pub keys_burned: u64,
    /// Workers leased to make IDs.
    pub workers_leased: u64,
    /// Windows lent after the first.
    pub lease_renewals: u64,
    /// Leases that ended without our doing.
    pub leases_lost: u64,
    /// In the order they were given.
    pub endpoints: Vec<EndpointStats>,
}

/// What became of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    pub address: Arc<str>,
    /// Attempts that went there.
    pub attempts: u64,
    pub breaker: BreakerState,
    /// How often its breaker opened, and closed again.
    pub breaker_opened: u64,
    pub breaker_closed: u64,
}

impl Counters {
    pub(crate) fn show(&self, endpoints: Vec<EndpointStats>) -> Stats {
        Stats {
            calls: self.calls.count(),
            retries: self.retries.count(),
            retries_denied: self.retries_denied.count(),
            refills: self.refills.count(),
            refills_failed: self.refills_failed.count(),
            keys_fetched: self.keys_fetched.count(),
            keys_burned: self.keys_burned.count(),
            workers_leased: self.workers_leased.count(),
            lease_renewals: self.lease_renewals.count(),
            leases_lost: self.leases_lost.count(),
            endpoints,
        }
    }
}
