//! Stores that misbehave on purpose. A fault is a store like any other: wrap one around a good store
//! and everything above it can be tested against what networks and disks really do.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::Store;
use crate::{Grade, LedgerError, Timestamp, ops::Operation};

/// When a fault strikes: at the n-th matching call, at every k-th, or at all after the n-th.
#[derive(Debug, Clone, Copy)]
pub enum When {
    Never,
    Nth(u64),
    Every(u64),
    After(u64),
}

/// A counter of calls to one operation (or to any), and when to strike.
#[derive(Debug)]
pub struct Strike {
    when: When,
    /// `None`: any write.
    operation: Option<&'static str>,
    calls: AtomicU64,
}

impl Strike {
    pub fn on(operation: Option<&'static str>, when: When) -> Self {
        Self { when, operation, calls: AtomicU64::new(0) }
    }

    fn strikes<O: Operation>(&self) -> bool {
        if O::READS_ONLY || self.operation.is_some_and(|name| name != O::NAME) {
            return false;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        match self.when {
            When::Never => false,
            When::Nth(nth) => call == nth,
            When::Every(every) => call.is_multiple_of(every),
            When::After(calls) => call > calls,
        }
    }
}

/// Commits, then forgets to say so.
#[derive(Debug)]
pub struct LosesReplies<S> {
    pub inner: S,
    pub strike: Strike,
}

/// Fails before anything is done.
#[derive(Debug)]
pub struct Fails<S> {
    pub inner: S,
    pub strike: Strike,
}

/// Takes its time, before and after the commit.
#[derive(Debug)]
pub struct Slow<S> {
    pub inner: S,
    pub strike: Strike,
    pub delay: Duration,
}

fn lost<O: Operation>(store: &'static str, what: &'static str) -> LedgerError {
    LedgerError::Unavailable { store, operation: O::NAME, source: what.into() }
}

impl<S: Store> Store for LosesReplies<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn grade(&self) -> Grade {
        self.inner.grade()
    }
    fn keeps_time(&self) -> bool {
        self.inner.keeps_time()
    }
    async fn transact<O: Operation>(&self, op: O) -> Result<O::Answer, LedgerError> {
        let answer = self.inner.transact(op).await;
        if self.strike.strikes::<O>() {
            return Err(lost::<O>(self.name(), "the reply was lost after the commit"));
        }
        answer
    }
    async fn backup(&self, to: &Path, at: Timestamp) -> Result<(), LedgerError> {
        self.inner.backup(to, at).await
    }
}

impl<S: Store> Store for Fails<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn grade(&self) -> Grade {
        self.inner.grade()
    }
    fn keeps_time(&self) -> bool {
        self.inner.keeps_time()
    }
    async fn transact<O: Operation>(&self, op: O) -> Result<O::Answer, LedgerError> {
        if self.strike.strikes::<O>() {
            return Err(lost::<O>(self.name(), "the call was refused before it did anything"));
        }
        self.inner.transact(op).await
    }
    async fn backup(&self, to: &Path, at: Timestamp) -> Result<(), LedgerError> {
        self.inner.backup(to, at).await
    }
}

impl<S: Store> Store for Slow<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn grade(&self) -> Grade {
        self.inner.grade()
    }
    fn keeps_time(&self) -> bool {
        self.inner.keeps_time()
    }
    async fn transact<O: Operation>(&self, op: O) -> Result<O::Answer, LedgerError> {
        let slow = self.strike.strikes::<O>();
        if slow {
            tokio::time::sleep(self.delay).await;
        }
        let answer = self.inner.transact(op).await;
        if slow {
            tokio::time::sleep(self.delay).await;
        }
        answer
    }
    async fn backup(&self, to: &Path, at: Timestamp) -> Result<(), LedgerError> {
        self.inner.backup(to, at).await
    }
}
