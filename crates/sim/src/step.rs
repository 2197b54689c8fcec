//! What can happen next: a node does something, a message arrives, the operator or the store acts.
//!
//! A node here is what `pen`, `refill` and `lifecycle` of the issuer are together: one write out at a
//! time, each with the next beat; the witness written before anything is shown; the offer made by the
//! real [`Stock`].
//!
//! A request may be lost (it then never arrives), come late (anything may happen before), or twice. Its
//! answer is heard at once or never: a node that waits does nothing that an answer on its way could
//! change, so hearing it later is the same as hearing it at once and being idle. A node that waits may
//! give up at any time, which shows only in what it does next.

use std::fmt;

use keymill_id::Block;
use keymill_issuer::{
    stock::{Offer, Stock},
    tuning::Tuned,
};
use keymill_ledger::ops::Reserved;

use crate::{
    controls::{Guard, Guards},
    desk::{self, number},
    invariants::{self, Violation},
    search::Model,
    world::{
        Answer, Granted, Holes, Kind, Ledger, Mask, Memory, Message, NODES, Node, Op, Outcome, Phase,
        Revision, Row, SLOTS, Tail, When, World, bits, small,
    },
    worlds::Bounds,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Crash { node: u8 },
    Send { node: u8, op: Op, lost: Option<Message> },
    Leave { node: u8 },
    Issue { node: u8, number: u8 },
    Insert { node: u8, number: u8, bound: bool },
    ReadHolesEarly { node: u8 },
    Arrive { message: Message, answer: Answer, heard: bool, stays: bool },
    Copy,
    Rewind,
    Advance,
}

/// Rules of one search.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub bounds: Bounds,
    pub guards: Guards,
    /// Whether a halt without a rewind counts.
    pub false_alarms: bool,
}

/// Both nodes are registered and hold nothing.
fn beginning() -> World {
    let witness = Memory { epoch: 1, ..Memory::default() };
    let node = Node { phase: Phase::Serving, epoch: 1, witness, ..Node::default() };
    let row = Row { epoch: 1, beat: 0, stopped: false };
    World {
        ledger: Ledger { rows: [row; NODES], ..Ledger::default() },
        copy: None,
        nodes: [node; NODES],
        network: [None; SLOTS],
        duplicates: 0,
        ghost: Default::default(),
    }
}

impl Model for Rules {
    type World = World;
    type Step = Step;
    type Violation = Violation;

    fn beginning(&self) -> World {
        beginning()
    }

    fn successors(&self, world: &World, next: &mut Vec<(Step, World)>) {
        for node in 0..NODES {
            self.node_acts(world, node, next);
        }
        for slot in 0..SLOTS {
            if let Some(message) = world.network[slot] {
                self.arrives(world, slot, message, next);
            }
        }
        self.outside_acts(world, next);
        for (_, world) in next {
            self.tidy(world);
        }
    }

    fn fingerprint(&self, world: &World) -> u64 {
        world.fingerprint()
    }

    fn violation(&self, world: &World) -> Option<Violation> {
        world.ghost.violation
    }
}

impl Rules {
    fn node_acts(&self, world: &World, at: usize, next: &mut Vec<(Step, World)>) {
        let Self { bounds, guards, .. } = self;
        let node = &world.nodes[at];
        let name = small(at as u64);
        let more = world.effort() < bounds.total;
        let may_start = more && node.used.registers < bounds.registers;
        let register = Op::Register { remembered: node.witness };

        if node.phase != Phase::Down && bounds.crashes && node.used.ends < bounds.ends && may_start {
            let mut world = *world;
            go_down(&mut world, at);
            world.nodes[at].used.ends += 1;
            next.push((Step::Crash { node: name }, world));
        }
        if let Some(Granted { number, when }) = node.inserting {
            let mut world = *world;
            world.nodes[at].inserting = None;
            let bound = world.ledger.registry & 1 << number == 0;
            if bound {
                world.ledger.registry |= 1 << number;
                world.ghost.name(number, when);
            }
            next.push((Step::Insert { node: name, number, bound }, world));
        }
        let issues = match node.phase {
            Phase::Serving | Phase::Halted => true,
            Phase::GivingBack => !guards.on(Guard::DeadOnceSent),
            _ => false,
        };
        let issuable = node.held & !node.holes;
        if issues && issuable != 0 {
            let number = small(issuable.trailing_zeros().into());
            let mut world = *world;
            world.ghost.issue(number, node);
            let node = &mut world.nodes[at];
            node.held &= !bits(0, number + 1);
            next.push((Step::Issue { node: name, number }, world));
        }
        match node.phase {
            Phase::Down | Phase::Starting if may_start => {
                let mut world = *world;
                let node = &mut world.nodes[at];
                node.phase = Phase::Starting;
                node.used.registers += 1;
                self.send(world, at, register, next);
            }
            Phase::Serving if more => self.serves(world, at, next),
            Phase::Halted | Phase::Reporting => {
                let mut world = *world;
                burn(&mut world.nodes[at]);
                world.nodes[at].phase = Phase::Starting;
                self.send(world, at, Op::Report { witness: node.witness }, next);
            }
            Phase::Stopping => {
                let sent = next.len();
                self.send(*world, at, Op::Stop, next);
                for (_, world) in &mut next[sent..] {
                    go_down(world, at);
                }
            }
            _ => {}
        }
    }

