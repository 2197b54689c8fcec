//! What every store of rows must keep, by the numbers of `RowPool`'s promises.

use std::{collections::HashSet, time::Duration};

use keymill_id::{Block, Definition, Mint, Number, Scratch, Secret, Slab, Stated};
use keymill_issuer::rowed::{Begun, Era, Popped, Pushed, RowPool};
use keymill_ledger::NodeName;

pub(crate) const FIRST: Era = Era { advances: 0, term: 1 };
const SECOND: Era = Era { advances: 0, term: 2 };

/// Keys as a filler spells them: six digits, in order.
pub(crate) fn slab(from: u64, to: u64) -> Slab {
    let stated: Stated =
        serde_json::from_str(r#"{"scheme":"pool","alphabet":"decimal","length":6,"order":"sequential"}"#)
            .unwrap();
    let definition = Definition::resolve(&stated, Secret::from_bytes([7; Secret::LENGTH])).unwrap();
    let block = Block::new(number(from), number(to)).unwrap();
    Mint::compile(&definition).spell_block(block, &[], &mut Scratch::default())
}

pub(crate) fn number(value: u64) -> Number {
    Number::new(value).unwrap()
}

pub(crate) async fn begin(pool: &dyn RowPool) {
    assert_eq!(pool.begin(None, FIRST, Number::ZERO).await, Ok(Begun::Anew { burned: 0 }));
}

pub(crate) async fn pop_all(pool: &dyn RowPool) -> HashSet<String> {
    let Popped { keys, left } = pool.pop(10_000).await.unwrap();
    assert_eq!(left, 0);
    keys.into_iter().map(|key| String::from_utf8(key).unwrap()).collect()
}

fn texts(from: u64, to: u64) -> HashSet<String> {
    (from..to).map(|number| format!("{number:06}")).collect()
}

/// Promise 1.
pub(crate) async fn what_is_popped_is_popped_once(pool: &dyn RowPool) {
    begin(pool).await;
    assert_eq!(pool.push(FIRST, &slab(0, 1000)).await, Ok(Pushed::Done { level: 1000 }));
    let Popped { keys, left } = pool.pop(300).await.unwrap();
    assert_eq!((keys.len(), left), (300, 700));
    let first: HashSet<String> = keys.into_iter().map(|key| String::from_utf8(key).unwrap()).collect();
    let rest = pop_all(pool).await;
    assert_eq!((first.len(), rest.len()), (300, 700));
    assert!(first.is_disjoint(&rest));
    assert!(pop_all(pool).await.is_empty(), "an empty pool is no error");
}

/// Promise 3.
pub(crate) async fn a_push_takes_effect_once_however_often_and_late_it_is_sent(pool: &dyn RowPool) {
    begin(pool).await;
    assert_eq!(pool.push(FIRST, &slab(10, 20)).await, Ok(Pushed::Overtaken), "it does not start at `next`");
    assert_eq!(pool.push(FIRST, &slab(0, 10)).await, Ok(Pushed::Done { level: 10 }));
    assert_eq!(pool.push(FIRST, &slab(0, 10)).await, Ok(Pushed::Overtaken), "twice");
    assert_eq!(pop_all(pool).await, texts(0, 10));
    assert_eq!(pool.push(FIRST, &slab(0, 10)).await, Ok(Pushed::Overtaken), "late, when its rows are gone");
    assert_eq!(pool.push(FIRST, &slab(0, 15)).await, Ok(Pushed::Overtaken), "cut otherwise");
    assert_eq!(pool.push(FIRST, &slab(10, 15)).await, Ok(Pushed::Done { level: 5 }));
    let standing = pool.standing().await.unwrap();
    assert_eq!((standing.era, standing.next, standing.level), (Some(FIRST), number(15), 5));
    assert_eq!(pop_all(pool).await, texts(10, 15));
}

/// Promise 4.
pub(crate) async fn what_belongs_to_an_era_that_is_over_is_neither_pushed_nor_popped(pool: &dyn RowPool) {
    begin(pool).await;
    assert_eq!(pool.push(FIRST, &slab(0, 10)).await, Ok(Pushed::Done { level: 10 }));
    assert_eq!(pool.begin(None, SECOND, number(100)).await, Ok(Begun::Overtaken), "it is not the last era");
    assert_eq!(pool.begin(Some(FIRST), SECOND, number(100)).await, Ok(Begun::Anew { burned: 10 }));
    assert_eq!(pool.push(FIRST, &slab(10, 20)).await, Ok(Pushed::Overtaken));
    assert_eq!(pool.push(FIRST, &slab(100, 110)).await, Ok(Pushed::Overtaken));
    assert!(pop_all(pool).await.is_empty());
    assert_eq!(pool.import(FIRST, &["LATE"]).await, Ok(None));
    assert_eq!(pool.push(SECOND, &slab(100, 110)).await, Ok(Pushed::Done { level: 10 }));
    assert_eq!(pop_all(pool).await, texts(100, 110));
}

pub(crate) async fn an_imported_key_is_added_once_in_the_life_of_the_pool(pool: &dyn RowPool) {
    begin(pool).await;
    assert_eq!(pool.import(FIRST, &["A", "B", "A"]).await, Ok(Some(vec![true, true, false])));
    assert_eq!(
        pool.import(FIRST, &["B", "C", "c"]).await,
        Ok(Some(vec![false, true, true])),
        "bytes are compared"
    );
    let popped = pop_all(pool).await;
    assert_eq!(popped, ["A", "B", "C", "c"].map(str::to_owned).into());
    assert_eq!(pool.import(FIRST, &["A"]).await, Ok(Some(vec![false])), "taken is not forgotten");
    assert!(pop_all(pool).await.is_empty());
}

pub(crate) async fn one_filler_leads_until_it_resigns_or_its_term_is_over(pool: &dyn RowPool) {
    let (a, b) = (NodeName::parse("a").unwrap(), NodeName::parse("b").unwrap());
    let long = Duration::from_secs(60);
    assert_eq!(pool.lead(&a, long).await, Ok(true));
    assert_eq!(pool.lead(&b, long).await, Ok(false));
    assert_eq!(pool.lead(&a, long).await, Ok(true), "again");
    pool.resign(&b).await.unwrap();
    assert_eq!(pool.lead(&b, long).await, Ok(false), "it is not b's to give up");
    pool.resign(&a).await.unwrap();
    assert_eq!(pool.lead(&b, Duration::from_millis(1)).await, Ok(true));
    for _ in 0..200 {
        if pool.lead(&a, long).await == Ok(true) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the term did not end");
}
