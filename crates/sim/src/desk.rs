//! Where a request meets the store: the real operations, run over the model's ledger.
//!
//! A [`Ledger`] is shown to `keymill_ledger::ops` as the rows it stands for, and the whole operation
//! runs on them: the stamp, the halt, the reserve, the give-back, the withhold, the report and the
//! advance are the very code that a store runs, in the order in which it runs it. What an operation
//! writes is kept if it succeeds, or if its error commits; as in a store.
//!
//! Two things are shown as always in order, which only adds to what can go wrong: a give-back finds a
//! claim of its sender over all it names (the check of claims is a second look at the same fact), and
//! the engine's incarnation never changes (a rewind is to be found by beats alone).

use std::{future::Future, num::NonZeroU64, pin::pin, sync::LazyLock, task};

use keymill_id::{Block, KeyspaceName, Number};
use keymill_ledger::{
    ClaimRow, ClaimState, Halt, Head, HoleKind, KeyspaceRow, LeaseRow, LedgerError, LedgerId, NodeName,
    NodeReport, NodeRow, Rows, Timestamp, TokenRow, Track, TrackRow, WitnessRow, WorkerId,
    ops::{
        Advance, GiveBack, Heartbeat, Operation, Register, Remembered, ReportWitness, Reserve, Stamp, Stop,
        Verdict, Withheld, Withhold, judge,
    },
};

use crate::{
    controls::{Guard, Guards},
    world::{Answer, Kind, Ledger, Mask, Memory, Message, Op, Outcome, Revision, Row, bits, small},
    worlds::Bounds,
};

static NAMES: LazyLock<[NodeName; 2]> =
    LazyLock::new(|| ["a", "b"].map(|name| NodeName::parse(name).expect("a good name")));
static TRACK: LazyLock<Track> =
    LazyLock::new(|| Track::of(KeyspaceName::parse("links").expect("a good name")));

const NOW: Timestamp = Timestamp(0);
/// So much was reserved and claimed that no give-back runs out of it: these sums are not the model's.
const PLENTY: u64 = 1 << 32;
/// A life's beats in this model; a life of the real ledger has 2^32. No life gets that far.
const BEATS_OF_A_LIFE: u8 = 16;

/// A beat as the ledger counts it: the life above, the write below.
fn wide_beat(beat: u8) -> u64 {
    u64::from(beat / BEATS_OF_A_LIFE) << 32 | u64::from(beat % BEATS_OF_A_LIFE)
}

fn narrow_beat(beat: u64) -> u8 {
    let (life, write) = (beat >> 32, beat & u64::from(u32::MAX));
    assert!(write < BEATS_OF_A_LIFE.into(), "a life of {write} writes is out of the model's bounds");
    small(life * u64::from(BEATS_OF_A_LIFE) + write)
}

pub(crate) fn number(value: u8) -> Number {
    Number::new(value.into()).expect("small")
}

