//! A database that forgets what it acknowledged hands nothing out twice.

use keymill_engines::postgres::Postgres;
use keymill_id::Number;
use keymill_issuer::rowed::{Begun, Era, PoolError, Pushed, RowPool};

use crate::bench::{Bench, ERA, database, keys, number, slab, texts};

const NEXT_ERA: Era = Era { advances: 0, term: 2 };

pub(crate) async fn a_log_that_went_back_ends_the_era(bench: Bench) {
    let pool = bench.filled(100).await;
    pool.pop(10).await.unwrap();
    let bystander = bench.pool("b");
    bystander.pop(5).await.unwrap();
    pool.pop(5).await.unwrap();
    assert_eq!(pool.standing().await.unwrap().doubt, None);
    // As a restored copy has it, which keeps the engine's identity.
    bench.execute("DELETE FROM {p}used_keys WHERE id > 17").await;
    let refused = pool.pop(10).await.unwrap_err();
    assert!(matches!(&refused, PoolError::Doubtful(said) if said.contains("went back")), "{refused:?}");
    // One that knows nothing of it takes nothing more, either.
    let refused = bystander.pop(10).await.unwrap_err();
    assert!(matches!(refused, PoolError::Doubtful(_)), "{refused:?}");
    let standing = bystander.standing().await.unwrap();
    assert_eq!((standing.era, standing.doubt), (None, None));
    assert_eq!(bystander.begin(None, NEXT_ERA, number(100)).await.unwrap(), Begun::Anew { burned: 80 });
    pool.push(NEXT_ERA, &slab(100, 110)).await.unwrap();
    assert_eq!(pool.standing().await.unwrap().doubt, None);
    assert_eq!(texts(&pool.pop(100).await.unwrap().keys), keys(100..110));
}

pub(crate) async fn nothing_is_given_back_to_a_database_that_forgets(bench: Bench) {
    let pool = bench.filled(100).await;
    let popped = pool.pop(10).await.unwrap().keys;
    pool.pop(5).await.unwrap();
    bench.execute("DELETE FROM {p}used_keys WHERE id > 12").await;
    assert_eq!(pool.give_back(popped).await.unwrap(), 0);
    assert_eq!((bench.count("available_keys").await, bench.count("used_keys").await), (85, 12));
}

pub(crate) async fn nothing_is_given_back_to_another_era(bench: Bench) {
    let pool = bench.filled(100).await;
    let popped = pool.pop(10).await.unwrap().keys;
    let begun = bench.pool("b").begin(Some(ERA), NEXT_ERA, number(100)).await.unwrap();
    assert_eq!(begun, Begun::Anew { burned: 90 });
    assert_eq!(pool.give_back(popped).await.unwrap(), 0);
    assert_eq!((bench.count("available_keys").await, bench.count("used_keys").await), (0, 100));
}

/// A standby that lags behind takes over: nobody takes from it before an era is begun, not even a process that
/// took nothing itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_is_doubted_by_everyone() {
    let primary = Postgres::start().unwrap();
    let bench = Bench::new(database(&primary.url()), None);
    let pool = bench.filled(1000).await;
    let bystander = bench.pool("b");
    assert_eq!(texts(&bystander.pop(10).await.unwrap().keys), keys(0..10));
    let mut standby = primary.standby().unwrap();
    standby.wait_for(&primary).unwrap();
    standby.cut_off().unwrap();
    let lost = texts(&pool.pop(100).await.unwrap().keys);
    standby.take_over(primary).unwrap();

    // Whoever comes first sees that it is another engine, and closes it for all.
    for (pool, sees) in [(&bystander, "timeline"), (&pool, "begun"), (&bench.pool("c"), "begun")] {
        // The connections broke.
        let refused = match pool.pop(10).await.unwrap_err() {
            PoolError::Unavailable(_) => pool.pop(10).await.unwrap_err(),
            refused => refused,
        };
        assert!(matches!(&refused, PoolError::Doubtful(said) if said.contains(sees)), "{refused:?}");
        assert_eq!(pool.push(ERA, &slab(1000, 1010)).await.unwrap(), Pushed::Overtaken);
        assert_eq!(pool.import(ERA, &["voucher"]).await.unwrap(), None);
    }
    assert!(pool.standing().await.unwrap().doubt.is_some());
    assert_eq!(pool.begin(None, NEXT_ERA, number(1000)).await.unwrap(), Begun::Anew { burned: 990 });
    pool.push(NEXT_ERA, &slab(1000, 1010)).await.unwrap();
    let after = texts(&bystander.pop(1000).await.unwrap().keys);
    assert_eq!(after, keys(1000..1010));
    assert!(lost.iter().all(|key| !after.contains(key)));
}

/// A commit whose wait for a standby is cancelled took effect here, and nobody knows where else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_with_an_unknown_outcome_is_burned() {
    let server = Postgres::start().unwrap();
    let bench = Bench::new(database(&server.url()), None);
    let pool = bench.filled(100).await;
    server.hold_commits().unwrap();
    let asked = tokio::spawn({
        let pool = pool.clone();
        async move { pool.pop(10).await }
    });
    while !server.cancel_held().unwrap() {
        assert!(!asked.is_finished(), "it did not wait");
    }
    let refused = asked.await.unwrap().unwrap_err();
    assert!(matches!(&refused, PoolError::Unavailable(said) if said.contains("nobody knows")), "{refused:?}");
    server.release_commits().unwrap();
    assert_eq!(texts(&pool.pop(10).await.unwrap().keys), keys(10..20), "the first ten are nobody's");
    assert_eq!(bench.keys("used").await, keys(0..20), "and in the log");
    assert_eq!(pool.begin(Some(ERA), NEXT_ERA, Number::ZERO).await.unwrap(), Begun::Anew { burned: 80 });
}
