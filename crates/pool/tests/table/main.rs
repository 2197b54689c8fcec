//! Pools in tables, on PostgreSQL, MariaDB and SQLite: the same promises on each of them.

mod bench;
mod contract;
mod forgetting;
mod reservations;

use bench::Bench;

/// Each named test, on each engine.
macro_rules! on_every_engine {
    ($($module:ident: $($test:ident),+;)+) => {
        on_every_engine!(@ postgres $($module: $($test),+;)+);
        on_every_engine!(@ mariadb $($module: $($test),+;)+);
        on_every_engine!(@ sqlite $($module: $($test),+;)+);
    };
    (@ $engine:ident $($module:ident: $($test:ident),+;)+) => {
        mod $engine {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$module::$test(super::Bench::$engine()).await;
                }
            )+)+
        }
    };
}

on_every_engine! {
    contract:
        a_push_takes_effect_once_and_only_where_the_pool_is,
        of_two_who_push_the_same_block_one_does,
        keys_leave_in_order_and_once_and_the_log_has_them,
        eight_who_pop_at_once_get_every_key_once,
        rows_that_come_late_are_found,
        nothing_is_taken_before_an_era_is_begun_or_after_it_ended,
        a_new_era_burns_what_is_left_and_the_log_has_it,
        a_beginner_that_was_cut_off_is_followed_by_another,
        an_import_adds_what_is_in_neither_table,
        of_two_imports_at_once_each_key_is_new_to_one,
        a_key_that_somebody_put_there_is_not_pushed_again,
        a_key_that_was_used_before_is_nobodys,
        keys_that_never_were_rows_are_logged_once,
        what_never_left_goes_back_and_leaves_once,
        the_level_follows_what_others_do,
        one_node_leads_until_it_resigns_or_falls_silent,
        tables_of_another_keyspace_are_left_alone,
        tables_that_are_no_pools_are_left_alone,
        without_leave_no_table_is_made,
        tables_that_are_dropped_are_made_again,
        many_who_open_at_once_find_one_pool;
    reservations:
        nodes_leave_reserved_rows_alone,
        a_reservation_that_was_not_used_in_time_goes_back_and_is_nobodys_any_more,
        a_reservation_is_not_swept_before_its_time;
    forgetting:
        a_log_that_went_back_ends_the_era,
        nothing_is_given_back_to_a_database_that_forgets,
        nothing_is_given_back_to_another_era;
}
