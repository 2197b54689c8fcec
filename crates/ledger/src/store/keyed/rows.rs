//! The rows of one transaction: what it read, what it will write, and what must not change until then.
//!
//! Guarded are the head, nodes, tracks and leases, and the marks of lists that were read to choose from.
//! Everything else is changed only together with one of these: holes with their track, claims with their
//! node, keyspaces and tokens with the head. Nodes and tracks are listed by an operation that changes
//! something only while the ledger is halted, and then the guarded head keeps them as they are.

use std::collections::{BTreeMap, BTreeSet};

use keymill_id::{Block, KeyspaceName, Number};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Batch, Engine, Outcome, Stored, View,
    spelling::{self, Order, Span},
};
use crate::{
    ClaimRow, Head, HoleKind, KeyspaceRow, LeaseRow, LedgerError, NodeName, NodeRow, Rows, Timestamp,
    TokenRow, Track, TrackRow, WitnessRow, WorkerId,
};

#[derive(Debug)]
pub(super) struct KeyedRows<E: Engine> {
    view: E::View,
    /// What was read, absences too.
    read: BTreeMap<String, Option<Stored>>,
    /// Spans of which everything was read.
    whole: Vec<Span>,
    guarded: BTreeSet<String>,
    /// What will be written; `None` will be removed.
    written: BTreeMap<String, Option<String>>,
    /// Tracks one of whose holes was looked for.
    pub(super) looked_for_holes: BTreeSet<String>,
}

impl<E: Engine> KeyedRows<E> {
    pub(super) fn new(view: E::View) -> Self {
        Self {
            view,
            read: BTreeMap::new(),
            whole: Vec::new(),
            guarded: BTreeSet::new(),
            written: BTreeMap::new(),
            looked_for_holes: BTreeSet::new(),
        }
    }

    /// Whether there is a ledger. Rows without a head are the rest of one, and not the place for another.
    pub(super) async fn is_founded(&mut self) -> Result<bool, LedgerError> {
        if self.guarded::<Head>(spelling::HEAD).await?.is_some() {
            return Ok(true);
        }
        match self.list::<TrackRow>(&Span::under("track").up(1)).await?.pop() {
            None => Ok(false),
            Some((key, _)) => Err(corrupt::<E>(format!("its head is missing, but `{key}` is there"))),
        }
    }

    /// Asks the engine to apply what was written, or only whether what was read still stands.
    pub(super) async fn commit(self, keep: bool) -> Result<Outcome, LedgerError> {
        let version = |key: &String| self.read.get(key).and_then(Option::as_ref).map(|stored| stored.version);
        let guards = self.guarded.iter().map(|key| (key.clone(), version(key))).collect();
        let writes = if keep { self.written.into_iter().collect() } else { Vec::new() };
        self.view.commit(Batch { guards, writes }).await
    }

    pub(super) fn has_read(&self, key: &str) -> bool {
        self.written.contains_key(key) || self.read.contains_key(key)
    }

    /// A row that is changed only together with a guarded one.
    pub(super) async fn plain<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, LedgerError> {
        if !self.has_read(key) {
            self.look(key).await?;
        }
        self.now(key).map(|value| open::<E, T>(key, value)).transpose()
    }

    /// A row that nobody else may change before this transaction ends.
    pub(super) async fn guarded<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, LedgerError> {
        self.look(key).await?;
        self.guarded.insert(key.to_owned());
        self.now(key).map(|value| open::<E, T>(key, value)).transpose()
    }

    /// Reads a key from the engine, once.
    async fn look(&mut self, key: &str) -> Result<(), LedgerError> {
        if !self.read.contains_key(key) {
            let stored = self.view.get(key).await?;
            self.read.insert(key.to_owned(), stored);
        }
        Ok(())
    }

    /// The value under a key that was read or written, as it is for this transaction.
    fn now(&self, key: &str) -> Option<&str> {
        match self.written.get(key) {
            Some(written) => written.as_deref(),
            None => self.read.get(key)?.as_ref().map(|stored| stored.value.as_str()),
        }
    }

    pub(super) fn put(&mut self, key: String, row: &impl Serialize) {
        self.written.insert(key, Some(spelling::write(row)));
    }

    /// Removes a row; says whether it was there.
    pub(super) async fn remove(&mut self, key: &str) -> Result<bool, LedgerError> {
        self.look(key).await?;
        let was_there = self.now(key).is_some();
        if self.read.get(key).is_some_and(Option::is_some) {
            self.written.insert(key.to_owned(), None);
        } else {
            self.written.remove(key);
        }
        Ok(was_there)
    }

