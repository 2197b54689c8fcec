//! Small worlds with a pool, those who take from it and whoever fills it, and what the watch makes of each: how
//! often it restarts the filler, pages and resolves. The world is simulated, the watch is the real one.

use std::time::{Duration, SystemTime};

use keymill_watch::{
    Ground, GroundState, Judgement, Kind, Look, Marks, Moment, Notice, Order, Reading, Sample, Seen, Status,
    Supply, Watch,
};
use proptest::prelude::*;

const INTERVAL: Duration = Duration::from_secs(5);
const CAPACITY: u64 = 100_000_000;

/// What the filler does from one look to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Filler {
    /// Fills so many keys a second, up to the capacity.
    Fills(u64),
    /// Gone until it is restarted.
    Dead,
    /// It runs, and nothing it does helps; nor does a restart.
    Stuck,
}

#[derive(Debug, Clone)]
struct World {
    level: u64,
    takes: u64,
    filler: Filler,
    /// How fast a filler that was restarted fills.
    restarted: Filler,
    measurable: bool,
    halted: bool,
    supply: Supply,
}

impl World {
    fn new(level: u64) -> Self {
        Self {
            level,
            takes: 1000,
            filler: Filler::Fills(50_000),
            restarted: Filler::Fills(50_000),
            measurable: true,
            halted: false,
            supply: Supply::Pool,
        }
    }

    fn pass(&mut self, interval: Duration) {
        let seconds = interval.as_secs();
        self.level = self.level.saturating_sub(self.takes * seconds);
        if let Filler::Fills(rate) = self.filler {
            self.level = (self.level + rate * seconds).min(CAPACITY);
        }
    }

    fn look(&self, marks: Marks) -> Look {
        let reading = if self.measurable {
            let Self { level, supply, .. } = *self;
            Reading::Measured(Sample { level, supply, rate: None, issued: None, stock: None })
        } else {
            Reading::Unmeasured { why: "connection refused".to_owned() }
        };
        let state = if self.halted {
            GroundState::Halted { reason: "it forgot".to_owned() }
        } else {
            GroundState::Fine
        };
        Look {
            scope: "test".to_owned(),
            ground: Ground { name: "ledger", state },
            seen: vec![Seen { keyspace: "links".to_owned(), marks, reading }],
        }
    }
}

/// The seed's own: restart below 20 million, page below 10 million.
fn marks() -> Marks {
    Marks { restart_below: Some("20M".parse().unwrap()), page_below: Some("10M".parse().unwrap()) }
}

/// What happened over a run.
#[derive(Debug, Default)]
struct Story {
    restarts: Vec<u64>,
    told: Vec<(u64, Notice)>,
    /// Looks after which a heartbeat left.
    beats: Vec<u64>,
}

impl Story {
    fn counts(&self) -> (usize, usize, usize) {
        let of = |status| self.told.iter().filter(|(_, notice)| notice.status == status).count();
        (self.restarts.len(), of(Status::Firing), of(Status::Resolved))
    }

    fn first_page(&self) -> &Notice {
        &self.told.first().expect("someone was told").1
    }
}

/// Runs `looks` looks; `change` may alter the world before each.
fn run(world: World, looks: u64, change: impl FnMut(u64, &mut World)) -> Story {
    run_with(world, marks(), looks, change)
}

fn run_with(mut world: World, marks: Marks, looks: u64, mut change: impl FnMut(u64, &mut World)) -> Story {
    let (mut watch, mut story) = (Watch::new(INTERVAL), Story::default());
    for look in 0..looks {
        change(look, &mut world);
        let elapsed = INTERVAL * u32::try_from(look).unwrap();
        let now = Moment { elapsed, wall: SystemTime::UNIX_EPOCH + elapsed };
        let Judgement { orders, is_healthy } = watch.judge(&world.look(marks), now);
        if is_healthy {
            story.beats.push(look);
        }
        for order in orders {
            match order {
                Order::Tell(notice) => story.told.push((look, notice)),
                Order::Restart { .. } => {
                    story.restarts.push(look);
                    if world.filler != Filler::Stuck {
                        world.filler = world.restarted;
                    }
                }
            }
        }
        world.pass(INTERVAL);
    }
    story
}

#[test]
fn a_quiet_run_raises_nothing_and_beats_at_every_look() {
    let story = run(World::new(CAPACITY), 1000, |_, _| {});
    assert_eq!((story.counts(), story.beats.len()), ((0, 0, 0), 1000));
}

#[test]
fn a_legitimate_burst_raises_nothing() {
    // Ten seconds of a burst that takes a pool to half its restart mark, and a filler that catches up.
    let story = run(World::new(30_000_000), 100, |look, world| {
        let bursts = (10..12).contains(&look);
        (world.takes, world.filler) =
            if bursts { (2_000_000, Filler::Fills(50_000)) } else { (1000, Filler::Fills(900_000)) };
    });
    assert_eq!(story.counts(), (0, 0, 0));
}