/// Carries out one request.
pub(crate) fn process(ledger: &mut Ledger, message: &Message, bounds: &Bounds, guards: Guards) -> Answer {
    let name = NAMES[usize::from(message.node)].clone();
    let track = TRACK.clone();
    let stamp = Stamp {
        node: name.clone(),
        epoch: message.epoch.into(),
        acked: wide_beat(message.acked),
        next: wide_beat(message.next),
        at: NOW,
    };
    let mut desk = Desk { ledger: *ledger, message: Some(*message), in_step: false };
    match message.op {
        Op::Register { remembered } => {
            let remembered = (remembered.epoch > 0).then(|| Remembered {
                ledger: LedgerId(String::new()),
                epoch: remembered.epoch.into(),
                beat: wide_beat(remembered.beat),
                ends: vec![(track, number(remembered.end))],
            });
            let op =
                Register { node: name, remembered, region: None, report: NodeReport::default(), at: NOW };
            let before = ledger.rows[usize::from(message.node)].beat;
            let answer = desk.transact(op, ledger, |registration| Answer::Registered {
                epoch: small(registration.epoch),
                beat: narrow_beat(registration.beat),
            });
            match answer {
                // The control: the new life goes on where the old one was.
                Answer::Registered { epoch, .. } if !guards.on(Guard::LivesCountApart) => {
                    ledger.rows[usize::from(message.node)].beat = before;
                    Answer::Registered { epoch, beat: before }
                }
                other => other,
            }
        }
        Op::Report { witness } => {
            desk.transact(ReportWitness { node: name, witness: witness.to_row() }, ledger, |()| Answer::Done)
        }
        Op::Heartbeat => {
            let op = Heartbeat { stamp, report: NodeReport::default(), progress: Vec::new() };
            desk.transact_stamped(op, ledger, guards, |_| Answer::Done)
        }
        Op::Stop => {
            let op = Stop { stamp, progress: Vec::new(), settlements: Vec::new() };
            desk.transact_stamped(op, ledger, guards, |()| Answer::Done)
        }
        Op::Reserve { witnessed, .. } => {
            let op = Reserve {
                stamp,
                track,
                at_least: Number::ZERO,
                count: NonZeroU64::new(bounds.block.into()).expect("a block is not empty"),
                ceiling: number(bounds.ceiling),
                witnessed: number(witnessed),
            };
            desk.transact_stamped(op, ledger, guards, |reserved| Answer::Reserved {
                start: small(reserved.block.start().get()),
                end: small(reserved.block.end().get()),
                holes: reserved.holes.iter().fold(0, |mask, hole| mask | 1 << hole.get()),
                revision: Revision::narrow(reserved.revision),
            })
        }
        Op::GiveBack { from, end, revision } => {
            let revision = match guards.on(Guard::RevisionNotCursor) {
                true => revision.wide(),
                false if ledger.cursor == end => ledger.revision.wide(),
                false => u64::MAX,
            };
            let op = GiveBack { stamp, track, from: number(from), revision };
            if guards.on(Guard::GiveBackHasABeat) {
                desk.transact_stamped(op, ledger, guards, |_| Answer::GivenBack)
            } else {
                // No stamp: the ledger's halt is all that stops it, and the node's row stays as it is.
                desk.in_step = true;
                let rows = ledger.rows;
                let answer = desk.transact(op, ledger, |_| Answer::GivenBack);
                ledger.rows = rows;
                answer
            }
        }
        Op::Withhold { number: withheld, kind } => {
            let op = Withhold { stamp, track, numbers: vec![number(withheld)], kind: kind.wide() };
            desk.transact_stamped(op, ledger, guards, |withholding| Answer::Withheld {
                number: withheld,
                kind,
                outcome: match withholding.outcomes[0] {
                    Withheld::Made => Outcome::Made,
                    Withheld::AlreadyThere(there) => Outcome::AlreadyThere(Kind::narrow(there)),
                    Withheld::Passed => Outcome::Passed,
                },
                before: Revision::narrow(withholding.before),
                after: Revision::narrow(withholding.after),
            })
        }
    }
}

/// The operator advances the ledger; false if it says that it must wait.
pub(crate) fn advance(ledger: &mut Ledger, guards: Guards) -> bool {
    let without = match guards.on(Guard::AdvanceAwaitsAnswers) {
        true => Vec::new(),
        false => NAMES.iter().map(|name| (name.clone(), 0)).collect(),
    };
    let desk = Desk { ledger: *ledger, message: None, in_step: false };
    let op = Advance { without, dry_run: false, at: NOW };
    // With the names that witnesses bring back.
    let before = ledger.witnesses.iter().flatten().fold(ledger.holes, |holes, witness| crate::world::Holes {
        alias: holes.alias | witness.holes.alias,
        drawn: holes.drawn | witness.holes.drawn,
    });
    let done = desk.transact(op, ledger, |_| Answer::Done) == Answer::Done;
    if done && !guards.on(Guard::LeaptNamesAreSpent) {
        // The control: names below the lifted cursor can still be granted.
        let spent = before.alias & !ledger.holes.alias;
        ledger.holes.alias |= spent;
        ledger.holes.drawn &= !spent | before.drawn;
    }
    done
}

