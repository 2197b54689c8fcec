//! Looks at every world there is, breadth first, so that the first counter-example is a shortest one.
//!
//! Visited worlds are kept as 64-bit fingerprints with their parent's, 16 bytes each: among 30 million
//! worlds two share one with a chance below 1 in 40 000. A trace is found again by walking forward from
//! the beginning along the parents' fingerprints.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// A small world: how it begins, what may follow, and what must never be.
pub trait Model: Sync {
    type World: Send + Sync;
    type Step: fmt::Debug + fmt::Display;
    type Violation: fmt::Debug + fmt::Display;

    fn beginning(&self) -> Self::World;
    /// Every world that may follow, and by which step.
    fn successors(&self, world: &Self::World, next: &mut Vec<(Self::Step, Self::World)>);
    /// Two worlds with the same future may share one.
    fn fingerprint(&self, world: &Self::World) -> u64;
    fn violation(&self, world: &Self::World) -> Option<Self::Violation>;
}

const THREADS: usize = 2;
const SHARDS: usize = 64;
/// Worlds a thread takes from the frontier at a time.
const BITE: usize = 256;

/// How a search ended.
#[derive(Debug)]
pub struct Outcome<M: Model> {
    pub states: usize,
    pub depth: usize,
    pub took: Duration,
    pub verdict: Verdict<M>,
}

#[derive(Debug)]
pub enum Verdict<M: Model> {
    /// Every world was seen.
    Exhausted,
    Violated(Trace<M>),
    /// There were more worlds than allowed.
    TooLarge,
}

/// The steps from the beginning to what must not be.
#[derive(Debug)]
pub struct Trace<M: Model> {
    pub violation: M::Violation,
    pub steps: Vec<M::Step>,
}

impl<M: Model> fmt::Display for Trace<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "  {:>2}. {step}", at + 1)?;
        }
        writeln!(f, "      {}", self.violation)
    }
}

/// Explores `model` to the end, to the first violation, or to `most` worlds.
pub fn explore<M: Model>(model: &M, most: usize) -> Outcome<M> {
    let begun = Instant::now();
    let seen = Seen::default();
    let first = model.beginning();
    seen.insert(model.fingerprint(&first), 0);
    let mut frontier = vec![first];
    let mut depth = 0;
    let states = AtomicUsize::new(1);
    let verdict = loop {
        let (next, violated) = widen(model, &frontier, &seen, &states, most);
        if let Some(world) = violated {
            depth += 1;
            break Verdict::Violated(trace(model, &seen, &world));
        }
        if next.is_empty() {
            break Verdict::Exhausted;
        }
        if states.load(Ordering::Relaxed) > most {
            break Verdict::TooLarge;
        }
        depth += 1;
        frontier = next;
    };
    Outcome { states: states.into_inner(), depth, took: begun.elapsed(), verdict }
}

/// One step deeper from every world of the frontier.
fn widen<M: Model>(
    model: &M,
    frontier: &[M::World],
    seen: &Seen,
    states: &AtomicUsize,
    most: usize,
) -> (Vec<M::World>, Option<M::World>) {
    let taken = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    let violated = Mutex::new(None);
    let work = || {
        let mut found = Vec::new();
        let mut next = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let from = taken.fetch_add(BITE, Ordering::Relaxed);
            let Some(bite) = frontier.get(from..frontier.len().min(from + BITE)).filter(|b| !b.is_empty())
            else {
                break;
            };
            let before = found.len();
            for world in bite {
                let parent = model.fingerprint(world);
                model.successors(world, &mut next);
                for (_, child) in next.drain(..) {
                    if !seen.insert(model.fingerprint(&child), parent) {
                        continue;
                    }
                    if model.violation(&child).is_some() {
                        violated.lock().expect(UNBROKEN).get_or_insert(child);
                        over.store(true, Ordering::Relaxed);
                        break;
                    }
                    found.push(child);
                }
            }
            let added = found.len() - before;
            if states.fetch_add(added, Ordering::Relaxed) + added > most {
                over.store(true, Ordering::Relaxed);
            }
        }
        found
    };
    let mut next = Vec::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            next.append(&mut worker.join().expect("a worker does not panic"));
        }
    });
    (next, violated.into_inner().expect(UNBROKEN))
}

fn trace<M: Model>(model: &M, seen: &Seen, last: &M::World) -> Trace<M> {
    let mut path = vec![model.fingerprint(last)];
    while let Some(parent) = seen.parent(path[path.len() - 1]).filter(|parent| *parent != 0) {
        path.push(parent);
    }
    let mut world = model.beginning();
    let mut steps = Vec::new();
    let mut next = Vec::new();
    for fingerprint in path.iter().rev().skip(1) {
        model.successors(&world, &mut next);
        let (step, child) = next
            .drain(..)
            .find(|(_, child)| model.fingerprint(child) == *fingerprint)
            .expect("a parent leads to its child");
        steps.push(step);
        world = child;
    }
    Trace { violation: model.violation(&world).expect("the last world violates"), steps }
}

/// Fingerprint to parent's fingerprint, in shards so that two threads seldom meet.
#[derive(Debug)]
struct Seen([Mutex<HashMap<u64, u64, BuildHasherDefault<AsIs>>>; SHARDS]);

impl Default for Seen {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Seen {
    fn shard(&self, fingerprint: u64) -> &Mutex<HashMap<u64, u64, BuildHasherDefault<AsIs>>> {
        &self.0[usize::from(fingerprint.to_le_bytes()[2]) % SHARDS]
    }

    /// Whether it was new.
    fn insert(&self, fingerprint: u64, parent: u64) -> bool {
        match self.shard(fingerprint).lock().expect(UNBROKEN).entry(fingerprint) {
            Entry::Occupied(_) => false,
            Entry::Vacant(slot) => {
                slot.insert(parent);
                true
            }
        }
    }

    fn parent(&self, fingerprint: u64) -> Option<u64> {
        self.shard(fingerprint).lock().expect(UNBROKEN).get(&fingerprint).copied()
    }
}

/// A fingerprint is a hash already.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are hashed")
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

const UNBROKEN: &str = "nothing panics while it holds this";
