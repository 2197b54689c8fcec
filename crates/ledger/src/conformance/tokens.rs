//! Tokens: kept as they are, by an id that compares byte by byte.

use serde_json::json;

use super::{Bench, TestNode};
use crate::{LedgerError, TokenRow, ops};

async fn put(node: &mut TestNode, id: &str, body: serde_json::Value) {
    let op = ops::PutToken { stamp: node.stamp(), token: TokenRow { id: id.to_owned(), body } };
    let beat = op.stamp.next;
    let answer = node.ledger.put_token(op).await;
    node.note(beat, answer).unwrap();
}

async fn revoke(node: &mut TestNode, id: &str) -> Result<bool, LedgerError> {
    let op = ops::RevokeToken { stamp: node.stamp(), id: id.to_owned() };
    let beat = op.stamp.next;
    let answer = node.ledger.revoke_token(op).await;
    node.note(beat, answer)
}

pub async fn a_token_is_put_replaced_and_revoked<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    put(&mut a, "t1", json!({"may": ["take"]})).await;
    put(&mut a, "t1", json!({"may": ["take", "inspect"]})).await;
    let rows = a.ledger.tokens().await.unwrap();
    assert_eq!(rows, [TokenRow { id: "t1".to_owned(), body: json!({"may": ["take", "inspect"]}) }]);
    assert!(revoke(&mut a, "t1").await.unwrap());
    assert!(!revoke(&mut a, "t1").await.unwrap(), "it was gone already");
    assert_eq!(a.ledger.tokens().await.unwrap(), []);
}

pub async fn token_ids_compare_byte_by_byte<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    // Case, a trailing blank and an accent: what collations fold together.
    let ids = ["aB3k9Qp", "Ab3k9qP", "ab3k9qp", "ab3k9qp ", "äb3k9qp", "ab3k9q"];
    for id in ids {
        put(&mut a, id, json!(id)).await;
    }
    let mut rows = a.ledger.tokens().await.unwrap();
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(rows.len(), ids.len());
    assert!(rows.iter().all(|row| row.body == json!(row.id)), "{rows:?}");
    assert!(revoke(&mut a, "aB3k9Qp").await.unwrap());
    assert!(!revoke(&mut a, "AB3K9QP").await.unwrap());
    assert_eq!(a.ledger.tokens().await.unwrap().len(), ids.len() - 1);
}

pub async fn every_change_of_a_token_is_noticed<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let before = b.heartbeat(Vec::new()).await.unwrap().changes;
    put(&mut a, "t1", json!(1)).await;
    let put = b.heartbeat(Vec::new()).await.unwrap().changes;
    revoke(&mut a, "t1").await.unwrap();
    let revoked = b.heartbeat(Vec::new()).await.unwrap().changes;
    assert!(before < put && put < revoked, "{before} {put} {revoked}");
}