#[test]
fn a_dead_filler_is_restarted_once_and_nobody_notices() {
    let story = run(World::new(CAPACITY), 2000, |look, world| {
        world.takes = 20_000;
        if look == 10 {
            world.filler = Filler::Dead;
        }
    });
    assert_eq!(story.counts(), (1, 0, 0), "{:?}", story.restarts);
}

#[test]
fn a_filler_that_dies_again_and_again_is_restarted_each_time() {
    let story = run(World::new(CAPACITY), 20_000, |look, world| {
        world.takes = 100_000;
        world.restarted = Filler::Fills(1_000_000);
        if look % 1000 == 10 {
            world.filler = Filler::Dead;
        }
    });
    assert_eq!(story.counts(), (20, 0, 0));
}

#[test]
fn a_filler_that_runs_but_does_not_fill_is_restarted_three_times_and_then_paged_once() {
    let story = run(World::new(20_500_000), 220, |_, world| world.filler = Filler::Stuck);
    assert_eq!(story.counts(), (3, 1, 0), "{story:?}");
    let page = story.first_page();
    assert_eq!(page.kind, Kind::FillerStuck);
    assert!(page.summary.contains("3 restarts") && page.summary.contains("exhausted at"), "{}", page.summary);
    assert!(page.level.unwrap() > 10_000_000, "long before the page mark");
}

#[test]
fn one_incident_is_one_page_however_it_develops() {
    // Stuck, then below the page mark, then unmeasurable, then empty, then healed.
    let story = run(World::new(20_500_000), 1000, |look, world| match look {
        0 => (world.filler, world.takes) = (Filler::Stuck, 20_000),
        200 => world.measurable = false,
        230 => (world.measurable, world.level) = (true, 0),
        300 => (world.filler, world.takes) = (Filler::Fills(1_000_000), 1000),
        _ => {}
    });
    let (restarts, pages, resolved) = story.counts();
    assert_eq!((pages, resolved), (1, 1), "{story:?}");
    // Three in ten minutes, and the run below the mark takes half an hour.
    assert!((3..=9).contains(&restarts), "{:?}", story.restarts);
    let (first, last) = (&story.told[0].1, &story.told[1].1);
    assert_eq!((first.dedup_key.as_str(), first.incident), (last.dedup_key.as_str(), last.incident));
}

#[test]
fn a_slow_drain_without_a_filler_is_paged_at_the_page_mark_with_a_forecast() {
    let world = World { supply: Supply::Keyspace, filler: Filler::Dead, ..World::new(10_100_000) };
    let story = run(world, 200, |_, _| {});
    assert_eq!(story.counts(), (0, 1, 0), "there is nobody to restart");
    let page = story.first_page();
    assert_eq!(page.kind, Kind::BelowPageMark);
    assert!(page.summary.contains("keyspace is exhausted at 1970-01-01T02:"), "{}", page.summary);
}

#[test]
fn a_mark_in_time_is_the_runway() {
    let marks = Marks { restart_below: None, page_below: Some("2h".parse().unwrap()) };
    let world = World { supply: Supply::Keyspace, filler: Filler::Dead, ..World::new(7_300_000) };
    let story = run_with(world, marks, 100, |_, _| {});
    assert_eq!(story.counts(), (0, 1, 0));
    let page = story.first_page();
    assert!((7150.0..7200.0).contains(&page.runway_seconds.unwrap()), "{page:?}");
}

#[test]
fn the_end_of_an_epoch_is_paged_in_time() {
    let marks = Marks { restart_below: None, page_below: Some("30d".parse().unwrap()) };
    let day = Duration::from_secs(86_400);
    let mut days = 40;
    let story = run_with(World::new(CAPACITY), marks, 20, |_, world| {
        world.supply = Supply::Epoch { left: day * days };
        days -= 1;
    });
    assert_eq!(story.counts(), (0, 1, 0));
    assert!(story.first_page().summary.contains("the epoch is exhausted at"), "{:?}", story.first_page());
}

#[test]
fn a_level_nobody_can_measure_is_paged_and_resolved() {
    let story = run(World::new(CAPACITY), 100, |look, world| world.measurable = !(20..50).contains(&look));
    assert_eq!(story.counts(), (0, 1, 1));
    assert_eq!(story.first_page().kind, Kind::Blind);
    assert!(story.first_page().summary.contains("connection refused"));
    assert!(story.beats.iter().all(|look| !(20..50).contains(look)), "no heartbeat without a measurement");
    assert!(story.beats.contains(&99));
}

#[test]
fn a_moment_of_blindness_is_no_incident_but_stops_the_heartbeat() {
    let story = run(World::new(CAPACITY), 60, |look, world| world.measurable = look % 4 != 0);
    assert_eq!(story.counts(), (0, 0, 0));
    assert!(story.beats.iter().all(|look| look % 4 != 0) && story.beats.len() == 45);
}

