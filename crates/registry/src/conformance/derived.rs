//! Keys that are derived from content.

use std::collections::HashSet;

use super::{
    Bench,
    requests::{HOUR, KS, NOW, at_once, bind, claim, derive},
};
use crate::{Claim, Derive, Derived, Entry, Kind};

fn new(answer: Derived) -> (Entry, u32) {
    match answer {
        Derived::New { entry, collisions } => (entry, collisions),
        other => panic!("{other:?}"),
    }
}

pub async fn the_same_content_gives_the_same_key<B: Bench>(bench: B) {
    let (registry, other) = (bench.registry().await, bench.registry().await);
    let (entry, collisions) = new(registry.derive(derive("id-1", &["abc123", "abc124"])).await.unwrap());
    assert_eq!((entry.name.as_str(), entry.kind, collisions), ("abc123", Kind::Issued, 0));
    assert_eq!(entry.target.as_deref(), Some("https://example.com/id-1"));
    // Whatever spells the key: the identity decides.
    let again = other.derive(derive("id-1", &["zzz999"])).await.unwrap();
    assert_eq!(again, Derived::Known { entry: entry.clone() });
    assert_eq!(registry.entry(KS, "abc123").await.unwrap(), Some(entry));
    assert_eq!(registry.entry(KS, "zzz999").await.unwrap(), None);
    let elsewhere = Derive { keyspace: "other".to_owned(), ..derive("id-1", &["zzz999"]) };
    assert_eq!(new(registry.derive(elsewhere).await.unwrap()).0.name, "zzz999");
}

pub async fn other_content_with_the_same_candidate_gets_the_next<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.derive(derive("id-1", &["k1"])).await.unwrap();
    registry.claim(claim("k2")).await.unwrap();
    registry.bind(bind("k3", "https://example.com/")).await.unwrap();
    registry.delete(KS, "k3", NOW, None).await.unwrap();
    let (entry, collisions) = new(registry.derive(derive("id-2", &["k1", "k2", "k3", "k4"])).await.unwrap());
    assert_eq!((entry.name.as_str(), collisions), ("k4", 3));
    let first = registry.derive(derive("id-1", &["k1"])).await.unwrap();
    assert!(matches!(first, Derived::Known { entry } if entry.name == "k1"));
}

pub async fn candidates_that_are_all_taken_are_exhausted<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.derive(derive("id-1", &["k1"])).await.unwrap();
    registry.derive(derive("id-2", &["k2"])).await.unwrap();
    let exhausted = registry.derive(derive("id-3", &["k1", "k2"])).await.unwrap();
    assert_eq!(exhausted, Derived::Exhausted { collisions: 2 });
    assert_eq!(registry.derive(derive("id-3", &[])).await.unwrap(), Derived::Exhausted { collisions: 0 });
    assert_eq!(new(registry.derive(derive("id-3", &["k1", "k3"])).await.unwrap()).1, 1);
}

pub async fn sixty_four_derivations_of_one_content_give_one_key<B: Bench>(bench: B) {
    // With one candidate, whoever comes second finds it taken by the same content; with more, the next is free.
    for candidates in [&["only"][..], &["c1", "c2", "c3"]] {
        let identity = candidates.join("-");
        let answers = at_once(&bench, 64, |registry, _| {
            let derive = derive(&identity, candidates);
            async move { registry.derive(derive).await.unwrap() }
        });
        let (mut made, mut keys) = (0, HashSet::new());
        for answer in answers.await {
            match answer {
                Derived::New { entry, .. } => {
                    made += 1;
                    keys.insert(entry.name);
                }
                Derived::Known { entry } => drop(keys.insert(entry.name)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((made, keys), (1, HashSet::from([candidates[0].to_owned()])));
        for left_over in &candidates[1..] {
            assert_eq!(bench.registry().await.entry(KS, left_over).await.unwrap(), None);
        }
    }
}

pub async fn derivations_that_collide_at_once_give_a_key_each<B: Bench>(bench: B) {
    let candidates: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    let answers = at_once(&bench, 24, |registry, caller| {
        let derive = Derive { candidates: candidates.clone(), ..derive(&format!("id-{caller}"), &[]) };
        async move { new(registry.derive(derive).await.unwrap()) }
    });
    let answers = answers.await;
    let keys: HashSet<&str> = answers.iter().map(|(entry, _)| entry.name.as_str()).collect();
    assert_eq!(keys.len(), 24);
    for (entry, collisions) in &answers {
        assert_eq!(entry.name, format!("k{collisions}"), "the first that was free");
    }
}

pub async fn deleted_content_stays_gone<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.derive(derive("id-1", &["k1"])).await.unwrap();
    registry.delete(KS, "k1", NOW, Some(NOW + HOUR)).await.unwrap();
    assert_eq!(registry.derive(derive("id-1", &["k1", "k2"])).await.unwrap(), Derived::Gone);
    let brief = Derive { expires_at_ms: Some(NOW + HOUR), ..derive("id-2", &["k2"]) };
    registry.derive(brief).await.unwrap();
    let late = |identity, candidates| Derive { at_ms: NOW + HOUR, ..derive(identity, candidates) };
    assert_eq!(registry.derive(late("id-2", &["k2", "k3"])).await.unwrap(), Derived::Gone);
    registry.sweep(NOW + HOUR, 10, None).await.unwrap();
    assert_eq!(registry.derive(late("id-2", &["k2", "k3"])).await.unwrap(), Derived::Gone);
    // Freed: the content is as if it had never come.
    assert_eq!(new(registry.derive(late("id-1", &["k1"])).await.unwrap()).0.name, "k1");
    let free = registry.claim(Claim { at_ms: NOW + HOUR, ..claim("k3") }).await.unwrap();
    assert!(matches!(free, crate::Claimed::Granted(_)), "nothing was left behind: {free:?}");
}