/// A store that knows one ledger and one track.
struct Desk {
    ledger: Ledger,
    message: Option<Message>,
    /// The sender's row is shown as if it fitted the stamp.
    in_step: bool,
}

impl Desk {
    fn transact<O: Operation>(
        mut self,
        op: O,
        kept: &mut Ledger,
        answer: impl FnOnce(O::Answer) -> Answer,
    ) -> Answer {
        match run_now(op.run(&mut self)) {
            Ok(found) => {
                *kept = self.ledger;
                answer(found)
            }
            Err(error) => {
                if error.commits() {
                    *kept = self.ledger;
                }
                match error {
                    LedgerError::Halted { .. } => Answer::Halted,
                    LedgerError::Fenced { .. } => Answer::Fenced,
                    LedgerError::Overtaken { .. } => Answer::Overtaken,
                    LedgerError::Exhausted { .. } => Answer::Exhausted,
                    LedgerError::NotHalted | LedgerError::AwaitingNodes { .. } => Answer::NotHalted,
                    other => unreachable!("not in this model: {other}"),
                }
            }
        }
    }

    fn transact_stamped<O: Operation>(
        mut self,
        op: O,
        kept: &mut Ledger,
        guards: Guards,
        answer: impl FnOnce(O::Answer) -> Answer,
    ) -> Answer {
        if guards.on(Guard::BeatBeforeChange) {
            return self.transact(op, kept, answer);
        }
        // The change first, the beat afterwards: what a halt finds is committed with its mark.
        let message = self.message.expect("a stamped request");
        let row = self.row(usize::from(message.node));
        self.in_step = true;
        let mut changed = *kept;
        let found = self.transact(op, &mut changed, answer);
        let stamp = Stamp {
            node: NAMES[usize::from(message.node)].clone(),
            epoch: message.epoch.into(),
            acked: wide_beat(message.acked),
            next: wide_beat(message.next),
            at: NOW,
        };
        match judge(row, &stamp) {
            Verdict::Go(_) => {
                *kept = changed;
                found
            }
            Verdict::Halt(_) => {
                *kept = Ledger { rows: kept.rows, halted: true, ..changed };
                Answer::Halted
            }
            Verdict::Fenced { .. } => Answer::Fenced,
            Verdict::Overtaken { .. } => Answer::Overtaken,
        }
    }

    fn row(&self, node: usize) -> Option<NodeRow> {
        let Row { epoch, beat, stopped } = self.ledger.rows[node];
        let (epoch, beat) = match self.message {
            Some(message) if self.in_step && usize::from(message.node) == node => {
                (message.epoch, message.acked)
            }
            _ => (epoch, beat),
        };
        (epoch > 0).then(|| NodeRow {
            name: NAMES[node].clone(),
            epoch: epoch.into(),
            beat: wide_beat(beat),
            started_at: NOW,
            last_seen: NOW,
            stopped,
            report: NodeReport::default(),
        })
    }

    fn track_row(&self) -> TrackRow {
        let Ledger { cursor, revision, holes, .. } = self.ledger;
        TrackRow {
            cursor: number(cursor),
            revision: revision.wide(),
            claims: PLENTY,
            reserved: PLENTY,
            issued: 0,
            burned: 0,
            holes: holes.all().count_ones().into(),
        }
    }
}

impl Memory {
    fn to_row(self) -> WitnessRow {
        let kinds = [(Kind::Alias, self.holes.alias), (Kind::Drawn, self.holes.drawn)];
        let holes = kinds.into_iter().flat_map(|(kind, mask)| {
            numbers(mask).map(move |hole| (TRACK.clone(), number(hole), kind.wide()))
        });
        WitnessRow {
            epoch: self.epoch.into(),
            beat: wide_beat(self.beat),
            ends: vec![(TRACK.clone(), number(self.end))],
            holes: holes.collect(),
        }
    }

