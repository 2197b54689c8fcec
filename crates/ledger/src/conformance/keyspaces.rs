//! Promise 11: a keyspace is what its first creator wrote. And its names, by promise 14.

use serde_json::json;

use super::{Bench, START, TestNode, assert_refused, name, number};
use crate::{HoleKind, KeyspaceRow, LedgerError, ops};

async fn tune(
    node: &mut TestNode,
    keyspace: &str,
    tuning: serde_json::Value,
) -> Result<KeyspaceRow, LedgerError> {
    let serde_json::Value::Object(tuning) = tuning else { panic!("tuning is an object") };
    let op = ops::TuneKeyspace { stamp: node.stamp(), name: name(keyspace), tuning };
    let beat = op.stamp.next;
    let answer = node.ledger.tune_keyspace(op).await;
    node.note(beat, answer)
}

async fn retire(node: &mut TestNode, keyspace: &str) -> Result<KeyspaceRow, LedgerError> {
    let op = ops::RetireKeyspace { stamp: node.stamp(), name: name(keyspace) };
    let beat = op.stamp.next;
    let answer = node.ledger.retire_keyspace(op).await;
    node.note(beat, answer)
}

pub async fn a_keyspace_is_what_its_first_creator_wrote<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let mut op = a.create_op("links");
    op.definition = r#"{"secret":"ä \\ \" 😀","length":7}"#.to_owned();
    op.tuning = [("low_water".to_owned(), json!(9_007_199_254_740_993_u64))].into_iter().collect();
    let first = a.send_create(op.clone()).await.unwrap();
    assert!(first.created);
    assert_eq!(first.row.definition, op.definition, "as it was written, to the byte");
    assert_eq!((first.row.created_at, first.row.retired), (START, false));

    let mut second = b.create_op("links");
    (second.root, second.limit) = (true, 1);
    second.withheld = vec![number(3)];
    let second = b.send_create(second).await.unwrap();
    assert!(!second.created);
    assert_eq!(second.row, first.row);
    assert_eq!(b.keyspace("links").await, Some(first.row.clone()));
    assert_eq!(b.ledger.keyspaces().await.unwrap(), [first.row]);
    assert_eq!((b.head().await.root, b.hole("links", 3).await), (None, None), "the second wrote nothing");
}

pub async fn a_ledger_has_one_root<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let mut op = a.create_op("links");
    op.root = true;
    a.send_create(op).await.unwrap();
    assert_eq!(a.head().await.root, Some(name("links")));
    let mut op = a.create_op("more");
    op.root = true;
    let refused = a.send_create(op).await;
    assert_refused!(refused, LedgerError::RootTaken { root } if root == name("links"));
    assert_eq!(a.keyspace("more").await, None);
    a.create("more").await.expect("but it may live below a path");
}

pub async fn keyspaces_are_limited<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let limited = |node: &mut TestNode, keyspace: &str| {
        let mut op = node.create_op(keyspace);
        op.limit = 2;
        op
    };
    for keyspace in ["one", "two"] {
        let op = limited(&mut a, keyspace);
        a.send_create(op).await.unwrap();
    }
    retire(&mut a, "one").await.unwrap();
    let op = limited(&mut a, "three");
    assert_refused!(a.send_create(op).await, LedgerError::TooManyKeyspaces { limit: 2 });
    let op = limited(&mut a, "two");
    assert!(!a.send_create(op).await.expect("what is there can always be read back").created);
}

pub async fn route_words_are_holes_from_the_start<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let mut op = a.create_op("links");
    // Two words may be spelled by one number, once case is folded away.
    op.withheld = [5, 2, 5, 90].map(number).to_vec();
    a.send_create(op).await.unwrap();
    assert_eq!(a.row("links").await.holes, 3);
    assert_eq!(a.hole("links", 5).await, Some(HoleKind::Route));
    assert_eq!(a.reserve("links", 10).await.unwrap().holes, [number(2), number(5)]);
}

pub async fn tuning_changes_and_null_takes_it_back<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let frozen = a.keyspace("links").await.unwrap();
    tune(&mut a, "links", json!({"low_water": 10, "on_empty": "wait"})).await.unwrap();
    let row = tune(&mut a, "links", json!({"low_water": 20, "on_empty": null})).await.unwrap();
    assert_eq!(serde_json::Value::from(row.tuning.clone()), json!({"low_water": 20}));
    assert_eq!(a.keyspace("links").await, Some(row.clone()));
    assert_eq!(KeyspaceRow { tuning: frozen.tuning.clone(), ..row }, frozen, "nothing else moved");
    let nothing = tune(&mut a, "nothing", json!({})).await;
    assert_refused!(nothing, LedgerError::UnknownKeyspace { .. });
}

pub async fn a_retired_keyspace_stays_and_is_never_created_again<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    a.reserve("links", 100).await.unwrap();
    assert!(retire(&mut a, "links").await.unwrap().retired);
    let again = a.create("links").await.unwrap();
    assert!(!again.created && again.row.retired);
    assert_eq!(a.row("links").await.cursor, number(100), "the name never counts from zero again");
    assert_refused!(retire(&mut a, "nothing").await, LedgerError::UnknownKeyspace { .. });
}

pub async fn every_change_of_a_keyspace_is_noticed<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let mut seen = vec![b.heartbeat(Vec::new()).await.unwrap().changes];
    a.create("links").await.unwrap();
    seen.push(b.heartbeat(Vec::new()).await.unwrap().changes);
    tune(&mut a, "links", json!({"low_water": 10})).await.unwrap();
    seen.push(b.heartbeat(Vec::new()).await.unwrap().changes);
    retire(&mut a, "links").await.unwrap();
    seen.push(b.heartbeat(Vec::new()).await.unwrap().changes);
    assert!(seen.is_sorted_by(|earlier, later| earlier < later), "{seen:?}");
    a.reserve("links", 1).await.unwrap();
    a.create("links").await.unwrap();
    let quiet = b.heartbeat(Vec::new()).await.unwrap().changes;
    assert_eq!(Some(&quiet), seen.last(), "a block or a read-back is no news");
}

pub async fn names_that_share_a_beginning_stay_apart<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let longest = "a".repeat(63);
    // '-' sorts before '/', '0' right after it: what a range over a prefix gets wrong.
    let names = ["a", "aa", "a-b", "a0", "a_b", longest.as_str()];
    for (keyspace, count) in names.into_iter().zip(1..) {
        assert!(a.create(keyspace).await.unwrap().created, "`{keyspace}`");
        a.reserve(keyspace, count).await.unwrap();
        a.reserve(&format!("{keyspace}/1"), 10 * count).await.unwrap();
    }
    for (keyspace, count) in names.into_iter().zip(1..) {
        assert_eq!(a.row(keyspace).await.cursor, number(count), "`{keyspace}`");
        assert_eq!(a.row(&format!("{keyspace}/1")).await.cursor, number(10 * count));
        assert_eq!(a.claims(keyspace).await.len(), 1);
        assert_eq!(a.keyspace(keyspace).await.unwrap().name, name(keyspace));
    }
    assert_eq!(a.ledger.keyspaces().await.unwrap().len(), names.len());
}
