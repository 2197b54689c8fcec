//! What no real engine can be made to show in reasonable time: limits that are out of reach, and races that
//! are lost on purpose. The engine is a map.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::*;
use crate::{
    ClaimState, Ledger, LedgerId, Tls,
    conformance::{START, TestNode, number},
    ops,
};

type Map = Arc<Mutex<BTreeMap<String, Stored>>>;

#[derive(Debug, Default)]
struct Mapped {
    map: Map,
    /// Commits to come that somebody else gets in before.
    overtaken: Arc<AtomicU64>,
}

impl Engine for Mapped {
    type View = MappedView;

    const NAME: &'static str = "mapped";
    const GRADE: Grade = Grade::Strict;
    const HOLES_MAX: Option<u64> = None;
    const CLAIMS_MAX: u64 = 4;

    async fn view(&self) -> Result<MappedView, LedgerError> {
        Ok(MappedView { map: self.map.clone(), overtaken: self.overtaken.clone() })
    }
}

#[derive(Debug)]
struct MappedView {
    map: Map,
    overtaken: Arc<AtomicU64>,
}

impl View for MappedView {
    async fn incarnation(&mut self) -> Result<String, LedgerError> {
        Ok("mapped".to_owned())
    }

    async fn get(&mut self, key: &str) -> Result<Option<Stored>, LedgerError> {
        Ok(self.map.lock().unwrap().get(key).cloned())
    }

    async fn list(&mut self, span: &Span) -> Result<Vec<(String, Stored)>, LedgerError> {
        let map = self.map.lock().unwrap();
        let found =
            map.range(span.from.clone()..span.to.clone()).map(|(key, row)| (key.clone(), row.clone()));
        let limit = span.limit.unwrap_or(usize::MAX);
        Ok(match span.order {
            Order::Up => found.take(limit).collect(),
            Order::Down => found.rev().take(limit).collect(),
        })
    }

    async fn commit(self, batch: Batch) -> Result<Outcome, LedgerError> {
        let mut map = self.map.lock().unwrap();
        if self.overtaken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
            return Ok(Outcome::Conflict);
        }
        if batch.guards.iter().any(|(key, version)| map.get(key).map(|row| row.version) != *version) {
            return Ok(Outcome::Conflict);
        }
        for (key, value) in batch.writes {
            match value {
                Some(value) => {
                    let version = map.get(&key).map_or(0, |row| row.version + 1);
                    map.insert(key, Stored { value, version });
                }
                None => drop(map.remove(&key)),
            }
        }
        Ok(Outcome::Committed)
    }
}

fn open() -> Arc<Keyed<Mapped>> {
    let options = StoreOptions {
        lossy_accepted: false,
        migrate: true,
        timeout: Duration::from_secs(20),
        tls: Tls::default(),
        create: true,
        new_id: LedgerId("test".to_owned()),
        at: START,
    };
    Arc::new(Keyed::on(Mapped::default(), options))
}

#[tokio::test]
async fn the_oldest_claims_fold_into_one() {
    let store = open();
    let [mut a, mut b] = [TestNode::with_links(store.clone(), "a").await, TestNode::start(store, "b").await];
    // Turns, so that no block extends the claim before it; each block is used up at once.
    for turn in 0..20_u64 {
        let node = if turn % 2 == 0 { &mut a } else { &mut b };
        let block = node.reserve("links", 10).await.unwrap().block;
        let used = ops::Progress {
            track: "links".parse().unwrap(),
            issued_up_to: block.end(),
            issued: 10,
            burned: 0,
            last_issued_at: START,
        };
        node.heartbeat(vec![used]).await.unwrap();
    }
    let claims = a.claims("links").await;
    assert_eq!(claims.len(), 4, "no more are kept: {claims:?}");
    let oldest = claims.last().unwrap();
    assert_eq!((oldest.start, oldest.end), (number(0), number(170)), "and nothing has fallen out");
    assert_eq!((oldest.state, oldest.issued_up_to), (ClaimState::Lost, number(0)), "its keys are uncertain");
    assert_eq!(a.claim("links", 95).await.unwrap().start, number(0));
    assert_eq!(a.row("links").await.issued, 200, "sums are kept apart");
}

#[tokio::test]
async fn an_operation_that_was_overtaken_runs_again_on_what_is_there_then() {
    let store = open();
    let mut a = TestNode::with_links(store.clone(), "a").await;
    store.engine.overtaken.store(5, Ordering::Relaxed);
    assert_eq!(a.reserve("links", 10).await.unwrap().block.start(), number(0), "nothing was written before");
    store.engine.overtaken.store(u64::MAX, Ordering::Relaxed);
    let given_up = a.reserve("links", 10).await;
    assert!(matches!(given_up, Err(LedgerError::Unavailable { .. })), "{given_up:?}");
    store.engine.overtaken.store(0, Ordering::Relaxed);
    assert_eq!(a.reserve("links", 10).await.unwrap().block.start(), number(10));
}

#[tokio::test]
async fn what_is_left_of_a_ledger_is_not_founded_anew() {
    let store = open();
    TestNode::with_links(store.clone(), "a").await;
    let rest = open();
    store.engine.map.lock().unwrap().remove("head");
    rest.engine.map.lock().unwrap().clone_from(&store.engine.map.lock().unwrap());
    let refused = rest.tracks().await;
    assert!(matches!(refused, Err(LedgerError::Corrupt { .. })), "{refused:?}");
}
