//! Time-ordered IDs in process, next to ferroid's generators; and how much of a worker's ceiling is reached.
//!
//! Both make IDs of 41 bits of time and 21 of sequence here, so that no tick is used up while a call is
//! timed. The ceiling is that of the `default` layout: 4096 IDs a millisecond.

use std::{
    hint::{black_box, spin_loop},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ferroid::{
    generator::{AtomicSnowflakeGenerator, BasicSnowflakeGenerator},
    time::{MonotonicClock, TimeSource},
};
use keymill_id::{Generator, Layout, Next, Pause, Settings, SharedGenerator, Window};

use crate::{best, compare, take::per_item};

ferroid::define_snowflake_id!(
    WideId, u64,
    reserved: 1,
    timestamp: 41,
    machine_id: 1,
    sequence: 21
);

const IDS: u64 = 1 << 20;
const BATCH: u64 = 1000;
const RUNS: usize = 9;
const CEILING_RUNS: usize = 5;
const CEILING_FOR: Duration = Duration::from_secs(1);

pub(crate) fn run() -> anyhow::Result<()> {
    let wide = Layout::parse("time:41 worker:1 sequence:21", Some(1), Some(EPOCH_MS))?;
    with_the_system_clock(&wide);
    with_a_ticker(&wide);
    in_batches(&wide);
    ceiling(&Layout::parse("default", None, None)?);
    Ok(())
}

/// 2026-01-01T00:00:00Z
const EPOCH_MS: u64 = 1_767_225_600_000;

#[derive(Debug, Clone, Copy)]
struct SystemClock;

impl TimeSource<u64> for SystemClock {
    fn current_millis(&self) -> u64 {
        now_ms() - EPOCH_MS
    }
}

#[inline]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn with_the_system_clock(layout: &Layout) {
    let theirs = BasicSnowflakeGenerator::<WideId, _>::new(0, SystemClock);
    let theirs = best(RUNS, || {
        per_id(|| {
            black_box(theirs.next_id(|_| spin_loop()));
        })
    });
    compare("ferroid, system clock", theirs, "ns", "", 1.0, "-");
    let mut generator = Generator::new(layout.clone(), 0, 0, all(layout), Settings::default());
    let ours = best(RUNS, || per_id(|| next(|| generator.next(now_ms() - EPOCH_MS))));
    compare("one ID, system clock", ours, "ns", "ferroid", ours / theirs, "<= 1.2x");
    let shared = SharedGenerator::new(layout.clone(), 0, 0, all(layout), Settings::default());
    let ours = best(RUNS, || per_id(|| next(|| shared.next(now_ms() - EPOCH_MS))));
    compare("one ID, system clock, shared", ours, "ns", "ferroid, unshared", ours / theirs, "-");
}

fn with_a_ticker(layout: &Layout) {
    let ticker = Ticker::start();
    let clock = MonotonicClock::<1>::with_epoch(Duration::from_millis(EPOCH_MS));

    let theirs = BasicSnowflakeGenerator::<WideId, _>::new(0, clock.clone());
    let theirs = best(RUNS, || {
        per_id(|| {
            black_box(theirs.next_id(|_| spin_loop()));
        })
    });
    compare("ferroid, ticker", theirs, "ns", "", 1.0, "-");
    let mut generator = Generator::new(layout.clone(), 0, 0, all(layout), Settings::default());
    let ours = best(RUNS, || per_id(|| next(|| generator.next(ticker.tick()))));
    compare("one ID, ticker", ours, "ns", "ferroid", ours / theirs, "<= 2x");

    let theirs = AtomicSnowflakeGenerator::<WideId, _>::new(0, clock);
    let theirs = best(RUNS, || {
        per_id(|| {
            black_box(theirs.next_id(|_| spin_loop()));
        })
    });
    compare("ferroid, ticker, shared", theirs, "ns", "", 1.0, "-");
    let shared = SharedGenerator::new(layout.clone(), 0, 0, all(layout), Settings::default());
    let ours = best(RUNS, || per_id(|| next(|| shared.next(ticker.tick()))));
    compare("one ID, ticker, shared", ours, "ns", "ferroid", ours / theirs, "<= 2x");
}

