//! Keys that are written down one by one.

use keymill_id::{Definition, Secret, Stated};

use super::{
    Bench,
    requests::{KS, NOW, at_once},
};
use crate::{Record, RegistryError};

fn record(keys: &[String]) -> Record {
    Record { keyspace: KS.to_owned(), keys: keys.to_vec(), node: "node-1".to_owned(), at_ms: NOW }
}

pub async fn a_key_is_written_down_once_and_all_of_a_batch_or_none<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let keys: Vec<String> = (0..2_000).map(|n| format!("k{n:04}")).collect();
    registry.record(record(&keys[..1_500])).await.unwrap();
    let again = registry.record(record(&keys[1_499..])).await;
    assert!(matches!(again, Err(RegistryError::Refused(_))), "{again:?}");
    let single = registry.record(record(&keys[..1])).await;
    assert!(matches!(single, Err(RegistryError::Refused(_))), "{single:?}");
    registry.record(record(&keys[1_500..])).await.unwrap();
    let mut found = Vec::new();
    loop {
        let last = found.last().map(String::as_str);
        let page = registry.recorded(KS, last, 700).await.unwrap();
        assert!(page.iter().all(|row| row.node == "node-1" && row.at_ms == NOW));
        if page.is_empty() {
            break;
        }
        found.extend(page.into_iter().map(|row| row.key));
    }
    assert_eq!(found, keys);
    assert_eq!(registry.recorded("other", None, 10).await.unwrap(), []);
}

pub async fn of_many_who_write_one_key_down_one_may_give_it<B: Bench>(bench: B) {
    let stated: Stated = serde_json::from_value(serde_json::json!({"scheme": "sequence"})).unwrap();
    let definition = Definition::resolve(&stated, Secret::from_bytes([0; Secret::LENGTH])).unwrap();
    bench.registry().await.arrange(KS, &definition).await.unwrap();
    let written = at_once(&bench, 32, |registry, caller| async move {
        registry.record(record(&["7".to_owned(), format!("1{caller:02}")])).await.is_ok()
    });
    let written = written.await.into_iter().filter(|is_written| *is_written).count();
    assert_eq!(written, 1);
    let rows = bench.registry().await.recorded(KS, None, 100).await.unwrap();
    assert_eq!(rows.len(), 2, "nothing is left of the others: {rows:?}");
    assert_eq!(rows[0].key, "7", "in the order of numbers");
}
