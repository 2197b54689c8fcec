//! What one look found.

use std::time::Duration;

use crate::marks::Marks;

/// How much of a keyspace was left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Keys left.
    pub level: u64,
    pub supply: Supply,
    /// Keys a second that leave, where whoever was asked counts them.
    pub rate: Option<f64>,
    /// Keys that left so far, where they are counted.
    pub issued: Option<u64>,
    /// Keys at hand of those that are left, where not all of them are.
    pub stock: Option<u64>,
}

/// What a level is a level of, and so whether anyone can fill it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// Keys that a filler puts there.
    Pool,
    /// Numbers, of which each is used once.
    Keyspace,
    /// Time, which passes.
    Epoch { left: Duration },
}

impl Supply {
    pub fn has_filler(self) -> bool {
        matches!(self, Self::Pool)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    Measured(Sample),
    /// Not to know is a finding of its own.
    Unmeasured {
        why: String,
    },
}

/// One keyspace, as a look found it. Without marks it is known, but not judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub keyspace: String,
    pub marks: Marks,
    pub reading: Reading,
}

/// What everything else rests on: a ledger, a server. While it is in trouble nothing else is judged, so that one
/// cause is one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// `ledger`, `server`
    pub name: &'static str,
    pub state: GroundState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroundState {
    Fine,
    Halted { reason: String },
    Unmeasured { why: String },
}

/// Everything one look found.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Tells what is watched from what others watch: a ledger's id, an address.
    pub scope: String,
    pub ground: Ground,
    pub seen: Vec<Seen>,
}
