//! A node as tests see it: it counts its writes as a real one does, and remembers what it was granted.

use std::{collections::BTreeMap, num::NonZeroU64, sync::Arc};

use keymill_id::{Block, KeyspaceName, Number};

use crate::{
    HoleKind, Ledger, LedgerError, LedgerId, NodeName, NodeReport, Timestamp, Track, WitnessRow, WorkerId,
    ops::{self, GivenBack, Remembered, Reserved, Stamp, Withholding},
};

/// When every test begins.
pub const START: Timestamp = Timestamp(1_700_000_000_000);

pub fn number(number: u64) -> Number {
    Number::new(number).expect("tests stay in range")
}

pub fn name(name: &str) -> KeyspaceName {
    KeyspaceName::parse(name).expect("tests use good names")
}

/// `links`, or `events/17`.
pub fn track(track: &str) -> Track {
    track.parse().expect("tests use good names")
}

/// Promise 1, over everything that was granted: no number is in two of these blocks.
pub fn numbers_once(mut blocks: Vec<Block>) {
    blocks.sort_by_key(|block| block.start());
    for pair in blocks.windows(2) {
        assert!(pair[0].end() <= pair[1].start(), "{} and {} overlap", pair[0], pair[1]);
    }
}

#[derive(Debug, Clone)]
pub struct TestNode {
    pub ledger: Arc<dyn Ledger>,
    pub id: LedgerId,
    pub name: NodeName,
    pub epoch: u64,
    /// The last write the ledger acknowledged, and the last that was sent.
    pub acked: u64,
    pub sent: u64,
    /// What the node's clock says.
    pub at: Timestamp,
    /// The witness: what it was granted and made, and would have on its own disk.
    pub ends: BTreeMap<Track, Number>,
    pub holes: Vec<(Track, Number, HoleKind)>,
}

impl TestNode {
    /// Starts a node that remembers nothing.
    pub async fn start(ledger: Arc<dyn Ledger>, node: &str) -> Self {
        Self::try_start(ledger, node).await.expect("a fresh node is welcome")
    }

    pub async fn try_start(ledger: Arc<dyn Ledger>, node: &str) -> Result<Self, LedgerError> {
        let node = NodeName::parse(node).expect("tests use good names");
        let registration = ledger.register(Self::register_op(&node, None)).await?;
        Ok(Self {
            ledger,
            id: registration.ledger,
            name: node,
            epoch: registration.epoch,
            acked: registration.beat,
            sent: registration.beat,
            at: START,
            ends: BTreeMap::new(),
            holes: Vec::new(),
        })
    }

    /// Starts a node and creates keyspace `links`.
    pub async fn with_links(ledger: Arc<dyn Ledger>, node: &str) -> Self {
        let mut node = Self::start(ledger, node).await;
        node.create("links").await.expect("an empty ledger takes a keyspace");
        node
    }

    pub fn register_op(node: &NodeName, remembered: Option<Remembered>) -> ops::Register {
        ops::Register {
            node: node.clone(),
            remembered,
            region: None,
            report: NodeReport::default(),
            at: START,
        }
    }

    /// A new process of the same name on the same disk. On a refusal the old one stays as it was.
    pub async fn restart(&mut self) -> Result<(), LedgerError> {
        let register = Self::register_op(&self.name, Some(self.remembered()));
        let registration = self.ledger.register(register).await?;
        self.epoch = registration.epoch;
        self.acked = registration.beat;
        self.sent = registration.beat;
        Ok(())
    }

    pub fn remembered(&self) -> Remembered {
        Remembered {
            ledger: self.id.clone(),
            epoch: self.epoch,
            beat: self.acked,
            ends: self.ends.clone().into_iter().collect(),
        }
    }

    pub fn witness(&self) -> WitnessRow {
        WitnessRow {
            epoch: self.epoch,
            beat: self.acked,
            ends: self.ends.clone().into_iter().collect(),
            holes: self.holes.clone(),
        }
    }

    pub async fn report_witness(&self) -> Result<(), LedgerError> {
        let report = ops::ReportWitness { node: self.name.clone(), witness: self.witness() };
        self.ledger.report_witness(report).await
    }

    /// The stamp of the next write. Each is sent once, answered or not.
    pub fn stamp(&mut self) -> Stamp {
        self.sent += 1;
        Stamp { node: self.name.clone(), epoch: self.epoch, acked: self.acked, next: self.sent, at: self.at }
    }

    /// Only an answer acknowledges: a refused write left nothing behind, its count neither.
    pub fn note<A>(&mut self, beat: u64, answer: Result<A, LedgerError>) -> Result<A, LedgerError> {
        if answer.is_ok() {
            self.acked = self.acked.max(beat);
        }
        answer
    }

    pub fn reserve_op(&mut self, on: &str, count: u64) -> ops::Reserve {
        let track = track(on);
        ops::Reserve {
            stamp: self.stamp(),
            at_least: Number::ZERO,
            count: NonZeroU64::new(count).expect("a block holds at least one number"),
            ceiling: Number::MAX,
            witnessed: self.ends.get(&track).copied().unwrap_or_default(),
            track,
        }
    }

    pub async fn send_reserve(&mut self, op: ops::Reserve) -> Result<Reserved, LedgerError> {
        let (beat, track) = (op.stamp.next, op.track.clone());
        let answer = self.ledger.reserve(op).await;
        let reserved = self.note(beat, answer)?;
        self.ends.insert(track, reserved.block.end());
        Ok(reserved)
    }