    pub(super) async fn list<T: DeserializeOwned>(
        &mut self,
        span: &Span,
    ) -> Result<Vec<(String, T)>, LedgerError> {
        self.fetch(span).await?;
        let (from, to) = (span.from.clone(), span.to.clone());
        let read = self.read.range(from.clone()..to.clone()).map(|(key, _)| key);
        let keys: BTreeSet<&String> = read.chain(self.written.range(from..to).map(|(key, _)| key)).collect();
        let found = keys.into_iter().filter_map(|key| Some((key, self.now(key)?)));
        let row = |(key, value): (&String, &str)| Ok((key.clone(), open::<E, T>(key, value)?));
        let limit = span.limit.unwrap_or(usize::MAX);
        match span.order {
            Order::Up => found.take(limit).map(row).collect(),
            Order::Down => found.rev().take(limit).map(row).collect(),
        }
    }

    /// Reads as many rows as `span` asks for, and for each that is removed here one more; unless all of them
    /// were read before.
    pub(super) async fn fetch(&mut self, span: &Span) -> Result<(), LedgerError> {
        if self.whole.iter().any(|whole| whole.from <= span.from && span.to <= whole.to) {
            return Ok(());
        }
        let removed = self.written.iter().filter(|(key, row)| row.is_none() && span.contains(key)).count();
        let limit = span.limit.map(|limit| limit.saturating_add(removed));
        let found = self.view.list(&Span { limit, ..span.clone() }).await?;
        if limit.is_none_or(|limit| found.len() < limit) {
            self.whole.push(span.clone());
        }
        for (key, stored) in found {
            // What was read first is what the guard compares.
            self.read.entry(key).or_insert(Some(stored));
        }
        Ok(())
    }

    async fn all<T: DeserializeOwned>(&mut self, prefix: &str) -> Result<Vec<T>, LedgerError> {
        Ok(self.list(&Span::under(prefix)).await?.into_iter().map(|(_, row)| row).collect())
    }
}

fn corrupt<E: Engine>(detail: String) -> LedgerError {
    LedgerError::Corrupt { store: E::NAME, detail }
}

fn open<E: Engine, T: DeserializeOwned>(key: &str, value: &str) -> Result<T, LedgerError> {
    spelling::read(key, value).map_err(corrupt::<E>)
}

impl<E: Engine> Rows for KeyedRows<E> {
    async fn incarnation(&mut self) -> Result<String, LedgerError> {
        self.view.incarnation().await
    }

    /// None of these engines tells the time.
    async fn clock(&mut self, host: Timestamp) -> Result<Timestamp, LedgerError> {
        Ok(host)
    }

    async fn head(&mut self) -> Result<Head, LedgerError> {
        let head = self.guarded(spelling::HEAD).await?;
        head.ok_or_else(|| corrupt::<E>("its head is missing".to_owned()))
    }

    async fn put_head(&mut self, row: &Head) -> Result<(), LedgerError> {
        self.put(spelling::HEAD.to_owned(), row);
        Ok(())
    }

    async fn node(&mut self, name: &NodeName) -> Result<Option<NodeRow>, LedgerError> {
        self.guarded(&spelling::node(name)).await
    }

    async fn put_node(&mut self, row: &NodeRow) -> Result<(), LedgerError> {
        self.put(spelling::node(&row.name), row);
        Ok(())
    }

    async fn nodes(&mut self) -> Result<Vec<NodeRow>, LedgerError> {
        self.all("node").await
    }

    async fn track(&mut self, track: &Track) -> Result<Option<TrackRow>, LedgerError> {
        self.guarded(&spelling::track(track)).await
    }

    async fn put_track(&mut self, track: &Track, row: &TrackRow) -> Result<(), LedgerError> {
        self.put(spelling::track(track), row);
        Ok(())
    }

    async fn tracks(&mut self) -> Result<Vec<(Track, TrackRow)>, LedgerError> {
        let named = |(key, row): (String, TrackRow)| {
            let track = spelling::track_of(&key);
            Ok((track.ok_or_else(|| corrupt::<E>(format!("`{key}` names no track")))?, row))
        };
        self.list(&Span::under("track")).await?.into_iter().map(named).collect()
    }

    async fn hole(&mut self, track: &Track, number: Number) -> Result<Option<HoleKind>, LedgerError> {
        self.find_hole(track, number).await
    }

    async fn holes(&mut self, track: &Track, block: Block) -> Result<Vec<Number>, LedgerError> {
        self.holes_inside(track, block).await
    }

