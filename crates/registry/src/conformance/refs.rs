//! References: one get-or-create.

use std::collections::HashSet;

use super::{
    Bench,
    requests::{KS, NOW, at_once, refer},
};
use crate::{NewReference, Reference, Referred, RegistryError};

fn known(key: &str) -> Referred {
    Referred::Known { key: key.to_owned() }
}

pub async fn a_reference_keeps_its_first_key<B: Bench>(bench: B) {
    let (registry, other) = (bench.registry().await, bench.registry().await);
    assert_eq!(registry.reference(KS, None, "order 4711 🦜").await.unwrap(), None);
    assert_eq!(registry.refer(refer("order 4711 🦜", "k1")).await.unwrap(), Referred::New);
    assert_eq!(other.refer(refer("order 4711 🦜", "k2")).await.unwrap(), known("k1"));
    assert_eq!(other.refer(refer("order 4711 🦜", "k1")).await.unwrap(), known("k1"));
    assert_eq!(other.reference(KS, None, "order 4711 🦜").await.unwrap().as_deref(), Some("k1"));
    assert_eq!(other.reference(KS, None, "ORDER 4711 🦜").await.unwrap(), None);
    assert_eq!(other.reference(KS, None, "order 4711 🦜 ").await.unwrap(), None);
    let refused = registry.refer(refer(&"r".repeat(2_049), "k9")).await.unwrap_err();
    assert!(matches!(&refused, RegistryError::Refused(said) if said.contains("2049 bytes")), "{refused}");
}

pub async fn sixty_four_referrers_at_once_agree<B: Bench>(bench: B) {
    let answers = at_once(&bench, 64, |registry, caller| async move {
        let key = format!("k{caller}");
        match registry.refer(refer("one", &key)).await.unwrap() {
            Referred::New => (true, key),
            Referred::Known { key } => (false, key),
            other => panic!("{other:?}"),
        }
    });
    let answers = answers.await;
    assert_eq!(answers.iter().filter(|(new, _)| *new).count(), 1);
    assert_eq!(answers.into_iter().map(|(_, key)| key).collect::<HashSet<_>>().len(), 1);
}

pub async fn references_of_other_owners_and_keyspaces_are_other_references<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let owned = |owner: &str, reference: &str, key: &str| NewReference {
        owner: Some(owner.to_owned()),
        ..refer(reference, key)
    };
    let new = [
        refer("r", "k1"),
        owned("", "r", "k2"),
        owned("me", "r", "k3"),
        owned("m", "er", "k4"),
        owned("žluť 🦜", "r", "k5"),
        refer("2:me:r", "k6"),
        NewReference { keyspace: "other".to_owned(), ..refer("r", "k7") },
    ];
    for new in &new {
        assert_eq!(registry.refer(new.clone()).await.unwrap(), Referred::New, "{new:?}");
    }
    for new in new {
        let key = registry.reference(&new.keyspace, new.owner.as_deref(), &new.reference).await.unwrap();
        assert_eq!(key, Some(new.key));
    }
}

pub async fn long_references_that_differ_at_the_end_are_different<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    for (end, key) in [("a", "k1"), ("b", "k2")] {
        let long = format!("{}{end}", "r".repeat(2_047));
        assert_eq!(registry.refer(refer(&long, key)).await.unwrap(), Referred::New);
        assert_eq!(registry.reference(KS, None, &long).await.unwrap().as_deref(), Some(key));
    }
}

pub async fn a_batch_of_references_keeps_its_order_and_the_first_wins<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.refer(refer("r7", "old")).await.unwrap();
    let mut new: Vec<NewReference> = (0..700).map(|n| refer(&format!("r{n}"), &format!("k{n}"))).collect();
    new.push(refer("r5", "late"));
    new.push(NewReference { keyspace: "other".to_owned(), ..refer("r5", "late") });
    let answers = registry.refer_all(new.clone()).await.unwrap();
    for (n, answer) in answers.iter().enumerate() {
        let expected = match n {
            7 => known("old"),
            700 => known("k5"),
            _ => Referred::New,
        };
        assert_eq!(*answer, expected, "{n}");
    }
    assert_eq!(registry.reference(KS, None, "r699").await.unwrap().as_deref(), Some("k699"));
    assert_eq!(registry.reference("other", None, "r5").await.unwrap().as_deref(), Some("late"));
    let again = registry.refer_all(new).await.unwrap();
    assert!(again.iter().all(|answer| matches!(answer, Referred::Known { .. })), "a batch may come again");
    assert_eq!(registry.refer_all(Vec::new()).await.unwrap(), []);
}