    fn of_row(row: &WitnessRow) -> Self {
        let mut memory = Self {
            epoch: small(row.epoch),
            beat: narrow_beat(row.beat),
            end: row.ends.iter().map(|(_, end)| small(end.get())).max().unwrap_or(0),
            ..Self::default()
        };
        for (_, hole, kind) in &row.holes {
            memory.holes.add(small(hole.get()), Kind::narrow(*kind));
        }
        memory
    }
}

impl crate::world::Holes {
    pub(crate) fn add(&mut self, number: u8, kind: Kind) {
        match kind {
            Kind::Alias => self.alias |= 1 << number,
            Kind::Drawn => self.drawn |= 1 << number,
        }
    }
}

impl Kind {
    fn wide(self) -> HoleKind {
        match self {
            Self::Alias => HoleKind::Alias,
            Self::Drawn => HoleKind::Drawn,
        }
    }

    fn narrow(kind: HoleKind) -> Self {
        match kind {
            HoleKind::Alias => Self::Alias,
            // Nobody is granted either.
            HoleKind::Drawn | HoleKind::Spent => Self::Drawn,
            HoleKind::Route | HoleKind::Import | HoleKind::Used => unreachable!("not in this model"),
        }
    }
}

fn numbers(mask: Mask) -> impl Iterator<Item = u8> {
    (0..8).filter(move |number| mask & 1 << number != 0)
}

fn index(name: &NodeName) -> usize {
    usize::from(*name != NAMES[0])
}

/// These rows never wait.
fn run_now<F: Future>(future: F) -> F::Output {
    let mut context = task::Context::from_waker(task::Waker::noop());
    match pin!(future).poll(&mut context) {
        task::Poll::Ready(output) => output,
        task::Poll::Pending => unreachable!("the model's rows never wait"),
    }
}

impl Rows for Desk {
    async fn incarnation(&mut self) -> Result<String, LedgerError> {
        Ok(String::new())
    }
    async fn clock(&mut self, host: Timestamp) -> Result<Timestamp, LedgerError> {
        Ok(host)
    }

    async fn head(&mut self) -> Result<Head, LedgerError> {
        Ok(Head {
            id: LedgerId(String::new()),
            created_at: NOW,
            incarnation: String::new(),
            halted: self.ledger.halted.then(|| Halt { reason: String::new(), since: NOW }),
            advances: self.ledger.advanced.into(),
            region: None,
            changes: 0,
            root: None,
            keyspaces: 1,
        })
    }
    async fn put_head(&mut self, row: &Head) -> Result<(), LedgerError> {
        self.ledger.halted = row.halted.is_some();
        self.ledger.advanced = row.advances > 0;
        Ok(())
    }

    async fn node(&mut self, name: &NodeName) -> Result<Option<NodeRow>, LedgerError> {
        Ok(self.row(index(name)))
    }
    async fn put_node(&mut self, row: &NodeRow) -> Result<(), LedgerError> {
        self.ledger.rows[index(&row.name)] =
            Row { epoch: small(row.epoch), beat: narrow_beat(row.beat), stopped: row.stopped };
        Ok(())
    }
    async fn nodes(&mut self) -> Result<Vec<NodeRow>, LedgerError> {
        Ok((0..2).filter_map(|node| self.row(node)).collect())
    }

    async fn track(&mut self, _: &Track) -> Result<Option<TrackRow>, LedgerError> {
        Ok(Some(self.track_row()))
    }
    async fn put_track(&mut self, _: &Track, row: &TrackRow) -> Result<(), LedgerError> {
        self.ledger.cursor = small(row.cursor.get());
        self.ledger.revision = Revision::narrow(row.revision);
        Ok(())
    }
    async fn tracks(&mut self) -> Result<Vec<(Track, TrackRow)>, LedgerError> {
        Ok(vec![(TRACK.clone(), self.track_row())])
    }

