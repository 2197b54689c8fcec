//! A ledger in memory, for tests and models. It can be sent back in time, which is its point; the
//! server refuses it, because a restart would repeat keys.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Mutex, MutexGuard},
};

use keymill_id::{Block, KeyspaceName, Number};

use super::{Store, first_head, run_now};
use crate::{
    ClaimRow, ClaimState, Grade, Head, HoleKind, KeyspaceRow, LeaseRow, LedgerError, LedgerId, NodeName,
    NodeRow, Rows, Timestamp, TokenRow, Track, TrackRow, WitnessRow, WorkerId, ops::Operation,
};

#[derive(Debug)]
pub struct MemoryStore {
    grade: Grade,
    state: Mutex<MemoryRows>,
}

/// All rows, at one moment.
#[derive(Debug, Clone)]
pub struct MemoryRows {
    incarnation: String,
    head: Head,
    nodes: BTreeMap<NodeName, NodeRow>,
    tracks: BTreeMap<Track, TrackRow>,
    holes: BTreeMap<(Track, Number), HoleKind>,
    claims: BTreeMap<(Track, Number), ClaimRow>,
    keyspaces: BTreeMap<KeyspaceName, KeyspaceRow>,
    leases: BTreeMap<(KeyspaceName, WorkerId), LeaseRow>,
    tokens: BTreeMap<String, TokenRow>,
    witnesses: BTreeMap<NodeName, WitnessRow>,
}

impl MemoryStore {
    /// Stands for an engine that keeps its word, until a test sends it back.
    pub fn new(id: &str) -> Self {
        Self::graded(id, Grade::Strict)
    }

    /// Stands for an engine that may forget what it acknowledged.
    pub fn lossy(id: &str) -> Self {
        Self::graded(id, Grade::Lossy)
    }

    fn graded(id: &str, grade: Grade) -> Self {
        let incarnation = "memory-1".to_owned();
        Self {
            grade,
            state: Mutex::new(MemoryRows {
                head: first_head(LedgerId(id.to_owned()), incarnation.clone(), Timestamp(0)),
                incarnation,
                nodes: BTreeMap::new(),
                tracks: BTreeMap::new(),
                holes: BTreeMap::new(),
                claims: BTreeMap::new(),
                keyspaces: BTreeMap::new(),
                leases: BTreeMap::new(),
                tokens: BTreeMap::new(),
                witnesses: BTreeMap::new(),
            }),
        }
    }

    /// A copy of everything, as a backup would be.
    pub fn snapshot(&self) -> MemoryRows {
        self.rows().clone()
    }

    /// What a failover to a lagging standby does, or a restored copy.
    pub fn rewind(&self, to: MemoryRows) {
        *self.rows() = to;
    }

    /// What a failover looks like from outside.
    pub fn change_incarnation(&self, to: &str) {
        to.clone_into(&mut self.rows().incarnation);
    }

    fn rows(&self) -> MutexGuard<'_, MemoryRows> {
        self.state.lock().expect("an operation panicked, and its ledger is not to be trusted")
    }
}

impl Store for MemoryStore {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn grade(&self) -> Grade {
        self.grade
    }

    fn keeps_time(&self) -> bool {
        false
    }

    async fn transact<O: Operation>(&self, op: O) -> Result<O::Answer, LedgerError> {
        let mut rows = self.rows();
        let before = rows.clone();
        let answer = run_now(op.run(&mut *rows));
        if answer.as_ref().is_err_and(|error| !error.commits()) {
            *rows = before;
        }
        answer
    }

    async fn backup(&self, _to: &Path, _at: Timestamp) -> Result<(), LedgerError> {
        Err(LedgerError::Unsupported { store: "memory", operation: "backup" })
    }
}

impl Rows for MemoryRows {
    async fn incarnation(&mut self) -> Result<String, LedgerError> {
        Ok(self.incarnation.clone())
    }

    async fn clock(&mut self, host: Timestamp) -> Result<Timestamp, LedgerError> {
        Ok(host)
    }

    async fn head(&mut self) -> Result<Head, LedgerError> {
        Ok(self.head.clone())
    }

    async fn put_head(&mut self, row: &Head) -> Result<(), LedgerError> {
        self.head = row.clone();
        Ok(())
    }

    async fn node(&mut self, name: &NodeName) -> Result<Option<NodeRow>, LedgerError> {
        Ok(self.nodes.get(name).cloned())
    }

    async fn put_node(&mut self, row: &NodeRow) -> Result<(), LedgerError> {
        self.nodes.insert(row.name.clone(), row.clone());
        Ok(())
    }

    async fn nodes(&mut self) -> Result<Vec<NodeRow>, LedgerError> {
        Ok(self.nodes.values().cloned().collect())
    }

    async fn track(&mut self, track: &Track) -> Result<Option<TrackRow>, LedgerError> {
        Ok(self.tracks.get(track).copied())
    }

    async fn put_track(&mut self, track: &Track, row: &TrackRow) -> Result<(), LedgerError> {
        self.tracks.insert(track.clone(), *row);
        Ok(())
    }

