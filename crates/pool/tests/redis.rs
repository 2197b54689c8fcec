//! Pools in a real Redis: the promises of every store, and what Redis may forget.

use keymill_engines::redis::{DURABLE, FORGETFUL, Redis};
use keymill_id::{KeyspaceName, RedisType, Rows};
use keymill_issuer::{
    Settings,
    rowed::{PoolError, Pushed, RowHome, RowPool, Standing},
};
use keymill_ledger::LedgerId;
use keymill_pool::RedisPool;

mod contract;
use contract::{FIRST, begin, number, pop_all, slab};

fn open(redis: &Redis, kind: RedisType) -> RedisPool {
    open_as(redis, kind, "codes")
}

fn open_as(redis: &Redis, kind: RedisType, keyspace: &str) -> RedisPool {
    let home = RowHome {
        ledger: LedgerId("1f".to_owned()),
        keyspace: KeyspaceName::parse(keyspace).unwrap(),
        rows: Rows::Redis { key: "codes".to_owned(), kind },
    };
    let mut settings = Settings::default();
    settings.places.redis_url = Some(format!("redis://127.0.0.1:{}", redis.port()).into());
    RedisPool::open(&home, &settings).unwrap()
}

macro_rules! promises {
    ($($promise:ident),* $(,)?) => {
        mod list {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                let redis = super::Redis::start(super::DURABLE).unwrap();
                super::contract::$promise(&super::open(&redis, super::RedisType::List)).await;
            })*
        }
        mod set {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                let redis = super::Redis::start(super::DURABLE).unwrap();
                super::contract::$promise(&super::open(&redis, super::RedisType::Set)).await;
            })*
        }
    };
}
promises!(
    what_is_popped_is_popped_once,
    a_push_takes_effect_once_however_often_and_late_it_is_sent,
    what_belongs_to_an_era_that_is_over_is_neither_pushed_nor_popped,
    an_imported_key_is_added_once_in_the_life_of_the_pool,
    one_filler_leads_until_it_resigns_or_its_term_is_over,
);

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_nothing_to_one_that_logs_first_and_a_doubt_to_one_that_does_not() {
    let mut redis = Redis::start(DURABLE).unwrap();
    let pool = open(&redis, RedisType::List);
    begin(&pool).await;
    pool.push(FIRST, &slab(0, 10)).await.unwrap();
    redis.restart().unwrap();
    let lost = pool.pop(1).await;
    assert!(matches!(lost, Err(PoolError::Unavailable(_) | PoolError::Doubtful(_))), "{lost:?}");
    assert!(matches!(pool.pop(1).await, Err(PoolError::Doubtful(_))), "nobody has looked yet");
    let standing = pool.standing().await.unwrap();
    assert_eq!(standing, Standing { era: Some(FIRST), next: number(10), level: 10, doubt: None });
    assert_eq!(pop_all(&pool).await.len(), 10);

    let mut redis = Redis::start(FORGETFUL).unwrap();
    let pool = open(&redis, RedisType::List);
    begin(&pool).await;
    pool.push(FIRST, &slab(0, 10)).await.unwrap();
    redis.cli(&["save"]).unwrap();
    assert_eq!(pool.pop(5).await.unwrap().keys.len(), 5);
    redis.restart().unwrap();
    let _ = pool.standing().await;
    let standing = pool.standing().await.unwrap();
    assert!(standing.doubt.is_some(), "the five are back: {standing:?}");
    assert!(matches!(pool.pop(1).await, Err(PoolError::Doubtful(_))));
    let _ = pool.push(FIRST, &slab(10, 20)).await; // its connection is the old one
    assert_eq!(pool.push(FIRST, &slab(10, 20)).await, Ok(Pushed::Overtaken));
    assert_eq!(pool.standing().await.unwrap().next, number(10));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_hold_imported_keys_are_set_aside_and_not_thrown_away() {
    let redis = Redis::start(DURABLE).unwrap();
    let pool = open(&redis, RedisType::List);
    begin(&pool).await;
    pool.import(FIRST, &["VOUCHER"]).await.unwrap();
    let second = keymill_issuer::rowed::Era { term: 2, ..FIRST };
    pool.begin(Some(FIRST), second, number(0)).await.unwrap();
    assert!(pop_all(&pool).await.is_empty());
    assert_eq!(redis.cli(&["lrange", "{codes}:keymill:aside:0.2", "0", "-1"]).unwrap().trim(), "VOUCHER");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_anothers_is_left_alone() {
    let redis = Redis::start(DURABLE).unwrap();
    redis.cli(&["set", "codes", "a text"]).unwrap();
    let pool = open(&redis, RedisType::List);
    assert!(matches!(pool.standing().await, Err(PoolError::Refused(_))));
    redis.cli(&["del", "codes"]).unwrap();
    begin(&pool).await;
    pool.push(FIRST, &slab(0, 10)).await.unwrap();
    let other = open_as(&redis, RedisType::List, "others");
    let refused = other.standing().await.unwrap_err();
    assert!(refused.to_string().contains("belongs to keyspace `codes`"), "{refused}");
    assert!(matches!(other.pop(1).await, Err(PoolError::Refused(_))));
    redis.cli(&["config", "set", "maxmemory-policy", "allkeys-lru"]).unwrap();
    let refused = open(&redis, RedisType::List).standing().await.unwrap_err();
    assert!(refused.to_string().contains("maxmemory-policy"), "{refused}");
}
