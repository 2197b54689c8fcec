//! Generators under clocks that lie: unique, increasing, inside the window.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use keymill_id::{Generator, Layout, Next, OnOverflow, OnRollback, Pause, Settings, SharedGenerator, Window};
use proptest::prelude::*;

fn layout(text: &str) -> Layout {
    Layout::parse(text, None, None).unwrap()
}

/// Four IDs a tick, worker 5.
fn small() -> Layout {
    layout("time:30 worker:4 sequence:2")
}

fn window(start: u64, end: u64) -> Window {
    Window::new(start, end).unwrap()
}

/// Every tick from sequence 0, so that tests can name IDs.
const PLAIN: Settings =
    Settings { sequence_start: 0, on_overflow: OnOverflow::Wait, on_rollback: OnRollback::Refuse };

fn generator(start: u64, end: u64, settings: Settings) -> Generator {
    Generator::new(small(), 0, 5, window(start, end), settings)
}

fn id(tick: u64, sequence: u64) -> Next {
    Next::Id(small().compose(tick, 0, 5, sequence))
}

#[test]
fn a_tick_is_counted_through_and_then_used_up() {
    let mut ids = generator(10, 20, PLAIN);
    for sequence in 0..4 {
        assert_eq!(ids.next(12), id(12, sequence));
    }
    assert_eq!(ids.next(12), Next::TickUsedUp);
    assert_eq!(ids.next(13), id(13, 0));
    assert_eq!(ids.ticks_borrowed(), 0);
}

#[test]
fn a_clock_before_the_window_or_before_an_earlier_reading_is_behind() {
    let mut ids = generator(10, 20, PLAIN);
    assert_eq!(ids.next(7), Next::ClockBehind { by: 3 });
    assert_eq!(ids.next(15), id(15, 0));
    assert_eq!(ids.next(11), Next::ClockBehind { by: 4 });
    assert_eq!(ids.next(15), id(15, 1), "where it left off");
}

#[test]
fn a_clock_beyond_the_window_embeds_nothing_and_is_forgotten() {
    let mut ids = generator(10, 20, PLAIN);
    assert_eq!(ids.next(15), id(15, 0));
    assert_eq!(ids.next(20), Next::WindowUsedUp);
    assert_eq!(ids.next(1 << 29), Next::WindowUsedUp);
    assert_eq!(ids.next(15), id(15, 1), "a jump that was corrected costs nothing");
    ids.extend(window(20, 30));
    assert_eq!(ids.next(20), id(20, 0));
    assert_eq!((ids.window(), ids.ticks_left(22)), (window(10, 30), 8));
}

#[test]
fn ticks_are_borrowed_up_to_a_bound_and_paid_back() {
    let borrow = OnOverflow::Borrow { ticks_max: 2 };
    let mut ids = generator(10, 20, Settings { on_overflow: borrow, ..PLAIN });
    let mut out = Vec::new();
    assert_eq!(ids.next_many(10, 100, &mut out), Err(Pause::TickUsedUp));
    assert_eq!(out.len(), 12, "ticks 10, 11 and 12");
    assert_eq!((ids.ticks_borrowed(), ids.ahead()), (2, 2));
    assert_eq!(ids.next(11), id(13, 0), "another tick, another to borrow");
    assert_eq!(ids.next(9), Next::ClockBehind { by: 2 }, "borrowing is no excuse for a clock that goes back");
    assert_eq!(ids.next(15), id(15, 0));
    assert_eq!((ids.ticks_borrowed(), ids.ahead()), (3, 0));
}

#[test]
fn borrowing_ends_with_the_window() {
    let borrow = OnOverflow::Borrow { ticks_max: 1000 };
    let mut ids = generator(10, 13, Settings { on_overflow: borrow, ..PLAIN });
    let mut out = Vec::new();
    assert_eq!(ids.next_many(10, 100, &mut out), Err(Pause::WindowUsedUp));
    assert_eq!(out.len(), 12);
}

