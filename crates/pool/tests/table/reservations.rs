//! Reserve first, use later: what other programs do, and what a node makes of it.

use std::time::Duration;

use keymill_issuer::rowed::RowPool;
use keymill_sql::Dialect;

use crate::bench::{Bench, key, keys, node_name, texts};

const TERM: Duration = Duration::from_secs(600);

/// So many seconds ago, as each engine writes it.
fn ago(bench: &Bench, seconds: u32) -> String {
    match bench.dialect() {
        Dialect::Postgres => format!("now() - INTERVAL '{seconds} seconds'"),
        Dialect::MySql => format!("now(6) - INTERVAL {seconds} SECOND"),
        Dialect::Sqlite => format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{seconds} seconds')"),
    }
}

async fn reserve(bench: &Bench, up_to: u32, seconds_ago: u32) {
    let at = ago(bench, seconds_ago);
    let sql =
        format!("UPDATE {{p}}available_keys SET is_reserved = true, reserved_at = {at} WHERE id <= {up_to}");
    bench.execute(&sql).await;
}

pub(crate) async fn nodes_leave_reserved_rows_alone(bench: Bench) {
    let pool = bench.filled(10).await;
    reserve(&bench, 4, 0).await;
    assert_eq!(texts(&pool.pop(10).await.unwrap().keys), keys(4..10));
    assert_eq!(pool.standing().await.unwrap().level, 0);
    assert_eq!(bench.keys("available").await, keys(0..4));
}

pub(crate) async fn a_reservation_that_was_not_used_in_time_goes_back_and_is_nobodys_any_more(bench: Bench) {
    let pool = bench.filled(10).await;
    reserve(&bench, 4, 16 * 60).await;
    assert_eq!(texts(&pool.pop(10).await.unwrap().keys), keys(4..10));
    assert!(pool.lead(&node_name("a"), TERM).await.unwrap(), "whoever leads sweeps");
    assert_eq!(bench.count("available_keys WHERE is_reserved OR reserved_at IS NOT NULL").await, 0);
    // Whoever held it comes late.
    let late =
        "DELETE FROM {p}available_keys WHERE {key} = '00000000' AND is_reserved AND reserved_at IS NOT NULL";
    assert_eq!(bench.execute(late).await, 0);
    assert_eq!(texts(&pool.pop(10).await.unwrap().keys), keys(0..4));
    assert_eq!(bench.count("used_keys").await, 10);
}

pub(crate) async fn a_reservation_is_not_swept_before_its_time(bench: Bench) {
    let pool = bench.filled(10).await;
    reserve(&bench, 4, 14 * 60).await;
    bench.execute("UPDATE {p}available_keys SET is_reserved = true WHERE id = 5").await;
    assert!(pool.lead(&node_name("a"), TERM).await.unwrap());
    assert_eq!(bench.count("available_keys WHERE is_reserved").await, 5);
    assert!(
        !texts(&pool.pop(10).await.unwrap().keys).contains(&key(4)),
        "reserved for ever: it says not since when"
    );
}
