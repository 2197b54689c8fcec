//! How large the explored worlds are.

/// What may happen at most, in one world. Counts are per node.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub name: &'static str,
    /// The first number that does not exist; at most 8.
    pub ceiling: u8,
    /// Numbers per reserve.
    pub block: u8,
    pub reserves: u8,
    pub withholds: u8,
    /// Numbers somebody may choose as a name.
    pub names: &'static [u8],
    /// Numbers that may be drawn.
    pub draws: &'static [u8],
    pub heartbeats: u8,
    /// How often it may crash or stop.
    pub ends: u8,
    pub crashes: bool,
    /// A clean stop gives back.
    pub stops: bool,
    /// A clean stop says so to the ledger, after it gave back.
    pub farewells: bool,
    /// How often it may ask to be registered. Both are registered when the world begins.
    pub registers: u8,
    /// How often a message may arrive and stay under way, in the whole world.
    pub duplicates: u8,
    /// Requests under way at a time; one more, and an old one is lost. At most [`SLOTS`](crate::world::SLOTS).
    pub slots: u8,
    /// Requests, crashes and stops of both nodes together.
    pub total: u8,
    /// The store may go back to a copy, once.
    pub rewind: bool,
}

const NOTHING: Bounds = Bounds {
    name: "",
    ceiling: 8,
    block: 2,
    reserves: 0,
    withholds: 0,
    names: &[],
    draws: &[],
    heartbeats: 0,
    ends: 0,
    crashes: false,
    stops: false,
    farewells: false,
    registers: 0,
    duplicates: 0,
    slots: 3,
    total: u8::MAX,
    rewind: false,
};

/// Reserve, issue, give back, crash and start again; no rewind.
pub const STOCK: Bounds = Bounds {
    name: "stock: reserve, issue, give back, crash, start again",
    ceiling: 6,
    reserves: 3,
    ends: 1,
    crashes: true,
    stops: true,
    registers: 1,
    duplicates: 1,
    ..NOTHING
};

/// Names and draws against reserves and give-backs; no rewind.
pub const HOLES: Bounds = Bounds {
    name: "holes: names and draws against reserve and give-back",
    ceiling: 4,
    reserves: 2,
    withholds: 2,
    names: &[1],
    draws: &[1, 3],
    ends: 1,
    crashes: true,
    stops: true,
    registers: 1,
    duplicates: 1,
    total: 6,
    ..NOTHING
};

/// A rewind, a halt and an advance; messages come late.
pub const REWIND: Bounds = Bounds {
    name: "rewind: reserve, crash, halt, report, advance",
    ceiling: 8,
    reserves: 3,
    ends: 1,
    crashes: true,
    registers: 1,
    slots: 2,
    total: 8,
    rewind: true,
    ..NOTHING
};

/// The same, and a message comes twice.
pub const REWIND_TWICE: Bounds = Bounds {
    name: "rewind, twice: reserve, heartbeat, halt, report, advance",
    ceiling: 6,
    reserves: 2,
    heartbeats: 1,
    registers: 1,
    duplicates: 1,
    total: 6,
    rewind: true,
    ..NOTHING
};

/// A process that crashes and starts again around the rewind, with messages of both lives under way.
pub const REWIND_LIVES: Bounds = Bounds {
    name: "rewind, two lives: heartbeat, crash, register, reserve",
    ceiling: 4,
    reserves: 1,
    heartbeats: 2,
    ends: 1,
    crashes: true,
    registers: 2,
    total: 7,
    rewind: true,
    ..NOTHING
};

/// A rewind and clean stops.
pub const REWIND_STOP: Bounds = Bounds {
    name: "rewind, stop: give back, farewell, halt, report, advance",
    ceiling: 4,
    reserves: 2,
    ends: 1,
    stops: true,
    farewells: true,
    registers: 2,
    slots: 2,
    total: 7,
    rewind: true,
    ..NOTHING
};

/// A rewind and holes.
pub const REWIND_HOLES: Bounds = Bounds {
    name: "rewind, holes: names, draws, halt, report, advance",
    ceiling: 4,
    reserves: 1,
    withholds: 2,
    names: &[0],
    draws: &[1],
    registers: 2,
    slots: 2,
    total: 7,
    rewind: true,
    ..NOTHING
};

pub const ALL: &[Bounds] = &[STOCK, HOLES, REWIND, REWIND_TWICE, REWIND_LIVES, REWIND_STOP, REWIND_HOLES];

impl Bounds {
    /// The same world, small enough for every test run.
    #[must_use]
    pub const fn smoke(self) -> Self {
        let reserves = if self.reserves > 2 { 2 } else { self.reserves };
        let total = if self.total > 5 { 5 } else { self.total };
        Self { reserves, total, slots: 2, ..self }
    }
}
