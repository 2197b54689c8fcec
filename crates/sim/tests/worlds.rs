//! Every world, in a size that fits a test run; `cargo run --release -p keymill-sim` explores them whole.

use keymill_sim::{
    controls::Guards,
    search::{Outcome, Verdict, explore},
    step::Rules,
    worlds::{self, Bounds},
};

const STATES_MAX: usize = 2_000_000;

#[track_caller]
fn holds(bounds: Bounds) {
    let rules = Rules { bounds: bounds.smoke(), guards: Guards::ALL, false_alarms: true };
    let Outcome { states, depth, verdict, .. } = explore(&rules, STATES_MAX);
    println!("{}: {states} states, {depth} deep", bounds.name);
    match verdict {
        Verdict::Exhausted => assert!(states > 10_000, "{states} states are no world"),
        Verdict::Violated(trace) => panic!("{}:\n{trace}", trace.violation),
        Verdict::TooLarge => panic!("more than {STATES_MAX} states"),
    }
}

#[test]
fn no_number_is_issued_twice_by_reserve_give_back_and_crash() {
    holds(worlds::STOCK);
}

#[test]
fn no_hole_is_issued_and_no_draw_granted_twice() {
    holds(worlds::HOLES);
}

#[test]
fn a_rewind_is_caught_and_advanced_over() {
    holds(worlds::REWIND);
}

#[test]
fn a_rewind_is_caught_though_messages_come_twice() {
    holds(worlds::REWIND_TWICE);
}

#[test]
fn a_rewind_is_caught_though_a_process_died_and_came_back() {
    holds(worlds::REWIND_LIVES);
}

#[test]
fn a_rewind_is_caught_among_clean_stops() {
    holds(worlds::REWIND_STOP);
}

#[test]
fn a_rewind_gives_no_hole_away() {
    holds(worlds::REWIND_HOLES);
}
