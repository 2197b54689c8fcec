//! What becomes of a bound name: changed, deleted, expired, visited.

use super::{
    Bench,
    requests::{HOUR, KS, NOW, bind, claim, visit},
};
use crate::{Bind, Bound, Change, Changed, Deleted, Entry, Expiry, Visits};

fn change(name: &str) -> Change {
    Change {
        keyspace: KS.to_owned(),
        name: name.to_owned(),
        target: None,
        expiry: Expiry::AsItIs,
        at_ms: NOW,
    }
}

pub async fn a_change_changes_what_it_names_and_nothing_else<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let brief = Bind {
        owner: Some("me".to_owned()),
        expires_at_ms: Some(NOW + 9),
        ..bind("k", "https://a.example/")
    };
    let Bound::New(first) = registry.bind(brief).await.unwrap() else { panic!("it is free") };
    let target = Some("https://b.example/".to_owned());
    let elsewhere = Change { target: target.clone(), ..change("k") };
    let expected = Entry { target, ..first };
    assert_eq!(registry.update(elsewhere).await.unwrap(), Changed::Done(expected.clone()));
    let longer = Change { expiry: Expiry::At(NOW + HOUR), ..change("k") };
    let expected = Entry { expires_at_ms: Some(NOW + HOUR), ..expected };
    assert_eq!(registry.update(longer).await.unwrap(), Changed::Done(expected.clone()));
    assert_eq!(registry.sweep(NOW + 9, 10, None).await.unwrap().expired, 0, "it lives longer now");
    let for_ever = Change { expiry: Expiry::Never, ..change("k") };
    let expected = Entry { expires_at_ms: None, ..expected };
    assert_eq!(registry.update(for_ever).await.unwrap(), Changed::Done(expected.clone()));
    assert_eq!(
        registry.update(change("k")).await.unwrap(),
        Changed::Done(expected.clone()),
        "nothing at all"
    );
    assert_eq!(registry.entry(KS, "k").await.unwrap(), Some(expected));
    assert_eq!(registry.sweep(NOW + 2 * HOUR, 10, None).await.unwrap().expired, 0);
}

pub async fn what_is_not_bound_cannot_be_changed<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.claim(claim("promo")).await.unwrap();
    registry.mark_used(KS, vec!["used".to_owned()], NOW).await.unwrap();
    for name in ["promo", "used", "unknown"] {
        let elsewhere = Change { target: Some("https://b.example/".to_owned()), ..change(name) };
        assert_eq!(registry.update(elsewhere).await.unwrap(), Changed::NotBound, "{name}");
    }
    assert_eq!(registry.entry(KS, "promo").await.unwrap().unwrap().target, None);
}

pub async fn nothing_brings_back_what_is_gone<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let brief = Bind { expires_at_ms: Some(NOW + HOUR), ..bind("expired", "https://a.example/") };
    registry.bind(brief).await.unwrap();
    registry.bind(bind("deleted", "https://a.example/")).await.unwrap();
    registry.delete(KS, "deleted", NOW, None).await.unwrap();
    for name in ["expired", "deleted"] {
        let revive = Change {
            target: Some("https://b.example/".to_owned()),
            expiry: Expiry::Never,
            at_ms: NOW + HOUR,
            ..change(name)
        };
        assert_eq!(registry.update(revive).await.unwrap(), Changed::Gone, "{name}");
        let bound = Bind { at_ms: NOW + HOUR, ..bind(name, "https://a.example/") };
        assert_eq!(registry.bind(bound).await.unwrap(), Bound::Gone, "{name}");
    }
}

pub async fn a_deleted_target_is_forgotten_and_its_name_kept<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    assert_eq!(registry.delete(KS, "k", NOW, None).await.unwrap(), Deleted::NotThere);
    registry.bind(bind("k", "https://a.example/")).await.unwrap();
    assert_eq!(registry.delete(KS, "k", NOW + 1, None).await.unwrap(), Deleted::Done);
    assert_eq!(registry.delete(KS, "k", NOW + 2, Some(NOW + 3)).await.unwrap(), Deleted::Gone);
    let entry = registry.entry(KS, "k").await.unwrap().unwrap();
    assert_eq!((entry.target.as_deref(), entry.deleted_at_ms), (None, Some(NOW + 1)));
    assert!(entry.is_gone(NOW));
    assert_eq!(registry.sweep(NOW + HOUR, 10, None).await.unwrap().freed, 0, "what was said first holds");
}

pub async fn what_has_expired_is_gone_before_a_sweep_comes<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let brief = Bind { expires_at_ms: Some(NOW + HOUR), ..bind("k", "https://a.example/") };
    let Bound::New(entry) = registry.bind(brief.clone()).await.unwrap() else { panic!("it is free") };
    assert!(!entry.is_gone(NOW + HOUR - 1) && entry.is_gone(NOW + HOUR));
    let just_before = Bind { at_ms: NOW + HOUR - 1, ..brief.clone() };
    assert_eq!(registry.bind(just_before).await.unwrap(), Bound::Same(entry.clone()));
    let then = Bind { at_ms: NOW + HOUR, ..brief };
    assert_eq!(registry.bind(then).await.unwrap(), Bound::Gone);
    assert_eq!(registry.entry(KS, "k").await.unwrap(), Some(entry), "as it is kept");
    assert_eq!(registry.delete(KS, "k", NOW + HOUR, None).await.unwrap(), Deleted::Done);
}

pub async fn visits_add_up_and_unknown_names_are_passed_over<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let binds = (0..300).map(|n| bind(&format!("k{n}"), "https://a.example/")).collect();
    registry.bind_all(binds, None).await.unwrap();
    registry.bind(bind("dead", "https://a.example/")).await.unwrap();
    registry.delete(KS, "dead", NOW, None).await.unwrap();
    let visits = |name: &str, count| Visits { keyspace: KS.to_owned(), name: name.to_owned(), count };
    visit(&registry, Vec::new()).await;
    let mut many: Vec<Visits> = (0..300).map(|n| visits(&format!("k{n}"), n)).collect();
    many.extend([visits("k7", 100), visits("unknown", 5), visits("dead", 5), visits("K7", 5)]);
    visit(&registry, many.clone()).await;
    visit(&registry, vec![visits("k7", u32::MAX)]).await;
    for n in 0..300 {
        let entry = registry.entry(KS, &format!("k{n}")).await.unwrap().unwrap();
        let extra = if n == 7 { 100 + u64::from(u32::MAX) } else { 0 };
        assert_eq!(entry.visits, n + extra, "{n}");
    }
    assert_eq!(registry.entry(KS, "unknown").await.unwrap(), None);
    assert_eq!(registry.entry(KS, "dead").await.unwrap().unwrap().visits, 0);
}