#[test]
fn a_logical_clock_goes_on_at_the_pace_of_the_real_one() {
    let mut ids = generator(10, 20, Settings { on_rollback: OnRollback::Logical, ..PLAIN });
    assert_eq!(ids.next(15), id(15, 0));
    assert_eq!(ids.next(3), id(15, 1));
    assert_eq!(ids.ahead(), 12);
    assert_eq!(ids.next(3), id(15, 2));
    assert_eq!(ids.next(3), id(15, 3));
    assert_eq!(ids.next(3), Next::TickUsedUp, "not faster than with a clock that runs");
    assert_eq!(ids.next(4), id(16, 0));
    assert_eq!(ids.next(1), id(16, 1), "back once more");
    assert_eq!(ids.next(17), id(17, 0), "the clock has caught up");
    assert_eq!(ids.ahead(), 0);
    assert_eq!(ids.next(19), id(19, 0));
    for sequence in 1..4 {
        assert_eq!(ids.next(2), id(19, sequence));
    }
    assert_eq!(ids.next(3), Next::WindowUsedUp, "whatever the clock says");
}

#[test]
fn a_logical_clock_starts_in_a_window_that_is_ahead_of_it() {
    let mut ids = generator(10, 20, Settings { on_rollback: OnRollback::Logical, ..PLAIN });
    assert_eq!(ids.next(2), id(10, 0));
    assert_eq!(ids.ahead(), 8);
}

#[test]
fn ids_at_low_traffic_are_even_and_odd() {
    // One ID a call, at steady intervals: every tick, every second one, every tenth, every thousandth.
    for interval in [1, 2, 10, 1000] {
        let mut ids = Generator::new(layout("default"), 0, 0, window(0, 1 << 30), Settings::default());
        let odd = (0..1000).filter(|n| matches!(ids.next(n * interval), Next::Id(id) if id % 2 == 1)).count();
        assert!((400..600).contains(&odd), "{odd} of 1000 are odd at interval {interval}");
        let mut even = Generator::new(layout("default"), 0, 0, window(0, 1 << 30), PLAIN);
        assert!((0..1000).all(|n| matches!(even.next(n * interval), Next::Id(id) if id % 2 == 0)), "control");
    }
}

#[test]
fn a_sequence_starts_anywhere_up_to_its_setting() {
    let settings = Settings { sequence_start: 9, ..PLAIN };
    let mut ids = Generator::new(layout("default"), 0, 0, window(0, 1000), settings);
    let starts: HashSet<_> = (0..1000).map(|now| ids.run(now, 1).unwrap().first & 0xfff).collect();
    assert_eq!(starts, (0..=9).collect());
    // A setting beyond what the layout has is cut down to it.
    let mut ids = generator(0, 1000, Settings { sequence_start: u64::MAX, ..PLAIN });
    assert!((0..1000).all(|now| matches!(ids.next(now), Next::Id(_))));
}

#[test]
fn a_run_steps_over_the_fields_below_the_sequence() {
    let sonyflake = layout("sonyflake");
    let mut ids = Generator::new(sonyflake.clone(), 0, 513, window(0, 10), PLAIN);
    let run = ids.run(3, 1000).unwrap();
    assert_eq!((run.count, run.step), (256, 1 << 16));
    let expected: Vec<_> = (0..256).map(|sequence| sonyflake.compose(3, 0, 513, sequence)).collect();
    assert_eq!(run.ids().collect::<Vec<_>>(), expected);
}

#[test]
fn a_layout_without_a_sequence_makes_one_id_a_tick() {
    let bare = layout("time:41");
    let mut ids = Generator::new(bare.clone(), 0, 0, window(0, 10), Settings::default());
    assert_eq!((ids.next(3), ids.next(3), ids.next(4)), (Next::Id(3), Next::TickUsedUp, Next::Id(4)));
    let shared = SharedGenerator::new(bare, 0, 0, window(0, 10), Settings::default());
    assert_eq!(
        (shared.next(3), shared.next(3), shared.next(4)),
        (Next::Id(3), Next::TickUsedUp, Next::Id(4))
    );
}

