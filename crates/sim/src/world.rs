//! One moment of the model: a store, two nodes, the messages between them, and what an onlooker knows.
//!
//! Everything is a small integer, so that a world is some two hundred bytes, is copied freely and is
//! hashed whole. Numbers are bits of a [`Mask`]. What only the onlooker knows – who was given what,
//! what a rewind took – is in [`Ghost`] and in fields said to be *ghost*; no decision reads it but the
//! operator's (see [`step`](crate::step)).

use std::hash::{Hash, Hasher};

use crate::invariants::Violation;

/// A bit per number.
pub type Mask = u8;

pub const NODES: usize = 2;
/// Requests under way at a time, at most.
pub const SLOTS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World {
    pub ledger: Ledger,
    /// The copy the store may go back to.
    pub copy: Option<Ledger>,
    pub nodes: [Node; NODES],
    /// Sorted, the empty slots last: two worlds that differ in the order only are one.
    pub network: [Option<Message>; SLOTS],
    /// Messages that stayed under way though they arrived.
    pub duplicates: u8,
    pub ghost: Ghost,
}

/// What the store holds; `desk` shows it to the operations as rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ledger {
    pub cursor: u8,
    pub revision: Revision,
    pub holes: Holes,
    pub halted: bool,
    /// It was advanced at least once.
    pub advanced: bool,
    pub rows: [Row; NODES],
    pub witnesses: [Option<Memory>; NODES],
    /// Names the registry bound; it lives in the same store, and goes back with it.
    pub registry: Mask,
}

/// A node's row; epoch 0: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Row {
    pub epoch: u8,
    pub beat: u8,
    pub stopped: bool,
}

/// A track's revision in a byte: how often it leapt at an advance, and how far it got since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Revision(u8);

impl Revision {
    const LOW_BITS: u32 = 6;
    const LEAP_BITS: u32 = 40;

    pub fn wide(self) -> u64 {
        let (leaps, low) = (self.0 >> Self::LOW_BITS, self.0 & ((1 << Self::LOW_BITS) - 1));
        (u64::from(leaps) << Self::LEAP_BITS) + u64::from(low)
    }

    /// # Panics
    /// If the revision leapt by something else, or the world is larger than a byte can tell.
    pub fn narrow(wide: u64) -> Self {
        let (leaps, low) = (wide >> Self::LEAP_BITS, wide & ((1 << Self::LEAP_BITS) - 1));
        assert!(leaps < 4 && low < 1 << Self::LOW_BITS, "revision {wide} is out of the model's bounds");
        Self(small(leaps << Self::LOW_BITS | low))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Holes {
    pub alias: Mask,
    pub drawn: Mask,
}

impl Holes {
    pub fn all(self) -> Mask {
        self.alias | self.drawn
    }
}

/// What a node's witness says; epoch 0: it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Memory {
    pub epoch: u8,
    pub beat: u8,
    pub end: u8,
    pub holes: Holes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Node {
    pub phase: Phase,
    pub epoch: u8,
    pub acked: u8,
    pub sent: u8,
    /// Reserved numbers that have not left, holes among them.
    pub held: Mask,
    pub holes: Mask,
    pub tail: Option<Tail>,
    /// A name that was withheld, and that the registry is asked for next.
    pub inserting: Option<Granted>,
    pub witness: Memory,
    pub used: Used,
    /// Ghost: held numbers that were reserved in the blind window after a rewind.
    pub blind: Mask,
    /// Ghost: the last block was reserved after an advance.
    pub fresh: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Phase {
    #[default]
    Down,
    /// It wants to register.
    Starting,
    Serving,
    /// It heard that the ledger is halted, and has not burned its stock yet.
    Halted,
    /// It has burned, and is about to write its witness into the ledger.
    Reporting,
    /// It keeps what it gives back until it hears; only with that guard off.
    GivingBack,
    /// It has sent what goes back, and is about to say that it stops.
    Stopping,
}

/// The last blocks of ours that lie end to end, as [`Stock`](keymill_issuer::stock::Stock) knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tail {
    pub start: u8,
    pub end: u8,
    pub revision: Revision,
    /// What the witness said before the first of these blocks.
    pub before: u8,
}

/// How much of its bounds a node has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Used {
    pub reserves: u8,
    pub withholds: u8,
    pub beats: u8,
    pub ends: u8,
    pub registers: u8,
}

impl Used {
    fn sum(self) -> u8 {
        let Self { reserves, withholds, beats, ends, registers } = self;
        reserves + withholds + beats + ends + registers
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    pub node: u8,
    pub epoch: u8,
    pub acked: u8,
    pub next: u8,
    /// Its sender listens for the answer.
    pub awaited: bool,
    /// Ghost: it was carried out in the part that a rewind takes.
    pub done: bool,
    /// Ghost: sent after the rewind by a node that the lost part had granted something.
    pub knows: bool,
    pub op: Op,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    Register {
        remembered: Memory,
    },
    Reserve {
        witnessed: u8,
        /// The holes that were read too early; only with that guard off.
        seen: Option<Mask>,
    },
    GiveBack {
        from: u8,
        /// Where the sender's last block ended: what a cursor would be compared with.
        end: u8,
        revision: Revision,
    },
    Withhold {
        number: u8,
        kind: Kind,
    },
    Heartbeat,
    Stop,
    Report {
        witness: Memory,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Alias,
    Drawn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    Registered { epoch: u8, beat: u8 },
    Reserved { start: u8, end: u8, holes: Mask, revision: Revision },
    GivenBack,
    Withheld { number: u8, kind: Kind, outcome: Outcome, before: Revision, after: Revision },
    Done,
    Exhausted,
    Halted,
    Fenced,
    Overtaken,
    NotHalted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Made,
    AlreadyThere(Kind),
    Passed,
}

/// Ghost: when a request was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct When {
    /// After the rewind, while some node that it robbed had been silent: see [`World::is_blind`].
    pub blind: bool,
    /// After an advance.
    pub fresh: bool,
}

/// A number that is one insert away from its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Granted {
    pub number: u8,
    pub when: When,
}

/// What only an onlooker knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ghost {
    pub issued: Mask,
    pub named: Mask,
    pub drawn: Mask,
    /// Of all these, the ones given out on the word of a blind store.
    pub blind: Mask,
    pub copied: bool,
    pub rewound: bool,
    /// The rewound ledger was halted at some time.
    pub caught: bool,
    /// Nodes that were told of a grant (a reserve, a hole) that the rewind took – or would take, while
    /// there is a copy – and that have not written since.
    pub robbed: [bool; NODES],
    pub violation: Option<Violation>,
}

