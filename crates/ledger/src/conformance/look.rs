//! What tests read to see what a write has done.

use super::{START, TestNode, name, number, track};
use crate::{ClaimRow, Head, HoleKind, KeyspaceRow, LeaseRow, NodeRow, TrackRow, ops};

impl TestNode {
    pub async fn row(&self, on: &str) -> TrackRow {
        let row = self.ledger.track(ops::TrackAt { track: track(on) }).await.expect("reads work");
        row.unwrap_or_else(|| panic!("track `{on}` is missing"))
    }

    pub async fn head(&self) -> Head {
        self.ledger.survey(ops::Survey { at: START }).await.expect("reads work").head
    }

    pub async fn node_row(&self) -> NodeRow {
        let rows = self.ledger.nodes().await.expect("reads work");
        rows.into_iter().find(|row| row.name == self.name).expect("it has registered")
    }

    pub async fn hole(&self, on: &str, at: u64) -> Option<HoleKind> {
        self.ledger.hole(ops::HoleAt { track: track(on), number: number(at) }).await.expect("reads work")
    }

    pub async fn claim(&self, on: &str, at: u64) -> Option<ClaimRow> {
        self.ledger.claim(ops::ClaimAt { track: track(on), number: number(at) }).await.expect("reads work")
    }

    /// From the newest numbers down.
    pub async fn claims(&self, on: &str) -> Vec<ClaimRow> {
        let all = ops::Claims { track: track(on), before: None, limit: 1000 };
        self.ledger.claims(all).await.expect("reads work")
    }

    pub async fn keyspace(&self, keyspace: &str) -> Option<KeyspaceRow> {
        self.ledger.keyspace(ops::Keyspace { name: name(keyspace) }).await.expect("reads work")
    }

    /// By worker.
    pub async fn leases(&self, keyspace: &str) -> Vec<LeaseRow> {
        let mut leases =
            self.ledger.workers(ops::Workers { keyspace: name(keyspace) }).await.expect("reads work");
        leases.sort_by_key(|lease| lease.worker);
        leases
    }
}
