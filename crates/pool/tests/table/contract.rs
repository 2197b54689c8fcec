//! What `RowPool` promises, kept by tables.

use std::{collections::HashSet, time::Duration};

use keymill_id::Number;
use keymill_issuer::rowed::{Begun, Era, PoolError, Pushed, RowPool};
use tokio::time::Instant;

use crate::bench::{Bench, ERA, key, keys, node_name, number, slab, texts};

const NEXT_ERA: Era = Era { advances: 0, term: 2 };
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn a_push_takes_effect_once_and_only_where_the_pool_is(bench: Bench) {
    let pool = bench.filled(10).await;
    assert_eq!(pool.push(ERA, &slab(0, 10)).await.unwrap(), Pushed::Overtaken, "again");
    assert_eq!(pool.push(ERA, &slab(20, 30)).await.unwrap(), Pushed::Overtaken, "beyond");
    assert_eq!(pool.push(NEXT_ERA, &slab(10, 20)).await.unwrap(), Pushed::Overtaken, "in another era");
    assert!(matches!(pool.push(ERA, &slab(10, 20)).await.unwrap(), Pushed::Done { .. }));
    let standing = pool.standing().await.unwrap();
    assert_eq!((standing.era, standing.next, standing.doubt), (Some(ERA), number(20), None));
    assert_eq!(bench.keys("available").await, keys(0..20));
}

pub(crate) async fn of_two_who_push_the_same_block_one_does(bench: Bench) {
    bench.filled(0).await;
    let (a, b) = (bench.pool("a"), bench.pool("b"));
    for block in 0..20 {
        let slab = slab(block * 50, (block + 1) * 50);
        let (first, second) = tokio::join!(a.push(ERA, &slab), b.push(ERA, &slab));
        let done =
            [first.unwrap(), second.unwrap()].into_iter().filter(|pushed| *pushed != Pushed::Overtaken);
        assert_eq!(done.count(), 1, "block {block}");
    }
    assert_eq!(bench.keys("available").await, keys(0..1000));
}

pub(crate) async fn keys_leave_in_order_and_once_and_the_log_has_them(bench: Bench) {
    let pool = bench.filled(3000).await;
    assert_eq!(pool.standing().await.unwrap().level, 3000);
    let first = pool.pop(10).await.unwrap();
    assert_eq!((texts(&first.keys), first.left), (keys(0..10), 2990));
    let second = pool.pop(2112).await.unwrap();
    assert_eq!(texts(&second.keys), keys(10..2122));
    let rest = pool.pop(1000).await.unwrap();
    assert_eq!((texts(&rest.keys), rest.left), (keys(2122..3000), 0), "fewer: there are no more");
    assert!(pool.pop(1).await.unwrap().keys.is_empty());
    assert_eq!(bench.keys("used").await, keys(0..3000));
    assert_eq!(bench.count("used_keys WHERE used_by = 'a' AND used_at IS NOT NULL").await, 3000);
}

pub(crate) async fn eight_who_pop_at_once_get_every_key_once(bench: Bench) {
    const KEYS: u64 = 12_000;
    bench.filled(KEYS).await;
    let poppers: Vec<_> = (0..8)
        .map(|popper| {
            let pool = bench.pool(&format!("n{popper}"));
            tokio::spawn(async move {
                let mut keys = Vec::new();
                let mut dry = 0;
                // A row that another holds at that moment is passed over, so one dry pop says little.
                while dry < 3 {
                    let popped = pool.pop(37 + popper).await.unwrap();
                    dry = if popped.keys.is_empty() { dry + 1 } else { 0 };
                    keys.extend(texts(&popped.keys));
                }
                keys
            })
        })
        .collect();
    let mut taken = Vec::new();
    for popper in poppers {
        taken.extend(popper.await.unwrap());
    }
    taken.sort();
    assert_eq!(taken, keys(0..KEYS));
    assert_eq!(bench.count("available_keys").await, 0);
    let mut used = bench.keys("used").await;
    used.sort();
    assert_eq!(used, taken, "the log has what left, and nothing else");
}

pub(crate) async fn rows_that_come_late_are_found(bench: Bench) {
    let pool = bench.filled(100).await;
    bench.execute("UPDATE {p}available_keys SET is_reserved = true WHERE id <= 3").await;
    assert_eq!(texts(&pool.pop(50).await.unwrap().keys), keys(3..53));
    bench.execute("UPDATE {p}available_keys SET is_reserved = false").await;
    let mut rest = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while rest.len() < 50 && Instant::now() < deadline {
        rest.extend(texts(&pool.pop(20).await.unwrap().keys));
    }
    rest.sort();
    let mut expected = keys(0..3);
    expected.extend(keys(53..100));
    assert_eq!(rest, expected);
}

