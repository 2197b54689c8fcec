//! Requests as most tests make them, and crowds that make them at once.

use std::future::Future;

use tokio::task::JoinSet;

use super::Bench;
use crate::{Attempt, Bind, Claim, Derive, Kind, NewReference, Receipt, Registry, Visits};

/// The keyspace of most tests.
pub const KS: &str = "links";
/// When most things happen.
pub const NOW: i64 = 1_790_000_000_000;
pub const HOUR: i64 = 3_600_000;

pub fn claim(name: &str) -> Claim {
    Claim { keyspace: KS.to_owned(), name: name.to_owned(), skeleton: None, at_ms: NOW, receipt: None }
}

pub fn bind(name: &str, target: &str) -> Bind {
    Bind {
        keyspace: KS.to_owned(),
        name: name.to_owned(),
        kind: Kind::Issued,
        target: target.to_owned(),
        owner: None,
        expires_at_ms: None,
        at_ms: NOW,
        skeleton: None,
        only_new: false,
        receipt: None,
    }
}

pub fn derive(identity: &str, candidates: &[&str]) -> Derive {
    Derive {
        keyspace: KS.to_owned(),
        identity: identity.to_owned(),
        candidates: candidates.iter().map(|&candidate| candidate.to_owned()).collect(),
        target: Some(format!("https://example.com/{identity}")),
        owner: None,
        expires_at_ms: None,
        at_ms: NOW,
        receipt: None,
    }
}

pub fn refer(reference: &str, key: &str) -> NewReference {
    NewReference {
        keyspace: KS.to_owned(),
        owner: None,
        reference: reference.to_owned(),
        key: key.to_owned(),
        at_ms: NOW,
        receipt: None,
    }
}

/// An attempt that is locked for a minute and kept for a day.
pub fn attempt(scope: &str, attempt: &str) -> Attempt {
    Attempt {
        scope: scope.to_owned(),
        attempt: attempt.to_owned(),
        body_hash: "body".to_owned(),
        at_ms: NOW,
        lock_until_ms: NOW + 60_000,
        until_ms: NOW + 24 * HOUR,
    }
}

pub fn receipt(scope: &str, attempt: &str, answer: &str) -> Receipt {
    Receipt {
        scope: scope.to_owned(),
        attempt: attempt.to_owned(),
        answer: answer.to_owned(),
        until_ms: NOW + 24 * HOUR,
    }
}

/// Adds visits as who counts them does.
pub async fn visit(registry: &Registry, visits: Vec<Visits>) {
    let sums = registry.sum_visits(visits).await.unwrap();
    registry.add_visits(sums).await.unwrap();
}

/// What `count` callers are answered who ask at once, on four handles.
pub async fn at_once<B, A, F>(bench: &B, count: usize, ask: impl Fn(Registry, usize) -> F) -> Vec<A>
where
    B: Bench,
    A: Send + 'static,
    F: Future<Output = A> + Send + 'static,
{
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(bench.registry().await);
    }
    let mut tasks = JoinSet::new();
    for (caller, handle) in (0..count).zip(handles.iter().cycle()) {
        tasks.spawn(ask(handle.clone(), caller));
    }
    tasks.join_all().await
}
