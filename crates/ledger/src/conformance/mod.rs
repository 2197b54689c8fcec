//! The suite that proves a store: a named test per promise, the same for every engine.
//!
//! [`conformance!`](crate::conformance!) turns a function that opens a [`Bench`] into tests, so that a
//! failure reads `sqlite::blocks_never_overlap`. What not every engine can be made to do – go back in
//! time, fail over – is declared at the call and never found out by skipping: a test that cannot run
//! on a store does not exist for it.

mod bench;
pub mod blocks;
pub mod claims;
mod dice;
pub mod failover;
pub mod give_back;
pub mod holes;
pub mod keyspaces;
mod look;
pub mod nodes;
pub mod numbers;
pub mod races;
pub mod rewind;
pub mod stamps;
mod test_node;
pub mod tokens;
pub mod workers;

pub use bench::{Bench, FailsOver, Rewinds};
pub use dice::Dice;
pub use test_node::{START, TestNode, name, number, numbers_once, track};

/// The answer was this refusal and no other.
macro_rules! assert_refused {
    ($answer:expr, $refusal:pat $(if $guard:expr)?) => {
        match $answer {
            Err($refusal) $(if $guard)? => {}
            other => panic!("expected {}, got {other:?}", stringify!($refusal)),
        }
    };
}
use assert_refused;