pub async fn many_references_are_looked_up_in_their_order<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let new = (0..300).map(|n| refer(&format!("r{n}"), &format!("k{n}")));
    registry.refer_all(new.collect()).await.unwrap();
    registry.refer(NewReference { owner: Some("me".to_owned()), ..refer("r1", "mine") }).await.unwrap();
    registry.refer(NewReference { keyspace: "other".to_owned(), ..refer("x", "k") }).await.unwrap();
    let mut asked: Vec<_> = (0..300).rev().map(|n| (None, format!("r{n}"))).collect();
    asked.extend([(None, "x".to_owned()), (Some("me".to_owned()), "r1".to_owned()), (None, "r1".to_owned())]);
    let keys = registry.references_of(KS, asked).await.unwrap();
    let mut expected: Vec<_> = (0..300).rev().map(|n| Some(format!("k{n}"))).collect();
    expected.extend([None, Some("mine".to_owned()), Some("k1".to_owned())]);
    assert_eq!(keys, expected);
    assert_eq!(registry.references_of(KS, Vec::new()).await.unwrap(), []);
}

pub async fn batches_of_references_at_once_agree<B: Bench>(bench: B) {
    const COUNT: usize = 100;
    let answers = at_once(&bench, 8, |registry, caller| async move {
        let number = |n: usize| (n + caller * 13) % COUNT;
        let new = (0..COUNT).map(|n| refer(&format!("r{}", number(n)), &format!("k{caller}"))).collect();
        let answers = registry.refer_all(new).await.unwrap().into_iter();
        let keys = answers.map(|answer| match answer {
            Referred::New => format!("k{caller}"),
            Referred::Known { key } => key,
            other => panic!("{other:?}"),
        });
        keys.enumerate().map(|(n, key)| (number(n), key)).collect::<Vec<_>>()
    });
    let agreed: HashSet<(usize, String)> = answers.await.concat().into_iter().collect();
    assert_eq!(agreed.len(), COUNT, "each reference has one key, whoever asked");
}

pub async fn references_are_found_by_their_key<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    for reference in ["a", "b"] {
        registry.refer(refer(reference, "k1")).await.unwrap();
    }
    registry.refer(refer("c", "K1")).await.unwrap();
    let found = registry.references_to(KS, "k1").await.unwrap();
    assert_eq!(found.iter().map(|found| found.reference.as_str()).collect::<HashSet<_>>(), ["a", "b"].into());
    assert!(found.iter().all(|found| found.key == "k1" && found.created_at_ms == NOW));
    assert_eq!(registry.references_to(KS, "k2").await.unwrap(), []);
    registry.refer_all((0..150).map(|n| refer(&n.to_string(), "many")).collect()).await.unwrap();
    assert_eq!(registry.references_to(KS, "many").await.unwrap().len(), 100, "so many and no more");
}

pub async fn references_are_exported_each_once<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let new: Vec<NewReference> = (0..95)
        .map(|n| NewReference {
            owner: (n % 2 == 0).then(|| format!("o{n}")),
            ..refer(&format!("r{n}"), &format!("k{n}"))
        })
        .collect();
    registry.refer_all(new.clone()).await.unwrap();
    registry.refer(NewReference { keyspace: "other".to_owned(), ..refer("x", "k") }).await.unwrap();
    let mut found: Vec<Reference> = Vec::new();
    loop {
        let after = found.last().map(Reference::cursor);
        let page = registry.references(KS, after.as_deref(), 10).await.unwrap();
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    assert_eq!(found.len(), 95);
    let found: HashSet<_> =
        found.into_iter().map(|found| (found.owner, found.reference, found.key)).collect();
    assert_eq!(found, new.into_iter().map(|new| (new.owner, new.reference, new.key)).collect());
}
