//! The node's one pen: every write in the ledger goes through it, one at a time, with its beat.
//!
//! Whatever a write grants is in the witness, on the disk, before this file returns it. A write whose
//! outcome nobody knows is over: its numbers are burned, and the next write takes the next beat.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    num::NonZeroU64,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keymill_id::{KeyspaceName, Number};
use keymill_ledger::{
    HoleKind, KeyspaceRow, Ledger, LedgerError, NodeName, NodeReport, Timestamp, TokenRow, Track, WorkerId,
    ops::{
        CreateKeyspace, CreatedKeyspace, GiveBack, GivenBack, Heartbeat, Lease, LeaseWorker, Progress, Pulse,
        PutToken, Register, Registration, ReleaseWorker, RenewWorker, ReportWitness, Reserve, Reserved,
        RetireKeyspace, RevokeToken, Settlement, Stamp, Stop, TuneKeyspace, Withheld, Withhold, Withholding,
    },
};

use crate::{
    breaker::Breaker,
    clock::Clock,
    refill::chance,
    stock::Offer,
    witness::{Memory, Witness, WitnessError},
};

#[derive(Debug)]
pub struct Pen {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    node: NodeName,
    region: Option<u16>,
    /// How long a write may take before its outcome counts as unknown.
    timeout: Duration,
    beats: tokio::sync::Mutex<Beats>,
    witness: Arc<Mutex<Witness>>,
    /// Per track, our last blocks of this life that lie end to end.
    runs: Mutex<HashMap<Track, Run>>,
    /// Tracks on which a window was lent in this life: nothing on them goes back.
    lent: Arc<Mutex<HashSet<Track>>>,
    /// When the ledger last answered a write, in milliseconds; 0: never.
    answered_at: AtomicU64,
}

/// Blocks end to end, and what we were granted before them.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: Number,
    before: Number,
}

/// Where this process is in its count of writes.
#[derive(Debug, Default)]
struct Beats {
    epoch: u64,
    acked: u64,
    sent: u64,
    breaker: Breaker,
}

/// Sent whatever was not answered before: there is no later time for them.
const LAST_WORDS: [&str; 2] = ["give_back", "stop"];

impl From<WitnessError> for LedgerError {
    fn from(error: WitnessError) -> Self {
        match error {
            WitnessError::Write { .. } => {
                Self::Unavailable { store: "witness", operation: "append", source: error.into() }
            }
            _ => Self::Broken { store: "witness", detail: error.to_string() },
        }
    }
}

impl Pen {
    pub fn new(
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        node: NodeName,
        region: Option<u16>,
        timeout: Duration,
        witness: Witness,
    ) -> Self {
        let witness = Arc::new(Mutex::new(witness));
        Self {
            ledger,
            clock,
            node,
            region,
            timeout,
            beats: tokio::sync::Mutex::default(),
            witness,
            runs: Mutex::default(),
            lent: Arc::default(),
            answered_at: AtomicU64::new(0),
        }
    }