    /// What a serving node may write. It has given up waiting for what it wrote before.
    fn serves(&self, world: &World, at: usize, next: &mut Vec<(Step, World)>) {
        let Self { bounds, guards, .. } = self;
        let node = &world.nodes[at];
        if node.used.reserves < bounds.reserves {
            let mut world = *world;
            world.nodes[at].used.reserves += 1;
            self.send(world, at, Op::Reserve { witnessed: node.witness.end, seen: None }, next);
        }
        if node.used.withholds < bounds.withholds && node.inserting.is_none() {
            let mut world = *world;
            world.nodes[at].used.withholds += 1;
            for &number in bounds.names {
                self.send(world, at, Op::Withhold { number, kind: Kind::Alias }, next);
            }
            for &number in bounds.draws {
                self.send(world, at, Op::Withhold { number, kind: Kind::Drawn }, next);
            }
        }
        if node.used.beats < bounds.heartbeats {
            let mut world = *world;
            world.nodes[at].used.beats += 1;
            self.send(world, at, Op::Heartbeat, next);
        }
        if bounds.stops && node.used.ends < bounds.ends {
            let mut world = *world;
            world.nodes[at].used.ends += 1;
            let Some((Offer { from, revision }, end)) = offer(node, *guards) else {
                if bounds.farewells {
                    burn(&mut world.nodes[at]);
                    world.nodes[at].phase = Phase::Stopping;
                } else {
                    go_down(&mut world, at);
                }
                next.push((Step::Leave { node: small(at as u64) }, world));
                return;
            };
            let from = small(from.get());
            let stopping = &mut world.nodes[at];
            // Lowered before the numbers leave, below a run that goes back whole: see `Pen::give_back`.
            let whole = node.tail.filter(|tail| tail.start == from).map(|tail| tail.before);
            let kept = whole.filter(|_| guards.on(Guard::WitnessForgetsWhatWentBack));
            stopping.witness.end = kept.unwrap_or(from);
            if guards.on(Guard::DeadOnceSent) {
                burn(stopping);
                stopping.phase = Phase::Stopping;
            } else {
                stopping.phase = Phase::GivingBack;
            }
            let sent = next.len();
            self.send(world, at, Op::GiveBack { from, end, revision: Revision::narrow(revision) }, next);
            if guards.on(Guard::DeadOnceSent) && !bounds.farewells {
                for (_, world) in &mut next[sent..] {
                    go_down(world, at);
                }
            }
        }
    }

    /// Sends a request; where the network is full, one of those under way is lost.
    fn send(&self, mut world: World, at: usize, op: Op, next: &mut Vec<(Step, World)>) {
        let ghost = world.ghost;
        world.stop_waiting(at);
        let node = &mut world.nodes[at];
        let stamped = !matches!(op, Op::Register { .. } | Op::Report { .. });
        if stamped {
            node.sent += 1;
        }
        let message = Message {
            node: small(at as u64),
            epoch: if stamped { node.epoch } else { 0 },
            acked: if stamped { node.acked } else { 0 },
            next: if stamped { node.sent } else { 0 },
            awaited: !matches!(op, Op::Report { .. } | Op::Stop),
            done: false,
            knows: ghost.rewound && !ghost.caught && ghost.robbed[at],
            op,
        };
        let node = message.node;
        let slots = usize::from(self.bounds.slots);
        if let Some(free) = world.network[..slots].iter().position(Option::is_none) {
            world.network[free] = Some(message);
            next.push((Step::Send { node, op, lost: None }, world));
        } else {
            for slot in 0..slots {
                let mut world = world;
                let lost = world.network[slot].replace(message);
                next.push((Step::Send { node, op, lost }, world));
            }
        }
    }