    pub async fn reserve(&mut self, on: &str, count: u64) -> Result<Reserved, LedgerError> {
        let op = self.reserve_op(on, count);
        self.send_reserve(op).await
    }

    /// Reserves from `at_least` up and below `ceiling`.
    pub async fn reserve_between(
        &mut self,
        on: &str,
        at_least: u64,
        count: u64,
        ceiling: u64,
    ) -> Result<Reserved, LedgerError> {
        let mut op = self.reserve_op(on, count);
        op.at_least = number(at_least);
        op.ceiling = number(ceiling);
        self.send_reserve(op).await
    }

    pub fn give_back_op(&mut self, on: &str, from: u64, revision: u64) -> ops::GiveBack {
        ops::GiveBack { stamp: self.stamp(), track: track(on), from: number(from), revision }
    }

    /// As a real node does, it forgets the numbers before it sends them off: whatever the answer, they
    /// are not its own any more.
    pub async fn send_give_back(&mut self, op: ops::GiveBack) -> Result<GivenBack, LedgerError> {
        if let Some(end) = self.ends.get_mut(&op.track) {
            *end = op.from.min(*end);
        }
        let beat = op.stamp.next;
        let answer = self.ledger.give_back(op).await;
        self.note(beat, answer)
    }

    pub async fn give_back(&mut self, on: &str, from: u64, revision: u64) -> Result<GivenBack, LedgerError> {
        let op = self.give_back_op(on, from, revision);
        self.send_give_back(op).await
    }

    pub fn withhold_op(&mut self, on: &str, numbers: &[u64], kind: HoleKind) -> ops::Withhold {
        let numbers = numbers.iter().copied().map(number).collect();
        ops::Withhold { stamp: self.stamp(), track: track(on), numbers, kind }
    }

    pub async fn withhold(
        &mut self,
        on: &str,
        numbers: &[u64],
        kind: HoleKind,
    ) -> Result<Withholding, LedgerError> {
        let op = self.withhold_op(on, numbers, kind);
        let (beat, asked) = (op.stamp.next, op.numbers.clone());
        let answer = self.ledger.withhold(op).await;
        let answer = self.note(beat, answer)?;
        let made = asked.into_iter().zip(&answer.outcomes).filter(|(_, what)| **what == ops::Withheld::Made);
        self.holes.extend(made.map(|(number, _)| (track(on), number, kind)));
        Ok(answer)
    }

    pub fn create_op(&mut self, keyspace: &str) -> ops::CreateKeyspace {
        ops::CreateKeyspace {
            stamp: self.stamp(),
            name: name(keyspace),
            definition: format!(r#"{{"made_by":"{}"}}"#, self.name),
            fingerprint: format!("fingerprint of {}", self.name),
            tuning: serde_json::Map::new(),
            root: false,
            withheld: Vec::new(),
            limit: 1000,
        }
    }

    pub async fn send_create(
        &mut self,
        op: ops::CreateKeyspace,
    ) -> Result<ops::CreatedKeyspace, LedgerError> {
        let beat = op.stamp.next;
        let answer = self.ledger.create_keyspace(op).await;
        self.note(beat, answer)
    }

    pub async fn create(&mut self, keyspace: &str) -> Result<ops::CreatedKeyspace, LedgerError> {
        let op = self.create_op(keyspace);
        self.send_create(op).await
    }

    pub async fn heartbeat(&mut self, progress: Vec<ops::Progress>) -> Result<ops::Pulse, LedgerError> {
        let op = ops::Heartbeat { stamp: self.stamp(), report: NodeReport::default(), progress };
        let beat = op.stamp.next;
        let answer = self.ledger.heartbeat(op).await;
        self.note(beat, answer)
    }

    pub async fn stop(&mut self, settlements: Vec<ops::Settlement>) -> Result<(), LedgerError> {
        let op = ops::Stop { stamp: self.stamp(), progress: Vec::new(), settlements };
        let beat = op.stamp.next;
        let answer = self.ledger.stop(op).await;
        self.note(beat, answer)
    }

    /// Leases any of four workers of `events` for `holder`, for 200 ms.
    pub fn lease_op(&mut self, holder: &str) -> ops::LeaseWorker {
        ops::LeaseWorker {
            stamp: self.stamp(),
            keyspace: name("events"),
            holder: holder.to_owned(),
            wanted: None,
            capacity: 4,
            ttl_ms: 200,
            free_below: Number::ZERO,
        }
    }

    pub async fn send_lease(&mut self, op: ops::LeaseWorker) -> Result<ops::Lease, LedgerError> {
        let beat = op.stamp.next;
        let answer = self.ledger.lease_worker(op).await;
        self.note(beat, answer)
    }

    pub async fn lease(&mut self, holder: &str) -> Result<ops::Lease, LedgerError> {
        let op = self.lease_op(holder);
        self.send_lease(op).await
    }

    pub async fn renew(&mut self, worker: WorkerId, term: u64) -> Result<ops::Lease, LedgerError> {
        let keyspace = name("events");
        let op = ops::RenewWorker { stamp: self.stamp(), keyspace, worker, term, ttl_ms: 200 };
        let beat = op.stamp.next;
        let answer = self.ledger.renew_worker(op).await;
        self.note(beat, answer)
    }

    pub async fn release(&mut self, worker: WorkerId, term: u64) -> Result<(), LedgerError> {
        let op = ops::ReleaseWorker { stamp: self.stamp(), keyspace: name("events"), worker, term };
        let beat = op.stamp.next;
        let answer = self.ledger.release_worker(op).await;
        self.note(beat, answer)
    }
}