    pub fn node(&self) -> &NodeName {
        &self.node
    }

    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.ledger
    }

    /// When the ledger last answered a write of ours.
    pub fn answered_at(&self) -> Option<Timestamp> {
        Some(self.answered_at.load(Ordering::Relaxed)).filter(|at| *at > 0).map(Timestamp)
    }

    /// Whether we remember any ledger.
    pub fn remembers(&self) -> bool {
        self.witness.lock().expect(UNBROKEN).memory().ledger.is_some()
    }

    /// Starts a life: shows the ledger what we remember, and fences our older self.
    pub async fn register(&self, report: NodeReport) -> Result<Registration, LedgerError> {
        let mut beats = self.beats.lock().await;
        let remembered = self.memory().remembered();
        let op = Register {
            node: self.node.clone(),
            remembered,
            region: self.region,
            report,
            at: self.clock.wall(),
        };
        let registration = self.within("register", self.ledger.register(op)).await?;
        self.runs.lock().expect(UNBROKEN).clear();
        *beats = Beats {
            epoch: registration.epoch,
            acked: registration.beat,
            sent: registration.beat,
            breaker: Breaker::default(),
        };
        let (node, known) = (self.node.clone(), registration.clone());
        self.remember(move |witness| witness.registered(&node, &known)).await?;
        Ok(registration)
    }

    /// Writes what we remember into a halted ledger, if we remember this ledger at all.
    pub async fn report_witness(&self) -> Result<(), LedgerError> {
        let memory = self.memory();
        if memory.ledger.is_none() {
            return Ok(());
        }
        let mut witness = memory.to_row();
        // Heartbeats are not in the witness, but a late write may carry what they were acknowledged for.
        let beats = self.beats.lock().await;
        if beats.epoch == witness.epoch {
            witness.beat = witness.beat.max(beats.acked);
        }
        drop(beats);
        let op = ReportWitness { node: self.node.clone(), witness };
        self.within("report_witness", self.ledger.report_witness(op)).await
    }

    pub async fn reserve(
        &self,
        track: &Track,
        at_least: Number,
        count: NonZeroU64,
        ceiling: Number,
    ) -> Result<Reserved, LedgerError> {
        let witnessed = self.witness.lock().expect(UNBROKEN).end(track);
        let op = |stamp| Reserve { stamp, track: track.clone(), at_least, count, ceiling, witnessed };
        let (reserved, beat) = self.write("reserve", |stamp| self.ledger.reserve(op(stamp))).await?;
        // The same fact, seen a second time: the ledger cannot have granted what we had before.
        if reserved.block.start() < witnessed {
            let detail = format!("it granted {} on `{track}`, below our {witnessed}", reserved.block);
            return Err(LedgerError::Corrupt { store: self.ledger.store(), detail });
        }
        if reserved.block.start() != witnessed {
            let run = Run { start: reserved.block.start(), before: witnessed };
            self.runs.lock().expect(UNBROKEN).insert(track.clone(), run);
        }
        let (track, end) = (track.clone(), reserved.block.end());
        self.remember(move |witness| witness.granted(&track, end, beat)).await?;
        Ok(reserved)
    }

    /// Reserves a window for someone outside. A give-back lowers the witness, and what was lent must stay in
    /// it: so from here on nothing on this track goes back, not even a window of our own.
    pub async fn lend(
        &self,
        track: &Track,
        at_least: Number,
        count: NonZeroU64,
        ceiling: Number,
    ) -> Result<Reserved, LedgerError> {
        self.lent.lock().expect(UNBROKEN).insert(track.clone());
        self.reserve(track, at_least, count, ceiling).await
    }

    /// Gives numbers back. From here on they are dead to us, whatever the answer.
    pub async fn give_back(&self, track: &Track, offer: Offer) -> Result<GivenBack, LedgerError> {
        let Offer { from, revision } = offer;
        // Lowered first: a crash after the give-back must not look like a ledger that went back. If a whole
        // run goes back, nothing of ours ends at its start: whoever reserves there may give back too, and
        // the cursor may fall further, down to what we were granted before.
        let run = self.runs.lock().expect(UNBROKEN).remove(track);
        let kept = run.filter(|run| from <= run.start).map_or(from, |run| run.before);
        let (lowered, lent) = (track.clone(), self.lent.clone());
        self.remember(move |witness| {
            // Asked while the witness is ours: a window that is lent meanwhile is written into it later.
            let lent = lent.lock().expect(UNBROKEN).contains(&lowered);
            if lent { Ok(()) } else { witness.granted(&lowered, kept, 0) }
        })
        .await?;
        if self.lent.lock().expect(UNBROKEN).contains(track) {
            return Ok(GivenBack::Burned);
        }
        let op = |stamp| GiveBack { stamp, track: track.clone(), from, revision };
        let (given, _) = self.write("give_back", |stamp| self.ledger.give_back(op(stamp))).await?;
        Ok(given)
    }

    pub async fn withhold(
        &self,
        track: &Track,
        numbers: Vec<Number>,
        kind: HoleKind,
    ) -> Result<Withholding, LedgerError> {
        let op = |stamp| Withhold { stamp, track: track.clone(), numbers: numbers.clone(), kind };
        let (withholding, beat) = self.write("withhold", |stamp| self.ledger.withhold(op(stamp))).await?;
        // Keys of an older system are too many to be remembered one by one, and are known outside: after a
        // restore they are imported again.
        if kind == HoleKind::Used {
            self.remember(move |witness| witness.acknowledged(beat)).await?;
            return Ok(withholding);
        }
        let track = track.clone();
        // A name that was there already may be granted to us, if the answer that told who made it was lost:
        // what is granted must be in some witness.
        let ours = |outcome: &Withheld| {
            *outcome == Withheld::Made
                || (kind == HoleKind::Alias && *outcome == Withheld::AlreadyThere(HoleKind::Alias))
        };
        let made: Vec<Number> = numbers
            .into_iter()
            .zip(&withholding.outcomes)
            .filter(|(_, outcome)| ours(outcome))
            .map(|(number, _)| number)
            .collect();
        self.remember(move |witness| witness.withheld(&track, made.into_iter(), kind, beat)).await?;
        Ok(withholding)
    }

    /// `op` makes the operation once its stamp is known.
    pub async fn create_keyspace(
        &self,
        op: impl FnOnce(Stamp) -> CreateKeyspace,
    ) -> Result<CreatedKeyspace, LedgerError> {
        let (created, beat) =
            self.write("create_keyspace", |stamp| self.ledger.create_keyspace(op(stamp))).await?;
        self.remember(move |witness| witness.acknowledged(beat)).await?;
        Ok(created)
    }

    pub async fn tune_keyspace(
        &self,
        name: &KeyspaceName,
        tuning: serde_json::Map<String, serde_json::Value>,
    ) -> Result<KeyspaceRow, LedgerError> {
        let op = |stamp| TuneKeyspace { stamp, name: name.clone(), tuning };
        Ok(self.write("tune_keyspace", |stamp| self.ledger.tune_keyspace(op(stamp))).await?.0)
    }

    pub async fn retire_keyspace(&self, name: &KeyspaceName) -> Result<KeyspaceRow, LedgerError> {
        let op = |stamp| RetireKeyspace { stamp, name: name.clone() };
        Ok(self.write("retire_keyspace", |stamp| self.ledger.retire_keyspace(op(stamp))).await?.0)
    }

    pub async fn put_token(&self, token: TokenRow) -> Result<(), LedgerError> {
        let op = |stamp| PutToken { stamp, token };
        self.write("put_token", |stamp| self.ledger.put_token(op(stamp))).await.map(|((), _)| ())
    }

    /// Says whether there was such a token.
    pub async fn revoke_token(&self, id: String) -> Result<bool, LedgerError> {
        let op = |stamp| RevokeToken { stamp, id };
        Ok(self.write("revoke_token", |stamp| self.ledger.revoke_token(op(stamp))).await?.0)
    }

    /// `op` makes the operation once its stamp is known. A lease grants no number, so the witness need not know.
    pub async fn lease_worker(&self, op: impl FnOnce(Stamp) -> LeaseWorker) -> Result<Lease, LedgerError> {
        Ok(self.write("lease_worker", |stamp| self.ledger.lease_worker(op(stamp))).await?.0)
    }

    pub async fn renew_worker(
        &self,
        keyspace: &KeyspaceName,
        worker: WorkerId,
        term: u64,
        ttl_ms: u64,
    ) -> Result<Lease, LedgerError> {
        let op = |stamp| RenewWorker { stamp, keyspace: keyspace.clone(), worker, term, ttl_ms };
        Ok(self.write("renew_worker", |stamp| self.ledger.renew_worker(op(stamp))).await?.0)
    }

    pub async fn release_worker(
        &self,
        keyspace: &KeyspaceName,
        worker: WorkerId,
        term: u64,
    ) -> Result<(), LedgerError> {
        let op = |stamp| ReleaseWorker { stamp, keyspace: keyspace.clone(), worker, term };
        self.write("release_worker", |stamp| self.ledger.release_worker(op(stamp))).await.map(|((), _)| ())
    }

    /// Not written into the witness: it grants nothing, so forgetting it loses nothing.
    pub async fn heartbeat(&self, report: NodeReport, progress: Vec<Progress>) -> Result<Pulse, LedgerError> {
        let op = |stamp| Heartbeat { stamp, report, progress };
        Ok(self.write("heartbeat", |stamp| self.ledger.heartbeat(op(stamp))).await?.0)
    }

    pub async fn stop(
        &self,
        progress: Vec<Progress>,
        settlements: Vec<Settlement>,
    ) -> Result<(), LedgerError> {
        let op = |stamp| Stop { stamp, progress, settlements };
        self.write("stop", |stamp| self.ledger.stop(op(stamp))).await.map(|((), _)| ())
    }

    pub async fn epoch(&self) -> u64 {
        self.beats.lock().await.epoch
    }

    /// One write: stamped, timed, counted. Returns the beat it was acknowledged under.
    async fn write<A, F>(
        &self,
        operation: &'static str,
        send: impl FnOnce(Stamp) -> F,
    ) -> Result<(A, u64), LedgerError>
    where
        F: Future<Output = Result<A, LedgerError>>,
    {
        let mut beats = self.beats.lock().await;
        if !LAST_WORDS.contains(&operation) {
            beats.breaker.admits(self.clock.elapsed()).map_err(|left| self.not_asked(operation, left))?;
        }
        // Counted before it is sent: if this future is dropped, the beat is gone and never sent again.
        beats.sent += 1;
        let next = beats.sent;
        let stamp = Stamp {
            node: self.node.clone(),
            epoch: beats.epoch,
            acked: beats.acked,
            next,
            at: self.clock.wall(),
        };
        let answer = self.within(operation, send(stamp)).await;
        match &answer {
            Err(LedgerError::Unavailable { .. }) => beats.breaker.failed(self.clock.elapsed(), chance()),
            _ => beats.breaker.answered(),
        }
        let answer = answer?;
        beats.acked = next;
        Ok((answer, next))
    }

    fn not_asked(&self, operation: &'static str, left: Duration) -> LedgerError {
        let source = format!("it did not answer several times in a row, and is asked again in {left:.1?}");
        LedgerError::Unavailable { store: self.ledger.store(), operation, source: source.into() }
    }

    async fn within<A>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<A, LedgerError>>,
    ) -> Result<A, LedgerError> {
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(answer) => {
                if answer.is_ok() {
                    self.answered_at.store(self.clock.wall().0, Ordering::Relaxed);
                }
                answer
            }
            Err(elapsed) => Err(LedgerError::Unavailable {
                store: self.ledger.store(),
                operation,
                source: elapsed.into(),
            }),
        }
    }

    /// Changes the witness off the runtime's threads, because it waits for the disk.
    async fn remember(
        &self,
        change: impl FnOnce(&mut Witness) -> Result<(), WitnessError> + Send + 'static,
    ) -> Result<(), LedgerError> {
        let witness = self.witness.clone();
        let changed = tokio::task::spawn_blocking(move || change(&mut witness.lock().expect(UNBROKEN)));
        let changed = changed
            .await
            .map_err(|error| LedgerError::Broken { store: "witness", detail: error.to_string() })?;
        Ok(changed?)
    }

    fn memory(&self) -> Memory {
        self.witness.lock().expect(UNBROKEN).memory().clone()
    }
}

const UNBROKEN: &str = "nothing panics while it holds the witness";