    fn arrives(&self, world: &World, slot: usize, message: Message, next: &mut Vec<(Step, World)>) {
        if let Op::Reserve { witnessed, seen: None } = message.op
            && !self.guards.on(Guard::HolesAfterTrack)
        {
            let mut world = *world;
            let seen = Some(world.ledger.holes.all());
            world.network[slot] = Some(Message { op: Op::Reserve { witnessed, seen }, ..message });
            next.push((Step::ReadHolesEarly { node: message.node }, world));
            return;
        }
        let mut world = *world;
        let at = usize::from(message.node);
        let was_halted = world.ledger.halted;
        let answer = desk::process(&mut world.ledger, &message, &self.bounds, self.guards);
        if world.ledger.halted && !was_halted {
            invariants::halted(&mut world, self.false_alarms);
        }
        world.network[slot] = None;
        let refused = matches!(answer, Answer::Halted | Answer::Fenced | Answer::Overtaken);
        if message.knows && !refused {
            // It wrote, and was not caught: from here on nothing is excused for its sake.
            world.ghost.robbed[at] = false;
        }
        let done = message.done || world.ghost.copied && !world.ghost.rewound && !refused;
        let again = Message { awaited: false, done, ..message };
        for heard in [true, false] {
            if heard && !message.awaited {
                continue;
            }
            let mut world = world;
            if heard {
                self.hears(&mut world, at, answer);
            }
            next.push((Step::Arrive { message, answer, heard, stays: false }, world));
            if world.duplicates < self.bounds.duplicates {
                world.duplicates += 1;
                world.network[slot] = Some(again);
                next.push((Step::Arrive { message, answer, heard, stays: true }, world));
            }
        }
    }

    fn outside_acts(&self, world: &World, next: &mut Vec<(Step, World)>) {
        if world.ledger.halted {
            let mut advanced = *world;
            let answered = |at: usize| world.ledger.witnesses[at].is_some();
            // The ledger asks for the nodes it knows; the operator, for those it knows nothing of.
            let owes = |at: usize| world.nodes[at].phase != Phase::Down || world.ghost.robbed[at];
            let all_in = (0..NODES).all(|at| answered(at) || !owes(at));
            let waits = self.guards.on(Guard::OperatorKnowsTheStarted)
                && self.guards.on(Guard::AdvanceAwaitsAnswers)
                && !all_in;
            if !waits && desk::advance(&mut advanced.ledger, self.guards) {
                advanced.ghost.robbed = [false; NODES];
                next.push((Step::Advance, advanced));
            }
        }
        if self.bounds.rewind && !world.ghost.copied && !world.ledger.halted {
            let mut copied = *world;
            copied.copy = Some(world.ledger);
            copied.ghost.copied = true;
            next.push((Step::Copy, copied));
        }
        if let Some(copy) = world.copy
            && copy != world.ledger
        {
            let mut rewound = *world;
            rewound.ledger = copy;
            rewound.copy = None;
            rewound.ghost.rewound = true;
            for slot in &mut rewound.network {
                if self.guards.on(Guard::NoReplay) && slot.is_some_and(|message| message.done) {
                    *slot = None;
                }
                *slot = slot.map(|message| Message { done: false, ..message });
            }
            next.push((Step::Rewind, rewound));
        }
    }

