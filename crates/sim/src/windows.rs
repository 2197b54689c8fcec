//! Two nodes that both want to be worker 0, with clocks that differ and step: the world of windows.
//!
//! IDs are made by the real [`Generator`], windows are cut by the real [`TrackRow`]. A node that waits,
//! sleeps or is cut off simply does nothing while the other acts; a request of it may arrive at any later
//! time, be answered, or be answered to nobody. Every node is granted the worker whenever it asks, because
//! leases are not what uniqueness rests on; where a control rests it on them, they are judged by the asker's
//! own clock, which is the worst an engine without a clock can do. Generators borrow and count on through a rollback, because
//! those that wait do less.
//!
//! What must never be is one ID made twice. Leases alone do not prevent it, however patient: see
//! [`Guard`].

use std::{fmt, num::NonZeroU64, sync::LazyLock};

use keymill_id::{Generator, Layout, Next, Number, OnOverflow, OnRollback, Settings, Window};
use keymill_ledger::{LeaseRow, Timestamp, TrackRow, WorkerId};

use crate::{search::Model, world::fold};

/// Four bits of time, and two IDs a tick.
static LAYOUT: LazyLock<Layout> = LazyLock::new(|| {
    Layout::parse("time:4 worker:1 sequence:1", Some(1), Some(0)).expect("a layout of six bits")
});

/// What keeps two owners of one worker apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// All of them.
    None,
    /// Ticks are embedded only inside a reserved window. Off: whoever believes to hold the lease makes IDs.
    Windows,
    /// The same, and a lease is free only some time after it ended.
    WindowsBesidesADelay,
    /// A window begins at the track's cursor or above. Off: it begins where the clock is.
    AboveTheCursor,
    /// A window ends. Off: a node goes on beyond it.
    UpToTheEnd,
    /// A tick that was begun counts as issued. Off: it is given back with the rest.
    BegunIsIssued,
}

impl Guard {
    /// Those that can be taken away.
    pub const ALL: &[Self] = &[
        Self::Windows,
        Self::WindowsBesidesADelay,
        Self::AboveTheCursor,
        Self::UpToTheEnd,
        Self::BegunIsIssued,
    ];

    /// The search that must find an ID made twice. Leases are undone by clocks alone, without a crash.
    pub const fn control(self) -> Windows {
        match self {
            Self::Windows | Self::WindowsBesidesADelay => Windows { off: self, ..CLOCKS },
            _ => Windows { off: self, ..LIVES },
        }
    }
}

/// What is done instead.
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "nothing",
            Self::Windows => "a lease instead of a window",
            Self::WindowsBesidesADelay => "a lease and a recycle delay instead of a window",
            Self::AboveTheCursor => "a window that begins where the clock is",
            Self::UpToTheEnd => "a window without an end",
            Self::BegunIsIssued => "a begun tick given back",
        })
    }
}

/// How large the world is.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    pub name: &'static str,
    pub off: Guard,
    /// True time ends here.
    pub time: u8,
    /// How often each clock steps, by [`STEPS`].
    pub steps: u8,
    /// How often each node crashes or stops.
    pub ends: u8,
    /// Windows that each life asks for, and IDs that it makes, at most.
    pub windows: u8,
    pub ids: u8,
}

/// Ticks of one window.
const WINDOW: u8 = 2;
/// How long a lease lasts, and how much longer the delay is.
const TTL: u8 = 2;
const DELAY: u8 = 2;
/// By how much a clock steps.
const STEPS: [i8; 2] = [-2, 3];
const BORROW_MAX: u64 = 1;

/// One window a life; crashes, stops and give-backs.
pub const LIVES: Windows = Windows {
    name: "windows, lives: two owners of a worker, crashes, stops",
    off: Guard::None,
    time: 2,
    steps: 1,
    ends: 1,
    windows: 1,
    ids: 2,
};

/// One life each; windows that are extended while clocks step.
pub const CLOCKS: Windows = Windows {
    name: "windows, clocks: two owners of a worker, steps, extensions",
    ends: 0,
    windows: 2,
    ids: 3,
    ..LIVES
};