    async fn put_hole(&mut self, track: &Track, number: Number, kind: HoleKind) -> Result<(), LedgerError> {
        self.make_hole(track, number, kind).await
    }

    async fn claim_at(&mut self, track: &Track, number: Number) -> Result<Option<ClaimRow>, LedgerError> {
        let claims = spelling::claims(track);
        let up_to = Span::under(&claims).ending(spelling::at(&claims, number.get() + 1)).down(1);
        Ok(self.list(&up_to).await?.pop().map(|(_, claim)| claim))
    }

    async fn claims(
        &mut self,
        track: &Track,
        before: Option<Number>,
        limit: usize,
    ) -> Result<Vec<ClaimRow>, LedgerError> {
        let claims = spelling::claims(track);
        let mut span = Span::under(&claims);
        if let Some(before) = before {
            span = span.ending(spelling::at(&claims, before.get()));
        }
        Ok(self.list(&span.down(limit)).await?.into_iter().map(|(_, claim)| claim).collect())
    }

    async fn open_claims(&mut self, node: &NodeName) -> Result<Vec<ClaimRow>, LedgerError> {
        self.all(&spelling::open_claims(node)).await
    }

    async fn put_claim(&mut self, row: &ClaimRow) -> Result<(), LedgerError> {
        self.write_claim(row).await
    }

    async fn remove_claim(&mut self, track: &Track, start: Number) -> Result<(), LedgerError> {
        self.drop_claim(track, start).await
    }

    async fn keyspace(&mut self, name: &KeyspaceName) -> Result<Option<KeyspaceRow>, LedgerError> {
        self.plain(&spelling::keyspace(name)).await
    }

    async fn put_keyspace(&mut self, row: &KeyspaceRow) -> Result<(), LedgerError> {
        self.put(spelling::keyspace(&row.name), row);
        Ok(())
    }

    async fn keyspaces(&mut self) -> Result<Vec<KeyspaceRow>, LedgerError> {
        self.all("keyspace").await
    }

    async fn leases(&mut self, keyspace: &KeyspaceName) -> Result<Vec<LeaseRow>, LedgerError> {
        self.guarded::<()>(spelling::LEASES).await?;
        self.all(&spelling::leases(keyspace)).await
    }

    async fn leases_of(&mut self, holder: &str) -> Result<Vec<LeaseRow>, LedgerError> {
        self.guarded::<()>(spelling::LEASES).await?;
        let mut leases: Vec<LeaseRow> = self.all("lease").await?;
        leases.retain(|lease| lease.holder == holder && !lease.released);
        Ok(leases)
    }

    async fn lease(
        &mut self,
        keyspace: &KeyspaceName,
        worker: WorkerId,
    ) -> Result<Option<LeaseRow>, LedgerError> {
        self.guarded(&spelling::lease(keyspace, worker)).await
    }

    async fn put_lease(&mut self, row: &LeaseRow) -> Result<(), LedgerError> {
        self.put(spelling::lease(&row.keyspace, row.worker), row);
        self.put(spelling::LEASES.to_owned(), &());
        Ok(())
    }

    async fn tokens(&mut self) -> Result<Vec<TokenRow>, LedgerError> {
        self.all("token").await
    }

    async fn put_token(&mut self, row: &TokenRow) -> Result<(), LedgerError> {
        self.put(spelling::token(&row.id), row);
        Ok(())
    }

    async fn remove_token(&mut self, id: &str) -> Result<bool, LedgerError> {
        self.remove(&spelling::token(id)).await
    }

    async fn witnesses(&mut self) -> Result<Vec<(NodeName, WitnessRow)>, LedgerError> {
        self.guarded::<()>(spelling::WITNESSES).await?;
        let named = |(key, row): (String, WitnessRow)| {
            let node = spelling::node_of(&key);
            Ok((node.ok_or_else(|| corrupt::<E>(format!("`{key}` names no node")))?, row))
        };
        self.list(&Span::under("witness")).await?.into_iter().map(named).collect()
    }

    async fn put_witness(&mut self, node: &NodeName, row: &WitnessRow) -> Result<(), LedgerError> {
        self.put(spelling::witness(node), row);
        self.put(spelling::WITNESSES.to_owned(), &());
        Ok(())
    }

    async fn clear_witnesses(&mut self) -> Result<(), LedgerError> {
        for (node, _) in self.witnesses().await? {
            self.remove(&spelling::witness(&node)).await?;
        }
        self.put(spelling::WITNESSES.to_owned(), &());
        Ok(())
    }
}