fn in_batches(layout: &Layout) {
    let shared = SharedGenerator::new(layout.clone(), 0, 0, all(layout), Settings::default());
    let mut out = Vec::with_capacity(usize::try_from(BATCH).expect("small"));
    let ours = best(RUNS, || {
        per_item(IDS / BATCH * BATCH, || {
            for _ in 0..IDS / BATCH {
                out.clear();
                while out.len() < out.capacity() {
                    let left = out.capacity() - out.len();
                    let _ = shared.next_many(now_ms() - EPOCH_MS, left, &mut out);
                }
                black_box(&out);
            }
        })
    });
    compare("1000 IDs a call, system clock, shared, per ID", ours, "ns", "", 1.0, "<= 2 ns");
}

/// The share of all IDs that a worker's layout has room for, with one worker and with two.
#[expect(clippy::cast_precision_loss, reason = "figures")]
fn ceiling(layout: &Layout) {
    for lanes in [1_u32, 2] {
        let shares = (0..CEILING_RUNS).map(|_| {
            let stop = AtomicBool::new(false);
            let (made, took) = thread::scope(|scope| {
                let begun = Instant::now();
                let stop = &stop;
                let workers: Vec<_> =
                    (0..lanes).map(|worker| scope.spawn(move || make_ids(layout, worker, stop))).collect();
                thread::sleep(CEILING_FOR);
                stop.store(true, Ordering::Relaxed);
                let took = begun.elapsed();
                (workers.into_iter().map(|made| made.join().expect("no panic")).sum::<u64>(), took)
            });
            made as f64 / (took.as_secs_f64() * 1e3 * layout.per_tick() as f64) * 100.0
        });
        let share = shares.fold(0.0, f64::max);
        let what = format!("of 4096 IDs a millisecond, {lanes} lane(s)");
        compare(&what, share, "%", "", share / 100.0, if lanes == 1 { ">= 99 %" } else { ">= 198 %" });
    }
}

/// IDs of one worker, as fast as its clock allows.
fn make_ids(layout: &Layout, worker: u32, stop: &AtomicBool) -> u64 {
    let settings = Settings { sequence_start: 0, ..Settings::default() };
    let mut generator = Generator::new(layout.clone(), 0, worker, all(layout), settings);
    let mut made = 0;
    while !stop.load(Ordering::Relaxed) {
        match generator.run(layout.tick_of_clock(now_ms()), BATCH) {
            Ok(run) => made += black_box(run).count,
            Err(Pause::TickUsedUp) => spin_loop(),
            Err(pause) => unreachable!("the clock runs and the window is wide: {pause:?}"),
        }
    }
    made
}

fn all(layout: &Layout) -> Window {
    Window::new(0, layout.ticks()).expect("not empty")
}

#[inline]
fn next(mut ask: impl FnMut() -> Next) {
    while !matches!(black_box(ask()), Next::Id(_)) {
        spin_loop();
    }
}

fn per_id(mut make: impl FnMut()) -> f64 {
    per_item(IDS, || (0..IDS).for_each(|_| make()))
}

/// A clock that somebody else reads, once a millisecond.
#[derive(Debug)]
struct Ticker {
    tick: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Ticker {
    fn start() -> Self {
        let ticker = Self { tick: Arc::new((now_ms() - EPOCH_MS).into()), stop: Arc::default() };
        let (tick, stop) = (ticker.tick.clone(), ticker.stop.clone());
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
                tick.store(now_ms() - EPOCH_MS, Ordering::Relaxed);
            }
        });
        ticker
    }

    #[inline]
    fn tick(&self) -> u64 {
        self.tick.load(Ordering::Relaxed)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