#[test]
fn the_last_tick_of_a_layout_is_issued_and_nothing_follows() {
    let layout = small();
    let end = layout.ticks();
    let last = Next::Id(layout.compose(end - 1, 0, 5, 0));
    let mut ids = Generator::new(layout.clone(), 0, 5, window(end - 1, end), PLAIN);
    let shared = SharedGenerator::new(layout, 0, 5, window(end - 1, end), PLAIN);
    assert_eq!((ids.next(end - 1), shared.next(end - 1)), (last, last));
    assert_eq!((ids.next(end), shared.next(end)), (Next::WindowUsedUp, Next::WindowUsedUp));
    assert_eq!((ids.next(u64::MAX), shared.next(u64::MAX)), (Next::WindowUsedUp, Next::WindowUsedUp));
}

#[test]
fn stopping_gives_back_what_was_never_begun() {
    for start in [0, 1, 3] {
        let settings = Settings { sequence_start: start, ..PLAIN };
        assert_eq!(generator(10, 20, settings).stop(), Some(window(10, 20)));
        let mut ids = generator(10, 20, settings);
        ids.next(10);
        assert_eq!(ids.stop(), Some(window(11, 20)), "a tick that was begun counts as issued");
        let mut ids = generator(10, 20, settings);
        ids.next(19);
        assert_eq!(ids.stop(), None);

        let shared = SharedGenerator::new(small(), 0, 5, window(10, 20), settings);
        assert!(matches!(shared.next(14), Next::Id(_)));
        assert_eq!(shared.stop(), Some(window(15, 20)));
        assert_eq!(shared.stop(), None, "once");
        for now in [0, 14, 15, 19, 20, small().ticks() - 1, small().ticks(), u64::MAX] {
            assert!(!matches!(shared.next(now), Next::Id(_)), "at {now}");
        }
        shared.extend(window(20, small().ticks()));
        for now in [14, 25, small().ticks() - 1, small().ticks()] {
            assert!(!matches!(shared.next(now), Next::Id(_)), "nor after an extension that came too late");
        }
    }
}

#[test]
fn a_gap_between_windows_is_never_embedded() {
    let mut ids = generator(10, 12, PLAIN);
    let shared = SharedGenerator::new(small(), 0, 5, window(10, 12), PLAIN);
    assert_eq!((ids.next(10), shared.next(10)), (id(10, 0), id(10, 0)));
    ids.extend(window(15, 18));
    shared.extend(window(15, 18));
    assert_eq!((ids.next(11), shared.next(11)), (Next::ClockBehind { by: 4 }, Next::ClockBehind { by: 4 }));
    assert_eq!(ids.next(13), Next::ClockBehind { by: 2 });
    assert_eq!((ids.next(15), shared.next(15)), (id(15, 0), id(15, 0)));
}

#[test]
#[should_panic = "reaches back"]
fn a_window_that_reaches_back_is_refused() {
    generator(10, 20, PLAIN).extend(window(19, 30));
}

#[test]
#[should_panic = "reaches back"]
fn a_shared_generator_refuses_it_too() {
    SharedGenerator::new(small(), 0, 5, window(10, 20), PLAIN).extend(window(19, 30));
}

#[test]
#[should_panic = "beyond the end"]
fn a_window_beyond_the_layout_is_refused() {
    generator(10, (1 << 30) + 1, PLAIN);
}

#[test]
#[should_panic = "decoded only"]
fn an_id_of_64_bits_is_not_issued() {
    Generator::new(layout("discord"), 0, 5, window(10, 20), PLAIN);
}

#[test]
#[should_panic = "does not fit"]
fn a_worker_that_the_layout_cannot_hold_is_refused() {
    Generator::new(small(), 0, 16, window(10, 20), PLAIN);
}