pub const ALL: &[Windows] = &[LIVES, CLOCKS];

impl Windows {
    /// The same world, small enough for every test run.
    #[must_use]
    pub const fn smoke(self) -> Self {
        Self { time: 1, ids: 1, ..self }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    time: u8,
    cursor: u8,
    revision: u8,
    lease: Option<Lease>,
    nodes: [Node; 2],
    /// A bit per ID that was made; no decision reads it.
    made: u32,
    made_twice: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lease {
    holder: u8,
    expires: u8,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Node {
    skew: i8,
    steps: u8,
    ends: u8,
    /// Of this life.
    windows: u8,
    ids: u8,
    lane: Option<Lane>,
    /// When the lease ends by our own clock; 0: we have none.
    leased_until: u8,
    request: Option<Request>,
    /// What its last life asked for, if that is still under way. Nobody listens to the answer.
    late: Option<Request>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Lane {
    generator: Generator,
    /// Where the run of windows begins that lie end to end.
    start: u8,
    revision: u8,
}

/// What was asked, and when by the asker's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Request {
    Lease { at: u8 },
    Reserve { at: u8 },
    GiveBack { from: u8, revision: u8 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Tick,
    Clock { node: u8, by: i8 },
    Ask { node: u8, what: &'static str },
    Answer { node: u8, what: &'static str, heard: bool },
    Lost { node: u8 },
    Make { node: u8, id: u8 },
    Crash { node: u8 },
    Stop { node: u8 },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |node: &u8| ["a", "b"][usize::from(*node)];
        match self {
            Self::Tick => write!(f, "time passes"),
            Self::Clock { node, by } => write!(f, "the clock of {} steps by {by}", name(node)),
            Self::Ask { node, what } => write!(f, "{} asks for {what}", name(node)),
            Self::Answer { node, what, heard: true } => write!(f, "{} is answered: {what}", name(node)),
            Self::Answer { node, what, heard: false } => {
                write!(f, "{} is answered, and does not hear it: {what}", name(node))
            }
            Self::Lost { node } => write!(f, "a request of {} is lost", name(node)),
            Self::Make { node, id } => write!(f, "{} makes ID {id}: tick {}", name(node), id / 4),
            Self::Crash { node } => write!(f, "{} crashes and starts again", name(node)),
            Self::Stop { node } => write!(f, "{} stops, gives back and starts again", name(node)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MadeTwice;

impl fmt::Display for MadeTwice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an ID was made twice")
    }
}

impl World {
    /// What a node's clock says.
    fn clock(&self, node: usize) -> u8 {
        self.time.saturating_add_signed(self.nodes[node].skew)
    }
}

impl Model for Windows {
    type World = World;
    type Step = Step;
    type Violation = MadeTwice;

    fn beginning(&self) -> World {
        let nodes = [Node::default(), Node::default()];
        World { time: 2, cursor: 0, revision: 0, lease: None, nodes, made: 0, made_twice: false }
    }

    fn successors(&self, world: &World, next: &mut Vec<(Step, World)>) {
        if world.time < self.time + 2 {
            next.push((Step::Tick, World { time: world.time + 1, ..world.clone() }));
        }
        for node in 0..world.nodes.len() {
            self.clock_steps(world, node, next);
            self.asks(world, node, next);
            self.arrives(world, node, next);
            self.makes(world, node, next);
            self.ends(world, node, next);
        }
    }

    fn fingerprint(&self, world: &World) -> u64 {
        let mut mirrored = world.clone();
        mirrored.nodes.swap(0, 1);
        if let Some(lease) = &mut mirrored.lease {
            lease.holder = 1 - lease.holder;
        }
        fold(world).min(fold(&mirrored))
    }

    fn violation(&self, world: &World) -> Option<MadeTwice> {
        world.made_twice.then_some(MadeTwice)
    }
}

impl Windows {
    fn leases_only(&self) -> bool {
        matches!(self.off, Guard::Windows | Guard::WindowsBesidesADelay)
    }

    fn clock_steps(&self, world: &World, node: usize, next: &mut Vec<(Step, World)>) {
        if world.nodes[node].steps == self.steps {
            return;
        }
        for by in STEPS {
            let mut world = world.clone();
            world.nodes[node].skew += by;
            world.nodes[node].steps += 1;
            next.push((Step::Clock { node: small(node), by }, world));
        }
    }

    /// One request at a time, as through a pen.
    fn asks(&self, world: &World, node: usize, next: &mut Vec<(Step, World)>) {
        let at = world.clock(node);
        let Node { request: None, lane, windows, .. } = &world.nodes[node] else { return };
        let mut ask = |request, what| {
            let mut world = world.clone();
            world.nodes[node].request = Some(request);
            world.nodes[node].windows += u8::from(!self.leases_only());
            next.push((Step::Ask { node: small(node), what }, world));
        };
        let window_left = lane.as_ref().map_or(0, |lane| lane.generator.ticks_left(at.into()));
        if self.leases_only() {
            ask(Request::Lease { at }, "the lease");
        } else if window_left < WINDOW.into() && *windows < self.windows {
            ask(Request::Reserve { at }, "a window");
        }
    }

    fn arrives(&self, world: &World, node: usize, next: &mut Vec<(Step, World)>) {
        let mut rest = world.clone();
        if let Some(request) = rest.nodes[node].request.take() {
            next.push((Step::Lost { node: small(node) }, rest.clone()));
            next.push(self.answered(&rest, node, request, true));
            next.push(self.answered(&rest, node, request, false));
        }
        let mut rest = world.clone();
        if let Some(request) = rest.nodes[node].late.take() {
            next.push((Step::Lost { node: small(node) }, rest.clone()));
            next.push(self.answered(&rest, node, request, false));
        }
    }

    fn answered(&self, world: &World, node: usize, request: Request, heard: bool) -> (Step, World) {
        let mut world = world.clone();
        let what = match request {
            Request::Lease { at } => self.leases(&mut world, node, at, heard),
            Request::Reserve { at } => self.reserves(&mut world, node, at, heard),
            Request::GiveBack { from, revision } => Self::gives_back(&mut world, from, revision),
        };
        (Step::Answer { node: small(node), what, heard }, world)
    }

    fn leases(&self, world: &mut World, node: usize, at: u8, heard: bool) -> &'static str {
        let holder = small(node);
        let delay = if self.off == Guard::WindowsBesidesADelay { DELAY } else { 0 };
        let is_anothers = world.lease.is_some_and(|lease| {
            let row = lease.to_row(delay);
            lease.holder != holder && row.is_live(Timestamp(at.into()))
        });
        if is_anothers {
            return "the lease is another's";
        }
        world.lease = Some(Lease { holder, expires: at + TTL });
        if heard {
            let clock = world.clock(node);
            let node = &mut world.nodes[node];
            node.leased_until = at + TTL;
            if self.leases_only() && node.lane.is_none() {
                let window = window(clock, small(LAYOUT.ticks()));
                node.lane = window.map(|window| Lane { generator: generator(window), start: 0, revision: 0 });
            }
        }
        "the lease is its own"
    }

    fn reserves(&self, world: &mut World, node: usize, at: u8, heard: bool) -> &'static str {
        let row = TrackRow {
            cursor: number(if self.off == Guard::AboveTheCursor { 0 } else { world.cursor }),
            revision: world.revision.into(),
            ..TrackRow::default()
        };
        let count = NonZeroU64::new(WINDOW.into()).expect("a window is not empty");
        let Some((row, block)) = row.reserve(number(at), count, number(small(LAYOUT.ticks()))) else {
            return "time is over";
        };
        (world.cursor, world.revision) = (small(row.cursor.get()), small(row.revision));
        if !heard {
            return "a window";
        }
        let (start, end) = (small(block.start().get()), small(block.end().get()));
        let end = if self.off == Guard::UpToTheEnd { small(LAYOUT.ticks()) } else { end };
        let window = window(start, end).expect("a block is not empty");
        let revision = world.revision;
        match &mut world.nodes[node].lane {
            None => {
                world.nodes[node].lane = Some(Lane { generator: generator(window), start, revision });
            }
            // The controls' windows may overlap our own, which the generator would not take.
            Some(lane) if window.start() >= lane.generator.window().end() => {
                if window.start() != lane.generator.window().end() {
                    lane.start = start;
                }
                lane.revision = revision;
                lane.generator.extend(window);
            }
            Some(_) => {}
        }
        "a window"
    }

    fn gives_back(world: &mut World, from: u8, revision: u8) -> &'static str {
        let row = TrackRow {
            cursor: number(world.cursor),
            revision: world.revision.into(),
            reserved: LAYOUT.ticks(),
            ..TrackRow::default()
        };
        match row.give_back(number(from), revision.into()) {
            None => "nothing is taken back",
            Some((row, _)) => {
                (world.cursor, world.revision) = (small(row.cursor.get()), small(row.revision));
                "its window is taken back"
            }
        }
    }

    fn makes(&self, world: &World, node: usize, next: &mut Vec<(Step, World)>) {
        let clock = world.clock(node);
        if world.nodes[node].ids == self.ids {
            return;
        }
        let believes = !self.leases_only() || clock < world.nodes[node].leased_until;
        let mut world = world.clone();
        let Some(lane) = world.nodes[node].lane.as_mut().filter(|_| believes) else { return };
        let Next::Id(id) = lane.generator.next(clock.into()) else { return };
        // Worker 0: its bit is always clear, so that bits and IDs need not be told apart.
        let bit = 1 << (id >> 2 << 1 | id & 1);
        world.made_twice = world.made & bit != 0;
        world.made |= bit;
        world.nodes[node].ids += 1;
        next.push((Step::Make { node: small(node), id: small(id) }, world));
    }

    fn ends(&self, world: &World, node: usize, next: &mut Vec<(Step, World)>) {
        let Node { skew, steps, ends, lane, request, .. } = &world.nodes[node];
        if *ends == self.ends {
            return;
        }
        let reborn = Node { skew: *skew, steps: *steps, ends: ends + 1, ..Node::default() };
        let mut crashed = world.clone();
        crashed.nodes[node] = Node { late: *request, ..reborn.clone() };
        next.push((Step::Crash { node: small(node) }, crashed));
        let Some(lane) = lane.clone().filter(|_| !self.leases_only()) else { return };
        let begun = self.off == Guard::BegunIsIssued && world.nodes[node].ids > 0;
        let Some(unused) = lane.generator.stop() else { return };
        let from = (small(unused.start()) - u8::from(begun)).max(lane.start);
        let request = Request::GiveBack { from, revision: lane.revision };
        let mut stopped = world.clone();
        stopped.nodes[node] = Node { late: Some(request), ..reborn };
        next.push((Step::Stop { node: small(node) }, stopped));
    }
}

impl Lease {
    fn to_row(self, delay: u8) -> LeaseRow {
        LeaseRow {
            keyspace: keymill_id::KeyspaceName::parse("events").expect("a good name"),
            worker: WorkerId(0),
            holder: String::new(),
            term: 1,
            expires_at: Timestamp((self.expires + delay).into()),
            released: false,
        }
    }
}

fn generator(window: Window) -> Generator {
    let settings = Settings {
        sequence_start: 0,
        on_overflow: OnOverflow::Borrow { ticks_max: BORROW_MAX },
        on_rollback: OnRollback::Logical,
    };
    Generator::new(LAYOUT.clone(), 0, 0, window, settings)
}

fn window(start: u8, end: u8) -> Option<Window> {
    Window::new(start.into(), end.into())
}

fn number(value: u8) -> Number {
    Number::new(value.into()).expect("small")
}

fn small<T: TryInto<u8>>(value: T) -> u8 {
    value.try_into().ok().expect("the world is small")
}