    fn hears(&self, world: &mut World, at: usize, answer: Answer) {
        let when = When { blind: world.is_blind(), fresh: world.ledger.advanced };
        let lost = world.ghost.copied && !world.ghost.rewound;
        let phase = world.nodes[at].phase;
        match answer {
            Answer::Fenced => return go_down(world, at),
            Answer::Halted => match phase {
                Phase::Starting => world.nodes[at].phase = Phase::Reporting,
                Phase::Serving => world.nodes[at].phase = Phase::Halted,
                _ => {}
            },
            _ => {}
        }
        let node = &mut world.nodes[at];
        match answer {
            Answer::Registered { epoch, beat } => {
                node.phase = Phase::Serving;
                (node.epoch, node.acked, node.sent) = (epoch, beat, beat);
                (node.witness.epoch, node.witness.beat) = (epoch, beat);
            }
            Answer::Reserved { start, end, holes, revision } => {
                node.acked = node.sent;
                let before = std::mem::replace(&mut node.witness.end, end);
                node.witness.beat = node.witness.beat.max(node.sent);
                if node.tail.is_some_and(|tail| tail.end > start) {
                    // Stopping beats a duplicate: `Stock::deposit` asserts this.
                    return go_down(world, at);
                }
                let block = Block::new(number(start), number(end)).expect("a block has numbers");
                let mut stock = stock(node);
                stock.deposit(Reserved { block, holes: Vec::new(), revision: revision.wide() });
                let joined = node.tail.filter(|tail| tail.end == start).map(|tail| tail.before);
                node.tail = tail(&stock, joined.unwrap_or(before));
                node.held |= bits(start, end);
                node.holes |= holes;
                node.fresh = when.fresh;
                if when.blind {
                    node.blind |= bits(start, end);
                }
                world.ghost.robbed[at] |= lost;
            }
            Answer::Withheld { number, kind, outcome, before, after } => {
                node.acked = node.sent;
                node.witness.beat = node.sent;
                let there = outcome == Outcome::AlreadyThere(Kind::Alias) && kind == Kind::Alias;
                if outcome == Outcome::Made || there && self.guards.on(Guard::GrantedNamesWitnessed) {
                    node.witness.holes.add(number, kind);
                }
                let mut stock = stock(node);
                stock.revised(before.wide(), after.wide());
                node.tail = node.tail.and_then(|known| tail(&stock, known.before));
                world.ghost.robbed[at] |= lost;
                let draws = match outcome {
                    Outcome::Made => true,
                    Outcome::AlreadyThere(_) => !self.guards.on(Guard::DrawOnlyOnMade),
                    Outcome::Passed => false,
                };
                match kind {
                    Kind::Alias if outcome == Outcome::Made || there => {
                        world.nodes[at].inserting = Some(Granted { number, when });
                    }
                    Kind::Drawn if draws => world.ghost.draw(number, when),
                    _ => {}
                }
            }
            Answer::GivenBack | Answer::Done => node.acked = node.sent,
            Answer::Exhausted | Answer::Halted | Answer::Fenced | Answer::Overtaken | Answer::NotHalted => {}
        }
        if phase == Phase::GivingBack {
            if self.bounds.farewells {
                burn(&mut world.nodes[at]);
                world.nodes[at].phase = Phase::Stopping;
            } else {
                go_down(world, at);
            }
        }
    }

    /// Makes worlds that cannot be told apart the same.
    fn tidy(&self, world: &mut World) {
        for node in &mut world.nodes {
            node.holes &= node.held;
            node.blind &= node.held;
            if node.held == 0 {
                node.fresh = false;
            }
        }
        let beats_count = self.guards.on(Guard::GiveBackHasABeat);
        for slot in &mut world.network {
            // Whoever is overtaken stays so, unless the store goes back.
            let overtaken = |message: &Message| {
                let by = |ledger: &Ledger| {
                    let Row { epoch, beat, .. } = ledger.rows[usize::from(message.node)];
                    epoch > message.epoch || epoch == message.epoch && beat >= message.next
                };
                by(&world.ledger) && world.copy.as_ref().is_none_or(by)
            };
            let idle = match slot {
                None => false,
                Some(Message { awaited: true, .. }) => false,
                Some(Message { op: Op::Register { .. } | Op::Report { .. }, .. }) => false,
                Some(Message { op: Op::GiveBack { .. }, .. }) if !beats_count => false,
                Some(message) => overtaken(message),
            };
            if idle {
                *slot = None;
            }
        }
        world.tidy_network();
    }
}

impl World {
    fn stop_waiting(&mut self, at: usize) {
        for message in self.network.iter_mut().flatten() {
            message.awaited &= usize::from(message.node) != at;
        }
    }
}

/// The process is gone: only its witness is left, and its requests that are under way.
fn go_down(world: &mut World, at: usize) {
    world.stop_waiting(at);
    let Node { witness, used, .. } = world.nodes[at];
    world.nodes[at] = Node { witness, used, ..Node::default() };
}

fn burn(node: &mut Node) {
    (node.held, node.holes, node.blind, node.tail) = (0, 0, 0, None);
}