    async fn tracks(&mut self) -> Result<Vec<(Track, TrackRow)>, LedgerError> {
        Ok(self.tracks.iter().map(|(track, row)| (track.clone(), *row)).collect())
    }

    async fn hole(&mut self, track: &Track, number: Number) -> Result<Option<HoleKind>, LedgerError> {
        Ok(self.holes.get(&(track.clone(), number)).copied())
    }

    async fn holes(&mut self, track: &Track, block: Block) -> Result<Vec<Number>, LedgerError> {
        let range = (track.clone(), block.start())..(track.clone(), block.end());
        Ok(self.holes.range(range).map(|((_, number), _)| *number).collect())
    }

    async fn put_hole(&mut self, track: &Track, number: Number, kind: HoleKind) -> Result<(), LedgerError> {
        self.holes.insert((track.clone(), number), kind);
        Ok(())
    }

    async fn claim_at(&mut self, track: &Track, number: Number) -> Result<Option<ClaimRow>, LedgerError> {
        let range = (track.clone(), Number::ZERO)..=(track.clone(), number);
        Ok(self.claims.range(range).next_back().map(|(_, claim)| claim.clone()))
    }

    async fn claims(
        &mut self,
        track: &Track,
        before: Option<Number>,
        limit: usize,
    ) -> Result<Vec<ClaimRow>, LedgerError> {
        let range = (track.clone(), Number::ZERO)..=(track.clone(), Number::MAX);
        let below = |claim: &&ClaimRow| before.is_none_or(|before| claim.start < before);
        Ok(self
            .claims
            .range(range)
            .rev()
            .map(|(_, claim)| claim)
            .filter(below)
            .take(limit)
            .cloned()
            .collect())
    }

    async fn open_claims(&mut self, node: &NodeName) -> Result<Vec<ClaimRow>, LedgerError> {
        let open = |claim: &&ClaimRow| {
            claim.node == *node && claim.state == ClaimState::Open && claim.issued_up_to < claim.end
        };
        Ok(self.claims.values().filter(open).cloned().collect())
    }

    async fn put_claim(&mut self, row: &ClaimRow) -> Result<(), LedgerError> {
        self.claims.insert((row.track.clone(), row.start), row.clone());
        Ok(())
    }

    async fn remove_claim(&mut self, track: &Track, start: Number) -> Result<(), LedgerError> {
        self.claims.remove(&(track.clone(), start));
        Ok(())
    }

    async fn keyspace(&mut self, name: &KeyspaceName) -> Result<Option<KeyspaceRow>, LedgerError> {
        Ok(self.keyspaces.get(name).cloned())
    }

    async fn put_keyspace(&mut self, row: &KeyspaceRow) -> Result<(), LedgerError> {
        self.keyspaces.insert(row.name.clone(), row.clone());
        Ok(())
    }

    async fn keyspaces(&mut self) -> Result<Vec<KeyspaceRow>, LedgerError> {
        Ok(self.keyspaces.values().cloned().collect())
    }

    async fn leases(&mut self, keyspace: &KeyspaceName) -> Result<Vec<LeaseRow>, LedgerError> {
        Ok(self.leases.values().filter(|lease| lease.keyspace == *keyspace).cloned().collect())
    }

    async fn leases_of(&mut self, holder: &str) -> Result<Vec<LeaseRow>, LedgerError> {
        let held = |lease: &&LeaseRow| lease.holder == holder && !lease.released;
        Ok(self.leases.values().filter(held).cloned().collect())
    }

    async fn lease(
        &mut self,
        keyspace: &KeyspaceName,
        worker: WorkerId,
    ) -> Result<Option<LeaseRow>, LedgerError> {
        Ok(self.leases.get(&(keyspace.clone(), worker)).cloned())
    }

    async fn put_lease(&mut self, row: &LeaseRow) -> Result<(), LedgerError> {
        self.leases.insert((row.keyspace.clone(), row.worker), row.clone());
        Ok(())
    }

    async fn tokens(&mut self) -> Result<Vec<TokenRow>, LedgerError> {
        Ok(self.tokens.values().cloned().collect())
    }

    async fn put_token(&mut self, row: &TokenRow) -> Result<(), LedgerError> {
        self.tokens.insert(row.id.clone(), row.clone());
        Ok(())
    }

    async fn remove_token(&mut self, id: &str) -> Result<bool, LedgerError> {
        Ok(self.tokens.remove(id).is_some())
    }

    async fn witnesses(&mut self) -> Result<Vec<(NodeName, WitnessRow)>, LedgerError> {
        Ok(self.witnesses.iter().map(|(node, row)| (node.clone(), row.clone())).collect())
    }

    async fn put_witness(&mut self, node: &NodeName, row: &WitnessRow) -> Result<(), LedgerError> {
        self.witnesses.insert(node.clone(), row.clone());
        Ok(())
    }

    async fn clear_witnesses(&mut self) -> Result<(), LedgerError> {
        self.witnesses.clear();
        Ok(())
    }
}
