//! Taking keys in process, next to an atomic counter.

use std::{
    hint::black_box,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use keymill_id::{Block, Definition, Mint, Number, Scratch, Secret, Stated};
use keymill_issuer::shelf::{Chunk, Shelf};

use crate::{best, compare};

const KEYS: u64 = 4 << 20;
const CHUNK: u64 = 4096;
const RUNS: usize = 7;

pub(crate) fn run() -> anyhow::Result<()> {
    let mint = links()?;
    let atomic = AtomicU64::new(0);
    let add = best(RUNS, || {
        per_item(KEYS, || {
            for _ in 0..KEYS {
                black_box(atomic.fetch_add(1, Ordering::Relaxed));
            }
        })
    });
    compare("AtomicU64::fetch_add, one thread", add, "ns", "", 1.0, "-");

    let mut out = Vec::with_capacity(16);
    let one = best(RUNS, || {
        let shelf = stocked(&mint, 1, KEYS);
        per_item(KEYS, || {
            for _ in 0..KEYS {
                take_one(&shelf, &mut out);
            }
        })
    });
    compare("take one pre-spelled key", one, "ns", "an atomic", one / add, "<= 10x");

    let mut out = Vec::with_capacity(16 << 10);
    let batch = best(RUNS, || {
        let shelf = stocked(&mint, 1, KEYS);
        per_item(KEYS / 1000 * 1000, || {
            for _ in 0..KEYS / 1000 {
                out.clear();
                for piece in shelf.grab(1000).pieces() {
                    out.extend_from_slice(piece.joined());
                }
                black_box(&out);
            }
        })
    });
    compare("take 1000 keys at once, per key", batch, "ns", "an atomic", batch / add, "<= 5 ns");

    let one_thread = best(RUNS, || threads(&mint, 1));
    let two_threads = best(RUNS, || threads(&mint, 2));
    compare(
        "two threads, keys/s against one",
        two_threads,
        "ns",
        "one thread",
        one_thread / two_threads,
        ">= 1.7x",
    );
    Ok(())
}

/// As a front end does it: the shortest way, and the long one when a chunk is used up.
#[inline]
fn take_one(shelf: &Shelf, out: &mut Vec<u8>) {
    out.clear();
    if shelf.with_one(|key| out.extend_from_slice(key)).is_none() {
        shelf.grab(1).keys().for_each(|key| out.extend_from_slice(key));
    }
    black_box(out);
}

pub(crate) fn links() -> anyhow::Result<Mint> {
    mint(r#"{"scheme":"pool"}"#)
}

pub(crate) fn mint(stated: &str) -> anyhow::Result<Mint> {
    let stated: Stated = serde_json::from_str(stated)?;
    Ok(Mint::compile(&Definition::resolve(&stated, Secret::from_bytes([7; 32]))?))
}

fn stocked(mint: &Mint, lanes: usize, keys: u64) -> Shelf {
    let shelf = Shelf::new(lanes);
    let mut scratch = Scratch::default();
    for start in (0..keys).step_by(usize::try_from(CHUNK).expect("small")) {
        let number = |n| Number::new(n).expect("small");
        let block = Block::new(number(start), number(start + CHUNK)).expect("not empty");
        shelf.stack(Chunk::new(mint.spell_block(block, &[], &mut scratch)));
    }
    shelf
}

/// Nanoseconds per key, over all threads: half as many for two if nothing is shared.
#[expect(clippy::cast_precision_loss, reason = "a figure")]
fn threads(mint: &Mint, threads: usize) -> f64 {
    let shelf = stocked(mint, threads, KEYS);
    let each = KEYS / threads as u64;
    let start = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut out = Vec::with_capacity(16);
                    start.wait();
                    let begun = Instant::now();
                    for _ in 0..each {
                        take_one(&shelf, &mut out);
                    }
                    begun.elapsed()
                })
            })
            .collect();
        start.wait();
        let slowest = running.into_iter().map(|thread| thread.join().expect("no panic")).max();
        slowest.unwrap_or_default().as_nanos() as f64 / KEYS as f64
    })
}

#[expect(clippy::cast_precision_loss, reason = "a figure")]
pub(crate) fn per_item(items: u64, work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_nanos() as f64 / items as f64
}
