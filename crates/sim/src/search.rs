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

use crate::{
    invariants::Violation,
    step::{Rules, Step, beginning},
    world::World,
};

const THREADS: usize = 2;
const SHARDS: usize = 64;
/// Worlds a thread takes from the frontier at a time.
const BITE: usize = 256;

/// How a search ended.
#[derive(Debug)]
pub struct Outcome {
    pub states: usize,
    pub depth: usize,
    pub took: Duration,
    pub verdict: Verdict,
}

#[derive(Debug)]
pub enum Verdict {
    /// Every world was seen.
    Exhausted,
    Violated(Trace),
    /// There were more worlds than allowed.
    TooLarge,
}

/// The steps from the beginning to what must not be.
#[derive(Debug)]
pub struct Trace {
    pub violation: Violation,
    pub steps: Vec<Step>,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "  {:>2}. {step}", at + 1)?;
        }
        writeln!(f, "      {}", self.violation)
    }
}

/// Explores `rules` to the end, to the first violation, or to `most` worlds.
pub fn explore(rules: &Rules, most: usize) -> Outcome {
    let begun = Instant::now();
    let seen = Seen::default();
    let first = beginning();
    seen.insert(first.fingerprint(), 0);
    let mut frontier = vec![first];
    let mut depth = 0;
    let states = AtomicUsize::new(1);
    let verdict = loop {
        let (next, violated) = widen(rules, &frontier, &seen, &states, most);
        if let Some(world) = violated {
            depth += 1;
            break Verdict::Violated(trace(rules, &seen, &world));
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
fn widen(
    rules: &Rules,
    frontier: &[World],
    seen: &Seen,
    states: &AtomicUsize,
    most: usize,
) -> (Vec<World>, Option<World>) {
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
                let parent = world.fingerprint();
                rules.successors(world, &mut next);
                for (_, child) in next.drain(..) {
                    if !seen.insert(child.fingerprint(), parent) {
                        continue;
                    }
                    if child.ghost.violation.is_some() {
                        violated.lock().expect(UNBROKEN).get_or_insert(child);
                        over.store(true, Ordering::Relaxed);
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

fn trace(rules: &Rules, seen: &Seen, last: &World) -> Trace {
    let mut path = vec![last.fingerprint()];
    while let Some(parent) = seen.parent(path[path.len() - 1]).filter(|parent| *parent != 0) {
        path.push(parent);
    }
    let mut world = beginning();
    let mut steps = Vec::new();
    let mut next = Vec::new();
    for fingerprint in path.iter().rev().skip(1) {
        rules.successors(&world, &mut next);
        let (step, child) = next
            .drain(..)
            .find(|(_, child)| child.fingerprint() == *fingerprint)
            .expect("a parent leads to its child");
        steps.push(step);
        world = child;
    }
    Trace { violation: world.ghost.violation.expect("the last world violates"), steps }
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