pub(crate) async fn nothing_is_taken_before_an_era_is_begun_or_after_it_ended(bench: Bench) {
    let pool = bench.pool("a");
    assert!(matches!(pool.pop(1).await, Err(PoolError::Doubtful(_))));
    assert_eq!(pool.standing().await.unwrap().era, None);
    assert_eq!(pool.import(ERA, &["voucher"]).await.unwrap(), None);
    assert_eq!(pool.push(ERA, &slab(0, 1)).await.unwrap(), Pushed::Overtaken);
    pool.begin(None, ERA, Number::ZERO).await.unwrap();
    assert!(pool.pop(1).await.unwrap().keys.is_empty());
    assert_eq!(pool.begin(None, NEXT_ERA, number(5)).await.unwrap(), Begun::Overtaken);
    assert_eq!(pool.begin(Some(ERA), NEXT_ERA, number(5)).await.unwrap(), Begun::Anew { burned: 0 });
    assert_eq!(pool.push(ERA, &slab(5, 6)).await.unwrap(), Pushed::Overtaken, "its era is over");
    assert_eq!(pool.import(ERA, &["voucher"]).await.unwrap(), None);
    assert!(matches!(pool.push(NEXT_ERA, &slab(5, 6)).await.unwrap(), Pushed::Done { level: _ }));
}

pub(crate) async fn a_new_era_burns_what_is_left_and_the_log_has_it(bench: Bench) {
    let pool = bench.filled(100).await;
    assert_eq!(pool.import(ERA, &["voucher"]).await.unwrap(), Some(vec![true]));
    pool.pop(10).await.unwrap();
    bench.execute("UPDATE {p}available_keys SET is_reserved = true WHERE id > 90").await;
    assert_eq!(pool.begin(Some(ERA), NEXT_ERA, number(100)).await.unwrap(), Begun::Anew { burned: 91 });
    assert_eq!(bench.count("available_keys").await, 0);
    assert_eq!(bench.count("used_keys").await, 101);
    assert_eq!(bench.count("used_keys WHERE used_by = '(burned)'").await, 91);
    assert_eq!(pool.standing().await.unwrap().level, 0);
    assert_eq!(pool.import(NEXT_ERA, &["voucher"]).await.unwrap(), Some(vec![false]), "it may have left");
    pool.push(NEXT_ERA, &slab(100, 110)).await.unwrap();
    assert_eq!(texts(&bench.pool("b").pop(100).await.unwrap().keys), keys(100..110));
}

pub(crate) async fn a_beginner_that_was_cut_off_is_followed_by_another(bench: Bench) {
    let pool = bench.filled(100).await;
    bench.execute("UPDATE {p}key_pool SET era = NULL").await;
    assert!(matches!(pool.pop(1).await, Err(PoolError::Doubtful(_))), "half begun");
    let (a, b) = (bench.pool("a"), bench.pool("b"));
    let later = Era { term: 3, ..ERA };
    let (first, second) =
        tokio::join!(a.begin(None, NEXT_ERA, number(100)), b.begin(None, later, number(100)));
    let begun = [first.unwrap(), second.unwrap()];
    assert!(begun.iter().any(|begun| *begun != Begun::Overtaken), "{begun:?}");
    assert_eq!(bench.count("available_keys").await, 0);
    assert!(pool.standing().await.unwrap().era.is_some());
}