    async fn hole(&mut self, _: &Track, number: Number) -> Result<Option<HoleKind>, LedgerError> {
        let bit = 1 << number.get();
        let holes = self.ledger.holes;
        Ok(match () {
            () if holes.alias & bit != 0 => Some(HoleKind::Alias),
            () if holes.drawn & bit != 0 => Some(HoleKind::Drawn),
            () => None,
        })
    }
    async fn holes(&mut self, _: &Track, block: Block) -> Result<Vec<Number>, LedgerError> {
        let seen = match self.message {
            Some(Message { op: Op::Reserve { seen: Some(seen), .. }, .. }) => seen,
            _ => self.ledger.holes.all(),
        };
        let inside = seen & bits(small(block.start().get()), small(block.end().get()));
        Ok(numbers(inside).map(number).collect())
    }
    async fn put_hole(&mut self, _: &Track, number: Number, kind: HoleKind) -> Result<(), LedgerError> {
        let number = small(number.get());
        if kind == HoleKind::Spent {
            self.ledger.holes.alias &= !(1 << number);
        }
        self.ledger.holes.add(number, Kind::narrow(kind));
        Ok(())
    }

    async fn claim_at(&mut self, _: &Track, _: Number) -> Result<Option<ClaimRow>, LedgerError> {
        Ok(None)
    }
    async fn claims(
        &mut self,
        track: &Track,
        _: Option<Number>,
        _: usize,
    ) -> Result<Vec<ClaimRow>, LedgerError> {
        let message = self.message.expect("only a give-back looks for claims");
        Ok(vec![ClaimRow {
            track: track.clone(),
            start: Number::ZERO,
            end: number(self.ledger.cursor),
            node: NAMES[usize::from(message.node)].clone(),
            epoch: message.epoch.into(),
            reserved_at: NOW,
            issued_up_to: Number::ZERO,
            last_issued_at: None,
            state: ClaimState::Open,
            unissued: Vec::new(),
        }])
    }
    async fn open_claims(&mut self, _: &NodeName) -> Result<Vec<ClaimRow>, LedgerError> {
        Ok(Vec::new())
    }
    async fn put_claim(&mut self, _: &ClaimRow) -> Result<(), LedgerError> {
        Ok(())
    }
    async fn remove_claim(&mut self, _: &Track, _: Number) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn keyspace(&mut self, _: &KeyspaceName) -> Result<Option<KeyspaceRow>, LedgerError> {
        Ok(None)
    }
    async fn put_keyspace(&mut self, _: &KeyspaceRow) -> Result<(), LedgerError> {
        Ok(())
    }
    async fn keyspaces(&mut self) -> Result<Vec<KeyspaceRow>, LedgerError> {
        Ok(Vec::new())
    }

    async fn leases(&mut self, _: &KeyspaceName) -> Result<Vec<LeaseRow>, LedgerError> {
        Ok(Vec::new())
    }
    async fn leases_of(&mut self, _: &str) -> Result<Vec<LeaseRow>, LedgerError> {
        Ok(Vec::new())
    }
    async fn lease(&mut self, _: &KeyspaceName, _: WorkerId) -> Result<Option<LeaseRow>, LedgerError> {
        Ok(None)
    }
    async fn put_lease(&mut self, _: &LeaseRow) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn tokens(&mut self) -> Result<Vec<TokenRow>, LedgerError> {
        Ok(Vec::new())
    }
    async fn put_token(&mut self, _: &TokenRow) -> Result<(), LedgerError> {
        Ok(())
    }
    async fn remove_token(&mut self, _: &str) -> Result<bool, LedgerError> {
        Ok(false)
    }

    async fn witnesses(&mut self) -> Result<Vec<(NodeName, WitnessRow)>, LedgerError> {
        let kept = self.ledger.witnesses.iter().zip(NAMES.iter());
        Ok(kept.filter_map(|(memory, name)| memory.map(|memory| (name.clone(), memory.to_row()))).collect())
    }
    async fn put_witness(&mut self, node: &NodeName, row: &WitnessRow) -> Result<(), LedgerError> {
        self.ledger.witnesses[index(node)] = Some(Memory::of_row(row));
        Ok(())
    }
    async fn clear_witnesses(&mut self) -> Result<(), LedgerError> {
        self.ledger.witnesses = Default::default();
        Ok(())
    }
}
