//! The suite that proves an engine: a named test per promise, the same for every engine.
//!
//! [`conformance!`](crate::conformance!) turns a function that opens a [`Bench`] into tests, so that a failure
//! reads `mariadb::the_first_bind_wins`.

pub mod binds;
pub mod changes;
pub mod claims;
pub mod derived;
pub mod lists;
pub mod orders;
pub mod receipts;
pub mod records;
pub mod refs;
pub mod requests;
pub mod sweeps;

use std::future::Future;

use crate::Registry;

/// One registry for one test, empty at first, and whatever keeps it there.
pub trait Bench: Send + Sync + 'static {
    /// A handle. An engine with clients connects another one each time, so that two handles know nothing of
    /// each other; an embedded one, which only one process may open, shares what it has.
    fn registry(&self) -> impl Future<Output = Registry> + Send;
}

/// Tests of every promise for the engine that `$open` opens: an `async fn() -> impl Bench`.
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance!(@tests $open;
            claims:
                a_name_is_granted_once,
                a_thousand_claims_of_one_name_grant_it_once,
                names_compare_byte_by_byte,
                names_of_other_keyspaces_are_other_names,
                what_cannot_be_kept_whole_is_refused,
                a_look_alike_is_taken_alive_or_dead,
                look_alikes_claimed_at_once_are_granted_once,
                used_names_are_nobodys;
            binds:
                a_bound_name_comes_back_as_it_went_in,
                the_first_bind_wins,
                sixty_four_binds_at_once_bind_once,
                a_claimed_name_is_bound_once_and_stays_an_alias,
                a_claimed_name_is_not_bound_where_a_new_one_is_wanted,
                sixty_four_binds_of_a_claimed_name_bind_it_once,
                a_look_alike_is_not_bound,
                a_batch_keeps_its_order_and_the_first_of_a_name_wins,
                a_batch_meets_what_is_there,
                batches_at_once_bind_each_name_once,
                of_many_who_ask_at_once_each_is_told_its_own,
                whoever_gives_up_takes_nobody_along;
            changes:
                a_change_changes_what_it_names_and_nothing_else,
                what_is_not_bound_cannot_be_changed,
                nothing_brings_back_what_is_gone,
                a_deleted_target_is_forgotten_and_its_name_kept,
                what_has_expired_is_gone_before_a_sweep_comes,
                visits_add_up_and_unknown_names_are_passed_over;
            sweeps:
                what_has_expired_becomes_a_tombstone,
                a_tombstone_with_an_end_is_freed_and_one_without_is_not,
                a_name_that_expired_can_be_had_after_its_rest,
                a_sweep_is_bounded,
                sweeps_at_once_sweep_each_entry_once,
                old_receipts_are_swept_and_others_kept;
            lists:
                pages_hold_every_entry_once_in_order,
                pages_hold_every_entry_once_while_others_are_made,
                a_query_finds_parts_of_names_and_targets,
                a_query_is_text_and_no_pattern,
                only_live_links_are_listed_if_asked_for,
                a_page_looks_at_so_many_entries_and_says_where_it_stopped;
            orders:
                keys_lie_as_they_are_numbered_behind_chosen_names,
                whatever_is_done_to_a_name_is_done_where_it_lies,
                names_are_found_although_the_ledger_numbers_them_anew,
                those_who_arrange_at_once_agree,
                what_lay_by_name_before_goes_on_to;
            records:
                a_key_is_written_down_once_and_all_of_a_batch_or_none,
                of_many_who_write_one_key_down_one_may_give_it;
            derived:
                the_same_content_gives_the_same_key,
                other_content_with_the_same_candidate_gets_the_next,
                candidates_that_are_all_taken_are_exhausted,
                sixty_four_derivations_of_one_content_give_one_key,
                derivations_that_collide_at_once_give_a_key_each,
                deleted_content_stays_gone;
            refs:
                a_reference_keeps_its_first_key,
                sixty_four_referrers_at_once_agree,
                references_of_other_owners_and_keyspaces_are_other_references,
                long_references_that_differ_at_the_end_are_different,
                a_batch_of_references_keeps_its_order_and_the_first_wins,
                many_references_are_looked_up_in_their_order,
                batches_of_references_at_once_agree,
                references_are_found_by_their_key,
                references_are_exported_each_once;
            receipts:
                an_answer_is_given_again_until_its_time_is_over,
                another_body_is_refused,
                an_attempt_waits_while_another_is_at_it,
                what_an_earlier_life_began_is_not_waited_for,
                of_many_attempts_at_once_one_goes,
                an_overtaken_attempt_finishes_nothing,
                an_overtaken_attempt_grants_nothing,
                a_grant_and_its_answer_are_kept_together,
                a_batch_and_its_answer_are_kept_together,
                what_is_refused_keeps_no_answer,
                an_abandoned_attempt_leaves_the_way_free,
                asking_again_with_the_same_receipt_is_safe;
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