pub(crate) async fn an_import_adds_what_is_in_neither_table(bench: Bench) {
    let pool = bench.filled(20).await;
    pool.pop(10).await.unwrap();
    let (used, available) = (key(3), key(15));
    let asked = ["v-1", &used, "v-2", &available, "v-1", "V-1"];
    assert_eq!(pool.import(ERA, &asked).await.unwrap(), Some(vec![true, false, true, false, false, true]));
    assert_eq!(pool.import(ERA, &asked).await.unwrap(), Some(vec![false; 6]), "run again, no change");
    assert_eq!(bench.count("available_keys").await, 13);
    let popped = texts(&pool.pop(13).await.unwrap().keys);
    assert_eq!(popped[10..], ["v-1", "v-2", "V-1"].map(str::to_owned));
    assert_eq!(pool.import(ERA, &asked).await.unwrap(), Some(vec![false; 6]), "used by now");
    assert_eq!(pool.import(ERA, &[]).await.unwrap(), Some(Vec::new()));

    let many: Vec<String> = (0..12_345).map(|n| format!("m{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(pool.import(ERA, &many).await.unwrap(), Some(vec![true; many.len()]));
    assert_eq!(pool.standing().await.unwrap().next, number(20), "imports are no part of the track");
}

pub(crate) async fn of_two_imports_at_once_each_key_is_new_to_one(bench: Bench) {
    bench.filled(0).await;
    let vouchers: Vec<String> = (0..500).map(|n| format!("v{n}")).collect();
    let importers: Vec<_> = (0..4)
        .map(|importer| {
            let pool = bench.pool(&format!("n{importer}"));
            let mut vouchers = vouchers.clone();
            vouchers.rotate_left(importer * 100);
            tokio::spawn(async move {
                let asked: Vec<&str> = vouchers.iter().map(String::as_str).collect();
                let added = pool.import(ERA, &asked).await.unwrap().unwrap();
                let popped = pool.pop(200).await.unwrap();
                (added.into_iter().filter(|added| *added).count(), texts(&popped.keys))
            })
        })
        .collect();
    let (mut added, mut popped) = (0, Vec::new());
    for importer in importers {
        let (new, keys) = importer.await.unwrap();
        added += new;
        popped.extend(keys);
    }
    assert_eq!(added, 500);
    assert_eq!(popped.iter().collect::<HashSet<_>>().len(), popped.len(), "a key left twice");
    assert_eq!(bench.count("available_keys").await + bench.count("used_keys").await, 500);
}

pub(crate) async fn a_key_that_somebody_put_there_is_not_pushed_again(bench: Bench) {
    let pool = bench.filled(10).await;
    bench.execute("INSERT INTO {p}available_keys ({key}) VALUES ('00000013')").await;
    bench.execute("INSERT INTO {p}used_keys ({key}) VALUES ('00000017')").await;
    assert!(matches!(pool.push(ERA, &slab(10, 20)).await.unwrap(), Pushed::Done { .. }));
    let mut available = bench.keys("available").await;
    available.sort();
    let expected: Vec<String> = keys(0..20).into_iter().filter(|key| key != "00000017").collect();
    assert_eq!(available, expected);
    assert_eq!(pool.standing().await.unwrap().next, number(20));
}

pub(crate) async fn a_key_that_was_used_before_is_nobodys(bench: Bench) {
    let pool = bench.filled(10).await;
    bench.execute("INSERT INTO {p}used_keys ({key}) VALUES ('00000004')").await;
    let expected: Vec<String> = keys(0..10).into_iter().filter(|key| key != "00000004").collect();
    assert_eq!(texts(&pool.pop(10).await.unwrap().keys), expected);
    assert_eq!(bench.count("available_keys").await, 0);
    assert_eq!(bench.count("used_keys").await, 10);
}

pub(crate) async fn keys_that_never_were_rows_are_logged_once(bench: Bench) {
    let pool = bench.filled(10).await;
    pool.pop(5).await.unwrap();
    let drawn = vec!["d-1".to_owned(), key(3), key(7), "d-2".to_owned()];
    assert_eq!(pool.log(drawn.clone()).await.unwrap(), ["d-1", "d-2"]);
    assert!(pool.log(drawn).await.unwrap().is_empty());
    assert_eq!(bench.count("used_keys WHERE used_by = 'a'").await, 7);
    assert!(pool.log(Vec::new()).await.unwrap().is_empty());
}

pub(crate) async fn what_never_left_goes_back_and_leaves_once(bench: Bench) {
    let (pool, other) = (bench.filled(3000).await, bench.pool("b"));
    let theirs = other.pop(10).await.unwrap().keys;
    let stayed = pool.pop(2030).await.unwrap().keys.split_off(20);
    // What is in the log by another's hand is not ours to give.
    let back = [stayed.clone(), theirs].concat();
    assert_eq!(pool.give_back(back).await.unwrap(), 2010);
    assert_eq!((bench.count("available_keys").await, bench.count("used_keys").await), (2970, 30));
    // Nobody takes this for a log that went back.
    let standing = pool.standing().await.unwrap();
    assert_eq!((standing.era, standing.doubt), (Some(ERA), None));
    assert_eq!(pool.give_back(stayed).await.unwrap(), 0, "once");
    let left = texts(&other.pop(10_000).await.unwrap().keys);
    assert_eq!(left, [keys(2040..3000), keys(30..2040)].concat());
    assert_eq!(other.standing().await.unwrap().doubt, None);
}

pub(crate) async fn the_level_follows_what_others_do(bench: Bench) {
    let pool = bench.filled(1000).await;
    let other = bench.pool("b");
    assert_eq!(other.standing().await.unwrap().level, 1000);
    pool.push(ERA, &slab(1000, 1500)).await.unwrap();
    bench.execute("DELETE FROM {p}available_keys WHERE id <= 100").await;
    bench.execute("UPDATE {p}available_keys SET is_reserved = true WHERE id > 100 AND id <= 150").await;
    for pool in [pool, other] {
        let deadline = Instant::now() + PATIENCE;
        while pool.standing().await.unwrap().level != 1350 {
            assert!(Instant::now() < deadline, "{:?}", pool.standing().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(crate) async fn one_node_leads_until_it_resigns_or_falls_silent(bench: Bench) {
    let pool = bench.pool("a");
    let (a, b) = (node_name("a"), node_name("b"));
    let (long, short) = (Duration::from_secs(600), Duration::from_millis(1));
    assert!(pool.lead(&a, long).await.unwrap());
    assert!(pool.lead(&a, long).await.unwrap(), "again");
    if bench.dialect() == keymill_sql::Dialect::Sqlite {
        return;
    }
    assert!(!pool.lead(&b, long).await.unwrap());
    pool.resign(&b).await.unwrap();
    assert!(!pool.lead(&b, long).await.unwrap(), "it was not the one to resign");
    pool.resign(&a).await.unwrap();
    assert!(pool.lead(&b, short).await.unwrap());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(pool.lead(&a, long).await.unwrap(), "its term is over");
}

pub(crate) async fn tables_of_another_keyspace_are_left_alone(bench: Bench) {
    bench.filled(10).await;
    let other = bench.pool_of("others", "a", true);
    for refused in [
        other.standing().await.unwrap_err(),
        other.pop(1).await.unwrap_err(),
        other.begin(None, ERA, Number::ZERO).await.unwrap_err(),
    ] {
        let PoolError::Refused(said) = &refused else { panic!("{refused:?}") };
        assert!(said.contains("keyspace `codes` of ledger tests") && said.contains("table_prefix"), "{said}");
    }
    assert_eq!(bench.count("available_keys").await, 10);
}

pub(crate) async fn tables_that_are_no_pools_are_left_alone(bench: Bench) {
    bench.execute("CREATE TABLE {p}available_keys (mine INTEGER)").await;
    let refused = bench.pool("a").standing().await.unwrap_err();
    assert!(matches!(&refused, PoolError::Refused(said) if said.contains("not this pool's")), "{refused:?}");
    assert_eq!(bench.count("available_keys").await, 0);
}

pub(crate) async fn without_leave_no_table_is_made(bench: Bench) {
    let pool = bench.pool_of("codes", "a", false);
    let refused = pool.standing().await.unwrap_err();
    assert!(matches!(&refused, PoolError::Refused(said) if said.contains("ledger.migrate")), "{refused:?}");
    bench.filled(10).await;
    assert_eq!(pool.standing().await.unwrap().level, 10, "others may make it");
}

pub(crate) async fn tables_that_are_dropped_are_made_again(bench: Bench) {
    let pool = bench.filled(10).await;
    for table in ["available_keys", "used_keys", "key_pool"] {
        bench.execute(&format!("DROP TABLE {{p}}{table}")).await;
    }
    let refused = pool.pop(1).await.unwrap_err();
    assert!(matches!(refused, PoolError::Refused(_)), "{refused:?}");
    assert_eq!(pool.standing().await.unwrap().era, None, "the filler begins it anew");
}

pub(crate) async fn many_who_open_at_once_find_one_pool(bench: Bench) {
    let openers: Vec<_> = (0..6)
        .map(|opener| {
            let pool = bench.pool(&format!("n{opener}"));
            tokio::spawn(async move { pool.standing().await.unwrap().era })
        })
        .collect();
    for opener in openers {
        assert_eq!(opener.await.unwrap(), None);
    }
    assert_eq!(bench.count("key_pool").await, 1);
}
