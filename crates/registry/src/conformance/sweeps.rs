//! What time takes away.

use super::{
    Bench,
    requests::{HOUR, KS, NOW, at_once, attempt, bind, claim, receipt},
};
use crate::{Attempt, Begun, Bind, Bound, Claim, Claimed, Swept};

fn brief(name: &str) -> Bind {
    Bind { expires_at_ms: Some(NOW + HOUR), ..bind(name, "https://a.example/") }
}

pub async fn what_has_expired_becomes_a_tombstone<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    assert_eq!(registry.sweep(NOW, 10, None).await.unwrap(), Swept::default(), "nothing to do");
    registry.bind(brief("brief")).await.unwrap();
    registry.bind(bind("lasting", "https://a.example/")).await.unwrap();
    registry.claim(claim("waiting")).await.unwrap();
    assert_eq!(registry.sweep(NOW + HOUR - 1, 10, None).await.unwrap(), Swept::default(), "not yet");
    let swept = registry.sweep(NOW + HOUR, 10, None).await.unwrap();
    assert_eq!(swept, Swept { expired: 1, freed: 0, receipts: 0 });
    let entry = registry.entry(KS, "brief").await.unwrap().unwrap();
    assert_eq!((entry.target.as_deref(), entry.deleted_at_ms), (None, Some(NOW + HOUR)));
    assert_eq!(entry.expires_at_ms, Some(NOW + HOUR), "it still says why");
    assert_eq!(registry.sweep(NOW + 9 * HOUR, 10, None).await.unwrap(), Swept::default(), "once");
    let again = Bind { at_ms: NOW + 9 * HOUR, expires_at_ms: None, ..brief("brief") };
    assert_eq!(registry.bind(again).await.unwrap(), Bound::Gone, "its name is nobody's, for ever");
}

pub async fn a_tombstone_with_an_end_is_freed_and_one_without_is_not<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    for (name, end) in [("ends", Some(NOW + HOUR)), ("stays", None)] {
        registry.bind(bind(name, "https://a.example/")).await.unwrap();
        registry.delete(KS, name, NOW, end).await.unwrap();
    }
    assert_eq!(registry.sweep(NOW + HOUR - 1, 10, None).await.unwrap(), Swept::default(), "not yet");
    let swept = registry.sweep(NOW + HOUR, 10, None).await.unwrap();
    assert_eq!(swept, Swept { expired: 0, freed: 1, receipts: 0 });
    assert_eq!(registry.entry(KS, "ends").await.unwrap(), None);
    let late = |name| Claim { at_ms: NOW + HOUR, ..claim(name) };
    assert!(matches!(registry.claim(late("ends")).await.unwrap(), Claimed::Granted(_)));
    assert!(matches!(registry.claim(late("stays")).await.unwrap(), Claimed::Taken { .. }));
}

pub async fn a_name_that_expired_can_be_had_after_its_rest<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.bind(brief("brief")).await.unwrap();
    let swept = registry.sweep(NOW + HOUR, 10, Some(NOW + 2 * HOUR)).await.unwrap();
    assert_eq!(swept, Swept { expired: 1, freed: 0, receipts: 0 });
    let again = |at_ms| Bind { at_ms, expires_at_ms: None, ..brief("brief") };
    assert_eq!(registry.bind(again(NOW + HOUR)).await.unwrap(), Bound::Gone, "not yet");
    assert_eq!(registry.sweep(NOW + 2 * HOUR - 1, 10, None).await.unwrap(), Swept::default(), "not yet");
    assert_eq!(registry.sweep(NOW + 2 * HOUR, 10, None).await.unwrap().freed, 1);
    assert!(matches!(registry.bind(again(NOW + 2 * HOUR)).await.unwrap(), Bound::New(_)));
}

pub async fn a_sweep_is_bounded<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    // Of several keyspaces, the oldest first.
    for (n, keyspace) in (0..90).zip(["a", "b", "c"].into_iter().cycle()) {
        let bind = Bind {
            keyspace: keyspace.to_owned(),
            expires_at_ms: Some(NOW + n),
            ..bind(&format!("k{n}"), "https://a.example/")
        };
        registry.bind(bind).await.unwrap();
    }
    for at_ms in [NOW, NOW + HOUR] {
        registry.bind(bind(&format!("t{at_ms}"), "https://a.example/")).await.unwrap();
        registry.delete(KS, &format!("t{at_ms}"), NOW, Some(at_ms)).await.unwrap();
    }
    let first = registry.sweep(NOW + HOUR, 40, None).await.unwrap();
    assert_eq!((first.expired, first.freed), (39, 1));
    let gone = |entry: crate::Entry| entry.deleted_at_ms.is_some();
    assert!(gone(registry.entry("a", "k0").await.unwrap().unwrap()));
    assert!(!gone(registry.entry("c", "k89").await.unwrap().unwrap()));
    let second = registry.sweep(NOW + HOUR, 40, None).await.unwrap();
    assert_eq!((second.expired, second.freed), (40, 0));
    let third = registry.sweep(NOW + HOUR, 40, None).await.unwrap();
    assert_eq!((third.expired, third.freed), (11, 1));
    assert_eq!(registry.sweep(NOW + HOUR, 40, None).await.unwrap(), Swept::default());
}

pub async fn sweeps_at_once_sweep_each_entry_once<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let binds = (0..200).map(|n| brief(&format!("k{n}"))).collect();
    registry.bind_all(binds, None).await.unwrap();
    let swept = at_once(&bench, 12, |registry, _| async move {
        let mut expired = 0;
        loop {
            let swept = registry.sweep(NOW + HOUR, 15, None).await.unwrap().expired;
            if swept == 0 {
                return expired;
            }
            expired += swept;
        }
    });
    assert_eq!(swept.await.into_iter().sum::<u64>(), 200);
}

pub async fn old_receipts_are_swept_and_others_kept<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    for n in 0..30 {
        let (scope, name) = (format!("old{n}"), format!("a{n}"));
        let begun = registry.begin(Attempt { until_ms: NOW + HOUR, ..attempt(&scope, &name) }).await.unwrap();
        assert_eq!(begun, Begun::Go);
        let kept = crate::Receipt { until_ms: NOW + HOUR, ..receipt(&scope, &name, "done") };
        registry.finish(kept).await.unwrap();
    }
    registry.begin(attempt("new", "a")).await.unwrap();
    registry.finish(receipt("new", "a", "done")).await.unwrap();
    assert_eq!(registry.sweep(NOW + HOUR - 1, 20, None).await.unwrap().receipts, 0);
    assert_eq!(registry.sweep(NOW + HOUR, 20, None).await.unwrap().receipts, 20);
    assert_eq!(registry.sweep(NOW + HOUR, 20, None).await.unwrap().receipts, 10);
    let begun = registry.begin(Attempt { at_ms: NOW + HOUR, ..attempt("new", "b") }).await.unwrap();
    assert_eq!(begun, Begun::Done { answer: "done".to_owned() });
}