impl World {
    /// The store went back, somebody was robbed, and nobody who could tell has written yet.
    pub fn is_blind(&self) -> bool {
        self.ghost.rewound && !self.ghost.caught && self.ghost.robbed.contains(&true)
    }

    /// The same world with the nodes' names exchanged.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        let mut world = *self;
        world.ledger = world.ledger.mirrored();
        world.copy = world.copy.map(Ledger::mirrored);
        world.nodes.reverse();
        world.ghost.robbed.reverse();
        for message in world.network.iter_mut().flatten() {
            message.node = 1 - message.node;
        }
        world.tidy_network();
        world
    }

    /// Requests, crashes and stops so far.
    pub fn effort(&self) -> u8 {
        self.nodes.iter().map(|node| node.used.sum()).sum()
    }

    /// One hash for a world and its mirror image: two nodes of one kind have the same future under
    /// each other's name.
    pub fn fingerprint(&self) -> u64 {
        fold(self).min(fold(&self.mirrored()))
    }

    pub fn tidy_network(&mut self) {
        self.network.sort_unstable_by(|a, b| b.cmp(a));
    }
}

impl Ledger {
    fn mirrored(mut self) -> Self {
        self.rows.reverse();
        self.witnesses.reverse();
        self
    }
}

/// A number of this model: everything fits a byte.
///
/// # Panics
/// If it does not.
pub fn small(wide: u64) -> u8 {
    u8::try_from(wide).expect("the model's numbers are small")
}

/// The bits of `start..end`.
pub fn bits(start: u8, end: u8) -> Mask {
    (start..end).fold(0, |mask, number| mask | 1 << number)
}

/// A fast hash of 64 good bits.
pub(crate) fn fold(world: &impl Hash) -> u64 {
    let mut hasher = Fold::default();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Multiply and fold, eight bytes at a time: fast, and 64 good bits.
#[derive(Debug, Default)]
struct Fold {
    state: u64,
    word: u64,
    filled: u32,
}

impl Fold {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.state ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f;
        #[expect(clippy::cast_possible_truncation, reason = "the halves are folded onto each other")]
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.state = low ^ high ^ self.state.rotate_left(23);
    }
}

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }
    fn write_u8(&mut self, byte: u8) {
        self.word |= u64::from(byte) << self.filled;
        self.filled += 8;
        if self.filled == 64 {
            self.mix(self.word);
            (self.word, self.filled) = (0, 0);
        }
    }
    // Discriminants come as `isize` and are small.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a discriminant is small")]
    fn write_isize(&mut self, value: isize) {
        self.write_u8(value as u8);
    }
    fn write_usize(&mut self, _length: usize) {
        // Arrays here have a fixed length.
    }
    fn finish(&self) -> u64 {
        let mut last = Self { state: self.state, word: 0, filled: 0 };
        last.mix(self.word);
        last.mix(u64::from(self.filled));
        last.state
    }
}