#[test]
fn a_halted_ledger_is_one_page_for_all_that_rests_on_it() {
    let story = run(World::new(CAPACITY), 100, |look, world| world.halted = (20..50).contains(&look));
    assert_eq!(story.counts(), (0, 1, 1));
    assert_eq!(story.first_page().kind, Kind::LedgerHalted);
    assert!(story.beats.iter().all(|look| !(20..50).contains(look)));
}

#[test]
fn a_level_that_hovers_at_its_mark_does_not_flap() {
    let story = run(World::new(CAPACITY), 500, |look, world| {
        (world.takes, world.filler) = (0, Filler::Dead);
        world.level = if look % 6 < 3 { 9_900_000 } else { 10_100_000 };
    });
    assert_eq!((story.counts().1, story.counts().2), (1, 0), "above the mark is not well above it");
}

#[test]
fn what_is_no_longer_watched_is_resolved() {
    let mut watch = Watch::new(INTERVAL);
    let world = World { supply: Supply::Keyspace, ..World::new(5) };
    let at = |look: u32| Moment { elapsed: INTERVAL * look, wall: SystemTime::UNIX_EPOCH };
    let paged: usize = (0..3).map(|look| watch.judge(&world.look(marks()), at(look)).orders.len()).sum();
    assert_eq!(paged, 1);
    let gone = Look { seen: Vec::new(), ..world.look(marks()) };
    let orders = watch.judge(&gone, at(3)).orders;
    assert!(matches!(&orders[..], [Order::Tell(notice)] if notice.status == Status::Resolved), "{orders:?}");
    assert!(watch.judge(&gone, at(4)).is_healthy);
}

#[test]
fn a_stock_that_is_not_refilled_although_numbers_are_left_is_nudged_and_then_paged() {
    let mut watch = Watch::new(INTERVAL);
    let world = World { supply: Supply::Keyspace, ..World::new(CAPACITY) };
    let mut look = world.look(marks());
    let Reading::Measured(sample) = &mut look.seen[0].reading else { unreachable!("it is measurable") };
    (sample.stock, sample.issued) = (Some(0), Some(77));
    let (mut restarts, mut pages) = (0, Vec::new());
    for index in 0..60 {
        let now = Moment { elapsed: INTERVAL * index, wall: SystemTime::UNIX_EPOCH };
        for order in watch.judge(&look, now).orders {
            match order {
                Order::Restart { .. } => restarts += 1,
                Order::Tell(notice) => pages.push(notice.kind),
            }
        }
    }
    assert_eq!((restarts, pages), (3, vec![Kind::FillerStuck]));
}

#[test]
fn incidents_are_listed_with_what_became_of_them() {
    let mut watch = Watch::new(INTERVAL);
    let at = |look: u32| Moment { elapsed: INTERVAL * look, wall: SystemTime::UNIX_EPOCH + INTERVAL * look };
    let low = World { supply: Supply::Keyspace, ..World::new(5) };
    for look in 0..3 {
        watch.judge(&low.look(marks()), at(look));
    }
    let open = watch.incidents();
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].resolved_at, open[0].notified_at), (None, None));
    watch.notified(open[0].id, at(3).wall);
    let well = World { supply: Supply::Keyspace, ..World::new(CAPACITY) };
    for look in 3..10 {
        watch.judge(&well.look(marks()), at(look));
    }
    let over = &watch.incidents()[0];
    assert_eq!(over.notified_at, Some(at(3).wall));
    assert_eq!(over.resolved_at, Some(at(5).wall), "the third well look");
}

proptest! {
    /// Whatever the level does, and however often nobody can see it: pages and resolutions take turns, and a
    /// heartbeat leaves only at a look that measured a level above its marks.
    #[test]
    fn pages_and_resolutions_take_turns(
        levels in prop::collection::vec(prop::option::weighted(0.8, 0..40_000_000u64), 1..300),
        has_filler in any::<bool>(),
    ) {
        let mut watch = Watch::new(INTERVAL);
        let supply = if has_filler { Supply::Pool } else { Supply::Keyspace };
        let (mut firing, mut last) = (None, 0);
        for (index, level) in (0..).zip(levels) {
            let world =
                World { supply, measurable: level.is_some(), ..World::new(level.unwrap_or_default()) };
            let now = Moment { elapsed: INTERVAL * index, wall: SystemTime::UNIX_EPOCH };
            let Judgement { orders, is_healthy } = watch.judge(&world.look(marks()), now);
            for order in orders {
                let Order::Tell(notice) = order else {
                    prop_assert!(has_filler, "nobody to restart");
                    continue;
                };
                match notice.status {
                    Status::Firing => {
                        prop_assert!(firing.is_none() && notice.incident > last);
                        firing = Some(notice.incident);
                    }
                    Status::Resolved => {
                        prop_assert_eq!(firing, Some(notice.incident));
                        (firing, last) = (None, notice.incident);
                    }
                }
            }
            let lowest = if has_filler { 20_000_000 } else { 10_000_000 };
            prop_assert!(!is_healthy || level.is_some_and(|level| level >= lowest) && firing.is_none());
        }
    }
}
