//! How long an ID takes: `cargo run --release -p keymill-id --example snowflake_speed`.
//!
//! Prints nanoseconds an ID on one core, the best of several runs, in the `default` layout. The clock is a
//! number that goes up when a tick is used up, so that nothing but the generator is measured.

use std::{hint::black_box, time::Instant};

use keymill_id::{Generator, Layout, Next, Settings, SharedGenerator, UlidMonotonic, Uuid7, Window};

const IDS: u64 = 4_000_000;
const BATCH: usize = 1000;
const RUNS: usize = 9;

fn main() {
    let layout = Layout::parse("default", None, None).expect("a preset");
    let window = Window::new(0, layout.ticks()).expect("not empty");

    let mut ids = Generator::new(layout.clone(), 0, 17, window, Settings::default());
    let mut now = 0;
    report("Generator::next", || {
        for _ in 0..IDS {
            while !matches!(black_box(ids.next(black_box(now))), Next::Id(_)) {
                now += 1;
            }
        }
    });

    let mut ids = Generator::new(layout.clone(), 0, 17, window, Settings::default());
    let mut now = 0;
    let mut out = Vec::with_capacity(BATCH);
    report("Generator::next_many, 1000 at a time", || {
        for _ in 0..IDS / BATCH as u64 {
            out.clear();
            while ids.next_many(black_box(now), BATCH - out.len(), &mut out).is_err() {
                now += 1;
            }
            black_box(&out);
        }
    });

    let shared = SharedGenerator::new(layout.clone(), 0, 17, window, Settings::default());
    let mut now = 0;
    report("SharedGenerator::next, one thread", || {
        for _ in 0..IDS {
            while !matches!(black_box(shared.next(black_box(now))), Next::Id(_)) {
                now += 1;
            }
        }
    });

    let shared = SharedGenerator::new(layout, 0, 17, window, Settings::default());
    let mut now = 0;
    report("SharedGenerator::next_many, 1000 at a time", || {
        for _ in 0..IDS / BATCH as u64 {
            out.clear();
            while shared.next_many(black_box(now), BATCH - out.len(), &mut out).is_err() {
                now += 1;
            }
            black_box(&out);
        }
    });

    let mut uuids = Uuid7::default();
    report("Uuid7::next, as bytes", || {
        for n in 0..IDS {
            black_box(uuids.next(black_box(1_767_225_600_000 + n / 1000), black_box([7; 10])));
        }
    });

    let mut ulids = UlidMonotonic::default();
    report("UlidMonotonic::next, as bytes", || {
        for n in 0..IDS {
            black_box(ulids.next(black_box(1_767_225_600_000 + n / 1000), black_box([7; 10])));
        }
    });
}

fn report(what: &str, mut work: impl FnMut()) {
    let best = (0..RUNS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    let best = best.min().expect("at least one run");
    println!("{:6.2} ns/ID  {what}", best.as_secs_f64() * 1e9 / IDS as f64);
}
