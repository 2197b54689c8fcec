//! Every guard, taken away: the model must see what happens. The first eight are what was asked for,
//! the rest is what the model found.

use keymill_sim::{
    controls::Guard,
    invariants::Violation,
    search::{Outcome, Verdict, explore},
};

const STATES_MAX: usize = 8_000_000;

#[track_caller]
fn breaks(guard: Guard, how: Violation) {
    let Outcome { states, verdict, .. } = explore(&guard.control(), STATES_MAX);
    let Verdict::Violated(trace) = verdict else { panic!("{guard}: nothing among {states} states") };
    println!("{guard}: {} steps, {states} states\n{trace}", trace.steps.len());
    assert_eq!(trace.violation, how, "\n{trace}");
}

#[test]
fn comparing_the_cursor_instead_of_the_revision_repeats_a_number() {
    breaks(Guard::RevisionNotCursor, Violation::IssuedTwice);
}

#[test]
fn giving_back_across_another_nodes_block_repeats_a_number() {
    breaks(Guard::OwnBlocksOnly, Violation::IssuedTwice);
}

#[test]
fn a_hole_read_before_the_track_is_locked_is_issued() {
    breaks(Guard::HolesAfterTrack, Violation::DrawIssued);
}

#[test]
fn stock_kept_until_a_give_back_is_answered_repeats_a_number() {
    breaks(Guard::DeadOnceSent, Violation::IssuedTwice);
}

#[test]
fn a_beat_compared_after_the_change_repeats_a_number() {
    breaks(Guard::BeatBeforeChange, Violation::IssuedTwice);
}

#[test]
fn a_give_back_without_a_beat_repeats_a_number() {
    breaks(Guard::GiveBackHasABeat, Violation::IssuedTwice);
}

#[test]
fn an_advance_before_the_nodes_answered_repeats_a_number() {
    breaks(Guard::AdvanceAwaitsAnswers, Violation::IssuedTwice);
}

#[test]
fn a_draw_granted_by_an_idempotent_withhold_is_granted_twice() {
    breaks(Guard::DrawOnlyOnMade, Violation::DrawnTwice);
}

#[test]
fn a_witness_that_keeps_the_start_of_what_went_back_halts_a_sound_ledger() {
    breaks(Guard::WitnessForgetsWhatWentBack, Violation::FalseAlarm);
}

#[test]
fn a_name_granted_over_a_hole_that_no_witness_has_is_issued_after_an_advance() {
    breaks(Guard::GrantedNamesWitnessed, Violation::NameIssued);
}

#[test]
fn a_name_granted_below_a_lifted_cursor_was_issued_before() {
    breaks(Guard::LeaptNamesAreSpent, Violation::NameIssued);
}

#[test]
fn beats_that_go_on_from_one_life_to_the_next_hide_a_rewind() {
    breaks(Guard::LivesCountApart, Violation::IssuedTwice);
}

#[test]
fn a_request_that_is_carried_out_again_hides_a_rewind() {
    breaks(Guard::NoReplay, Violation::IssuedTwice);
}

#[test]
fn an_advance_without_a_node_that_started_in_the_lost_part_repeats_a_number() {
    breaks(Guard::OperatorKnowsTheStarted, Violation::IssuedTwice);
}