/// The real stock, as far as a give-back is concerned.
fn stock(node: &Node) -> Stock {
    let mut stock = Stock::new(Tuned::default(), number(8));
    if let Some(Tail { start, end, revision, .. }) = node.tail {
        let block = Block::new(number(start), number(end)).expect("a tail has numbers");
        stock.deposit(Reserved { block, holes: Vec::new(), revision: revision.wide() });
    }
    stock
}

/// What it would offer if nothing had left tells where its tail begins.
fn tail(stock: &Stock, before: u8) -> Option<Tail> {
    let end = stock.end()?;
    let Offer { from, revision } = stock.offer(&[Block::new(number(0), end)?])?;
    let (start, end) = (small(from.get()), small(end.get()));
    Some(Tail { start, end, revision: Revision::narrow(revision), before })
}

fn offer(node: &Node, guards: Guards) -> Option<(Offer, u8)> {
    let end = node.tail?.end;
    if !guards.on(Guard::OwnBlocksOnly) {
        let from = number(small(node.held.trailing_zeros().into()));
        let revision = node.tail?.revision.wide();
        return (node.held != 0 && from < number(end)).then_some((Offer { from, revision }, end));
    }
    Some((stock(node).offer(&runs(node.held))?, end))
}

/// A mask as blocks.
fn runs(mut mask: Mask) -> Vec<Block> {
    let mut runs = Vec::new();
    while mask != 0 {
        let start = small(mask.trailing_zeros().into());
        let end = start + small((mask >> start).trailing_ones().into());
        runs.extend(Block::new(number(start), number(end)));
        mask &= !bits(0, end);
    }
    runs
}

fn spell(node: u8) -> &'static str {
    ["A", "B"][usize::from(node)]
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register { remembered: Memory { epoch, beat, end, .. } } => {
                write!(f, "register (remembers start {epoch}, beat {beat}, end {end})")
            }
            Self::Reserve { .. } => f.write_str("reserve"),
            Self::GiveBack { from, revision, .. } => {
                write!(f, "give back from {from} at revision {}", revision.wide())
            }
            Self::Withhold { number, kind } => write!(f, "withhold {number} ({kind:?})"),
            Self::Heartbeat => f.write_str("heartbeat"),
            Self::Stop => f.write_str("stop"),
            Self::Report { witness: Memory { epoch, beat, end, holes: Holes { alias, drawn } } } => {
                write!(f, "report start {epoch}, beat {beat}, end {end}, holes {:#b}", alias | drawn)
            }
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered { epoch, beat } => write!(f, "registered as start {epoch}, beat {beat}"),
            Self::Reserved { start, end, revision, holes: 0 } => {
                write!(f, "{start}..{end} at revision {}", revision.wide())
            }
            Self::Reserved { start, end, revision, holes } => {
                write!(f, "{start}..{end} without {holes:#b} at revision {}", revision.wide())
            }
            Self::GivenBack => f.write_str("settled"),
            Self::Withheld { outcome, after, .. } => write!(f, "{outcome:?}, revision {}", after.wide()),
            other => write!(f, "{other:?}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash { node } => write!(f, "{} crashes", spell(*node)),
            Self::Send { node, op, lost } => {
                write!(f, "{} sends: {op}", spell(*node))?;
                lost.map_or(Ok(()), |lost| write!(f, " (and {}'s {} is lost)", spell(lost.node), lost.op))
            }
            Self::Leave { node } => write!(f, "{} stops with nothing to give back", spell(*node)),
            Self::Issue { node, number } => write!(f, "{} issues {number}", spell(*node)),
            Self::Insert { node, number, bound } => {
                let outcome = if *bound { "is granted" } else { "is refused: it is bound" };
                write!(f, "{} asks the registry for {number}, which {outcome}", spell(*node))
            }
            Self::ReadHolesEarly { node } => {
                write!(f, "{}'s reserve reads the holes, then waits", spell(*node))
            }
            Self::Arrive { message: Message { node, epoch, acked, next, op, .. }, answer, heard, stays } => {
                write!(f, "{}'s {op} [start {epoch}, beat {acked}→{next}] arrives: {answer}", spell(*node))?;
                f.write_str(if *heard { ", as it hears" } else { ", unheard" })?;
                f.write_str(if *stays { "; it will come again" } else { "" })
            }
            Self::Copy => f.write_str("the store is copied"),
            Self::Rewind => f.write_str("the store goes back to the copy"),
            Self::Advance => f.write_str("the operator advances the ledger"),
        }
    }
}