/// Tests of every promise for the store that `$open` opens: an `async fn() -> impl Bench`.
///
/// `rewinds` adds what needs a store that can be sent back in time, `fails_over` what needs an engine
/// that can become another one.
#[macro_export]
macro_rules! conformance {
    ($open:path, rewinds $(, $more:ident)*) => {
        $crate::conformance!($open $(, $more)*);
        $crate::conformance!(@tests $open;
            rewind:
                the_first_write_after_a_rewind_halts_before_it_changes_anything,
                a_halt_is_for_every_node,
                a_halted_ledger_can_be_read,
                a_rewind_is_seen_at_a_restart_too,
                advance_waits_for_every_live_node,
                a_stopped_node_is_not_waited_for,
                a_dry_run_changes_nothing,
                advance_lifts_every_track_above_all_that_was_granted,
                advance_puts_holes_back,
                a_give_back_from_before_the_halt_is_refused,
                a_name_below_the_lifted_cursor_is_granted_to_nobody,
                a_node_that_is_gone_is_skipped_over,
                a_node_that_was_skipped_halts_the_ledger_when_it_comes_back,
                every_halt_asks_every_node_again,
                a_start_that_was_lost_is_remembered,
                a_lost_keyspace_is_never_created_again,
                an_older_report_does_not_replace_a_newer;
        );
    };
    ($open:path, fails_over $(, $more:ident)*) => {
        $crate::conformance!($open $(, $more)*);
        $crate::conformance!(@tests $open;
            failover:
                another_incarnation_halts_before_anything_is_changed,
                advance_accepts_the_new_incarnation;
        );
    };
    ($open:path) => {
        $crate::conformance!(@tests $open;
            blocks:
                blocks_never_overlap,
                another_handle_sees_what_was_acknowledged,
                at_least_is_honoured_and_never_lowers_the_cursor,
                the_last_block_is_short_and_then_the_track_is_exhausted,
                a_lost_reply_wastes_a_block_and_never_repeats_it,
                a_refused_call_takes_nothing,
                a_dropped_call_never_repeats_a_block,
                an_unknown_keyspace_has_no_numbers,
                a_worker_counts_apart_from_its_keyspace;
            races:
                many_nodes_at_once_never_overlap,
                crossing_messages_of_one_node_never_overlap,
                nothing_overlaps_while_others_give_back_and_withhold,
                a_hole_is_either_named_by_its_block_or_not_made,
                one_of_two_withholds_makes_the_hole,
                two_first_starts_agree_on_a_keyspace,
                two_roots_cannot_both_be_first,
                nodes_that_lease_at_once_get_different_workers;
            numbers:
                blocks_are_exact_around_2_to_the_53,
                holes_are_exact_around_2_to_the_53,
                a_give_back_is_exact_around_2_to_the_53,
                the_largest_number_ends_a_track_without_overflow,
                holes_are_exact_near_the_largest_number;
            give_back:
                a_give_back_returns_exactly_the_tail,
                a_give_back_may_span_blocks_of_one_node,
                a_give_back_after_someone_elses_reserve_is_refused,
                the_same_cursor_under_another_revision_is_refused,
                a_give_back_that_comes_twice_is_refused,
                a_give_back_whose_reply_was_lost_cannot_be_repeated,
                a_give_back_of_nothing_changes_nothing,
                a_give_back_trims_claims_and_counters,
                nobody_gives_back_what_was_not_theirs;
            holes:
                a_hole_is_made_at_or_above_the_cursor_or_not_at_all,
                a_withhold_says_whether_this_call_made_the_hole,
                a_block_names_every_hole_in_it_and_no_other,
                holes_outlive_reserves_and_give_backs,
                a_withhold_moves_the_revision_only_if_it_made_something,
                a_lost_withhold_is_not_made_twice,
                holes_belong_to_one_track;
            stamps:
                a_message_that_comes_twice_changes_nothing,
                a_message_that_was_overtaken_changes_nothing,
                a_newer_process_fences_the_older,
                a_refused_write_is_not_counted,
                a_lost_reply_does_not_look_like_a_rewind,
                a_write_the_ledger_forgot_halts_it,
                a_start_the_ledger_forgot_halts_it,
                a_node_the_ledger_forgot_halts_it,
                a_cursor_below_what_was_granted_halts_it,
                a_restart_that_remembers_more_than_the_ledger_halts_it,
                nothing_is_advanced_or_reported_without_a_halt;
            nodes:
                a_start_raises_the_epoch_and_counts_apart,
                a_heartbeat_keeps_the_report,
                a_clean_stop_leaves_the_node_at_rest,
                a_witness_of_another_ledger_is_refused,
                a_region_is_kept_for_ever,
                node_names_compare_byte_by_byte;
            keyspaces:
                a_keyspace_is_what_its_first_creator_wrote,
                a_ledger_has_one_root,
                keyspaces_are_limited,
                route_words_are_holes_from_the_start,
                tuning_changes_and_null_takes_it_back,
                a_retired_keyspace_stays_and_is_never_created_again,
                every_change_of_a_keyspace_is_noticed,
                names_that_share_a_beginning_stay_apart;
            claims:
                consecutive_blocks_extend_one_claim,
                a_claim_ends_after_its_span,
                another_nodes_block_splits_a_claim,
                a_gap_splits_a_claim,
                the_claim_of_a_number_is_found_among_many,
                claims_are_listed_from_the_newest_down,
                progress_brings_a_claim_forward_and_never_back,
                a_claim_is_never_issued_beyond_its_end,
                a_clean_stop_settles_what_is_left,
                a_crash_loses_what_was_not_issued;
            workers:
                workers_are_leased_one_to_a_holder,
                a_static_worker_that_is_held_is_refused,
                a_static_worker_leaves_the_others_free,
                an_expired_lease_is_free_once_its_window_is_past,
                a_lease_is_renewed_only_by_its_term,
                a_renewal_never_shortens_a_lease,
                a_released_worker_is_leased_again,
                a_restart_releases_its_own_workers_and_no_others,
                workers_of_other_keyspaces_are_untouched;
            tokens:
                a_token_is_put_replaced_and_revoked,
                token_ids_compare_byte_by_byte,
                every_change_of_a_token_is_noticed;
        );
    };
    (@tests $open:path; $($theme:ident: $($test:ident),+;)+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                $crate::conformance::$theme::$test($open().await).await;
            }
        )+)+
    };
}
