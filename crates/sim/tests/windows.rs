//! No two owners of a worker id make the same ID, whatever their clocks say; without any one of the
//! guards they do.

use keymill_sim::{
    search::{Outcome, Verdict, explore},
    windows::{CLOCKS, Guard, LIVES, Windows},
};

const STATES_MAX: usize = 8_000_000;

#[track_caller]
fn holds(world: Windows) {
    let Outcome { states, depth, verdict, .. } = explore(&world.smoke(), STATES_MAX);
    println!("{}: {states} states, {depth} deep", world.name);
    match verdict {
        Verdict::Exhausted => assert!(states > 10_000, "{states} states are no world"),
        Verdict::Violated(trace) => panic!("{}:\n{trace}", trace.violation),
        Verdict::TooLarge => panic!("more than {STATES_MAX} states"),
    }
}

#[test]
fn windows_keep_two_owners_of_a_worker_apart_through_crashes_and_stops() {
    holds(LIVES);
}

#[test]
fn windows_keep_two_owners_of_a_worker_apart_through_steps_of_their_clocks() {
    holds(CLOCKS);
}

#[track_caller]
fn breaks(guard: Guard) {
    let Outcome { states, verdict, .. } = explore(&guard.control(), STATES_MAX);
    let Verdict::Violated(trace) = verdict else { panic!("{guard}: nothing among {states} states") };
    println!("{guard}: {} steps, {states} states\n{trace}", trace.steps.len());
}

#[test]
fn a_lease_alone_repeats_an_id() {
    breaks(Guard::Windows);
}

#[test]
fn a_lease_and_a_recycle_delay_repeat_an_id() {
    breaks(Guard::WindowsBesidesADelay);
}

#[test]
fn a_window_that_begins_where_the_clock_is_repeats_an_id() {
    breaks(Guard::AboveTheCursor);
}

#[test]
fn a_window_without_an_end_repeats_an_id() {
    breaks(Guard::UpToTheEnd);
}

#[test]
fn a_begun_tick_that_is_given_back_repeats_an_id() {
    breaks(Guard::BegunIsIssued);
}