#[test]
fn a_thread_that_was_just_overtaken_is_not_told_that_the_clock_went_back() {
    let shared = SharedGenerator::new(small(), 0, 5, window(10, 20), PLAIN);
    assert_eq!(shared.next(15), id(15, 0));
    assert_eq!(shared.next(14), id(15, 1));
    assert_eq!(shared.next(12), Next::ClockBehind { by: 3 });
    assert_eq!(shared.next(15), id(15, 2));
}

/// The control: what many generators did, and why `now < last` is compared first. It resets the sequence
/// whenever the tick differs from the last one, in either direction.
struct Unchecked {
    layout: Layout,
    last: u64,
    sequence: u64,
}

impl Unchecked {
    fn next(&mut self, now: u64) -> u64 {
        self.sequence = if now == self.last { self.sequence + 1 } else { 0 };
        self.last = now;
        self.layout.compose(now, 0, 5, self.sequence)
    }
}

#[test]
fn a_generator_that_does_not_look_back_repeats_an_id_and_ours_does_not() {
    let clock = [11, 12, 11, 12];
    let mut unchecked = Unchecked { layout: small(), last: 0, sequence: 0 };
    let repeated: HashSet<_> = clock.iter().map(|now| unchecked.next(*now)).collect();
    assert!(repeated.len() < clock.len(), "the control must fail");
    for on_rollback in [OnRollback::Refuse, OnRollback::Logical] {
        let mut ids = generator(10, 20, Settings { on_rollback, ..PLAIN });
        let issued: Vec<_> =
            clock.iter().filter_map(|now| ids.run(*now, 1).ok()).map(|run| run.first).collect();
        assert_eq!(issued.iter().collect::<HashSet<_>>().len(), issued.len());
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    let on_overflow = prop_oneof![
        Just(OnOverflow::Wait),
        (0_u64..5).prop_map(|ticks_max| OnOverflow::Borrow { ticks_max })
    ];
    let on_rollback = prop_oneof![Just(OnRollback::Refuse), Just(OnRollback::Logical)];
    (0_u64..6, on_overflow, on_rollback).prop_map(|(sequence_start, on_overflow, on_rollback)| Settings {
        sequence_start,
        on_overflow,
        on_rollback,
    })
}

/// What happens to a generator: a step of the clock and a number of IDs asked for, or a window further on.
#[derive(Clone, Debug)]
enum Event {
    Ask { step: i64, count: u64 },
    Jump { to: u64 },
    Extend { gap: u64, ticks: u64 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (-3_i64..=5, 1_u64..12).prop_map(|(step, count)| Event::Ask { step, count }),
        1 => (0_u64..400).prop_map(|to| Event::Jump { to }),
        2 => (prop_oneof![3 => Just(0_u64), 1 => 1_u64..6], 1_u64..12).prop_map(|(gap, ticks)| Event::Extend { gap, ticks }),
    ];
    proptest::collection::vec(event, 1..120)
}

proptest! {
    #[test]
    fn ids_increase_and_stay_inside_their_windows_whatever_the_clock_does(settings in settings(), events in events()) {
        let layout = layout("time:30 sequence:2 worker:4");
        let mut windows = vec![window(20, 30)];
        let mut ids = Generator::new(layout.clone(), 0, 5, windows[0], settings);
        let shared = SharedGenerator::new(layout.clone(), 0, 5, windows[0], settings);
        let mut now = 20_u64;
        let (mut last, mut last_shared) = (None, None);
        for event in events {
            match event {
                Event::Ask { step, count } => {
                    now = now.saturating_add_signed(step);
                    let mut made = Vec::new();
                    let _ = ids.next_many(now, usize::try_from(count).unwrap(), &mut made);
                    let mut made_shared = Vec::new();
                    let _ = shared.next_many(now, usize::try_from(count).unwrap(), &mut made_shared);
                    for (made, last) in [(made, &mut last), (made_shared, &mut last_shared)] {
                        for id in made {
                            prop_assert!(last.is_none_or(|last| id > last), "{id} after {last:?}");
                            *last = Some(id);
                            let parts = layout.decompose(id).unwrap();
                            prop_assert!(windows.iter().any(|window| window.contains(parts.tick)), "{parts:?}");
                            prop_assert_eq!(parts.worker, 5);
                        }
                    }
                }
                Event::Jump { to } => now = to,
                Event::Extend { gap, ticks } => {
                    let start = windows.last().unwrap().end() + gap;
                    windows.push(window(start, start + ticks));
                    ids.extend(window(start, start + ticks));
                    shared.extend(window(start, start + ticks));
                }
            }
        }
        for (unused, last) in [(ids.stop(), last), (shared.stop(), last_shared)] {
            if let (Some(unused), Some(last)) = (unused, last) {
                prop_assert!(layout.decompose(last).unwrap().tick < unused.start(), "given back, but embedded");
                prop_assert_eq!(unused.end(), windows.last().unwrap().end());
            }
        }
    }

    #[test]
    fn two_holders_of_one_worker_never_meet(settings in settings(), clocks in proptest::collection::vec((0_u64..60, any::<bool>()), 1..200)) {
        // The track's reservations, as the ledger hands them out; both believe to be worker 5.
        let mut cursor = 0;
        let mut reserve = |at_least: u64| {
            let start = cursor.max(at_least);
            cursor = start + 4;
            window(start, cursor)
        };
        let mut holders = [(); 2].map(|()| Generator::new(small(), 0, 5, reserve(0), settings));
        let mut seen = HashSet::new();
        for (now, which) in clocks {
            let ids = &mut holders[usize::from(which)];
            match ids.next(now) {
                Next::Id(id) => prop_assert!(seen.insert(id), "{id} twice"),
                Next::WindowUsedUp => ids.extend(reserve(now)),
                Next::ClockBehind { .. } | Next::TickUsedUp => {}
            }
        }
    }
}

#[test]
fn threads_that_share_a_generator_get_distinct_ids_inside_the_windows() {
    const THREADS: usize = 4;
    const TICKS: u64 = 3000;
    for settings in [
        PLAIN,
        Settings { sequence_start: 3, on_overflow: OnOverflow::Borrow { ticks_max: 2 }, ..PLAIN },
        Settings { on_rollback: OnRollback::Logical, ..Settings::default() },
    ] {
        let layout = layout("time:30 worker:4 sequence:6");
        let shared = SharedGenerator::new(layout.clone(), 0, 5, window(100, 110), settings);
        let clock = AtomicU64::new(100);
        let mut windows = vec![window(100, 110)];
        let made = thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (shared, clock) = (&shared, &clock);
                    scope.spawn(move || {
                        let mut made = Vec::new();
                        loop {
                            let now = clock.load(Ordering::Relaxed);
                            // Some threads read a clock that is wrong.
                            let lie = [0, 1, 5, 0][thread];
                            if let Next::Id(id) = shared.next(now.saturating_sub(lie) + lie * (now % 3)) {
                                made.push(id);
                            }
                            if now >= 100 + TICKS {
                                return made;
                            }
                        }
                    })
                })
                .collect();
            // The clock runs, and windows come in small pieces, now and then with a gap.
            for tick in 100..=100 + TICKS {
                clock.store(tick, Ordering::Relaxed);
                let end = shared.end();
                if end < tick + 5 {
                    let start = end + if tick % 4 == 0 { 3 } else { 0 };
                    windows.push(window(start, start + 7));
                    shared.extend(window(start, start + 7));
                }
                if tick % 16 == 0 {
                    thread::yield_now();
                }
            }
            workers.into_iter().map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
        });
        let total: usize = made.iter().map(Vec::len).sum();
        assert!(total > 1000, "{total} IDs show something");
        let mut seen = HashSet::new();
        for made in &made {
            assert!(made.is_sorted_by(|a, b| a < b), "increasing for each thread");
            for id in made {
                assert!(seen.insert(*id), "{id} twice");
                let parts = layout.decompose(*id).unwrap();
                let at = windows.partition_point(|window| window.end() <= parts.tick);
                assert!(windows[at].contains(parts.tick), "{parts:?} in a gap before {}", windows[at]);
            }
        }
    }
}
