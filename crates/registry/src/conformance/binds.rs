//! Names and their targets: the first bind wins.

use std::collections::HashSet;

use super::{
    Bench,
    requests::{HOUR, KS, NOW, at_once, bind, claim},
};
use crate::{Bind, Bound, Claim, Claimed, Entry, Kind, RegistryError};

pub async fn a_bound_name_comes_back_as_it_went_in<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let target = format!("https://example.com/?qq={}", "ž".repeat(1_012));
    assert_eq!(target.len(), 2_048, "as long as a target may be");
    let long = Bind {
        owner: Some("žluť 🦜 O'Neil % _ \\".to_owned()),
        expires_at_ms: Some(i64::MAX),
        ..bind(&"n".repeat(255), &target)
    };
    let Bound::New(entry) = registry.bind(long.clone()).await.unwrap() else { panic!("it is free") };
    let expected = Entry {
        keyspace: KS.to_owned(),
        name: long.name.clone(),
        kind: Kind::Issued,
        target: Some(target),
        owner: long.owner,
        created_at_ms: NOW,
        expires_at_ms: Some(i64::MAX),
        deleted_at_ms: None,
        visits: 0,
    };
    assert_eq!(entry, expected);
    assert_eq!(bench.registry().await.entry(KS, &long.name).await.unwrap(), Some(expected));
}

pub async fn the_first_bind_wins<B: Bench>(bench: B) {
    let (registry, other) = (bench.registry().await, bench.registry().await);
    let Bound::New(first) = registry.bind(bind("k1", "https://a.example/")).await.unwrap() else {
        panic!("it is free")
    };
    let again = Bind { at_ms: NOW + 1, ..bind("k1", "https://a.example/") };
    assert_eq!(other.bind(again).await.unwrap(), Bound::Same(first.clone()));
    let later = bind("k1", "https://b.example/");
    assert_eq!(other.bind(later.clone()).await.unwrap(), Bound::AlreadyBound(first.clone()));
    assert_eq!(registry.entry(KS, "k1").await.unwrap(), Some(first));
    registry.delete(KS, "k1", NOW, None).await.unwrap();
    assert_eq!(other.bind(later).await.unwrap(), Bound::Gone);
}

/// Exactly one of those who bind `name` to a target each wins, and the others are told who did.
async fn race<B: Bench>(bench: &B, name: &'static str) {
    let answers = at_once(bench, 64, |registry, caller| async move {
        registry.bind(bind(name, &format!("https://example.com/{caller}"))).await.unwrap()
    });
    let (mut new, mut known) = (Vec::new(), HashSet::new());
    for answer in answers.await {
        match answer {
            Bound::New(entry) => new.push(entry.target),
            Bound::AlreadyBound(entry) => drop(known.insert(entry.target)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(new.len(), 1, "{new:?}");
    assert_eq!(known, new.into_iter().collect(), "and all others were told so");
}

pub async fn sixty_four_binds_at_once_bind_once<B: Bench>(bench: B) {
    race(&bench, "fresh").await;
}

pub async fn a_claimed_name_is_bound_once_and_stays_an_alias<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.claim(claim("promo")).await.unwrap();
    let bound = Bind {
        at_ms: NOW + 5,
        owner: Some("me".to_owned()),
        expires_at_ms: Some(NOW + HOUR),
        ..bind("promo", "https://a.example/")
    };
    let Bound::New(entry) = registry.bind(bound).await.unwrap() else { panic!("it waits for its target") };
    assert_eq!((entry.kind, entry.created_at_ms), (Kind::Alias, NOW));
    assert_eq!((entry.owner.as_deref(), entry.expires_at_ms), (Some("me"), Some(NOW + HOUR)));
    assert_eq!(registry.entry(KS, "promo").await.unwrap(), Some(entry.clone()));
    let late = registry.bind(bind("promo", "https://b.example/")).await.unwrap();
    assert_eq!(late, Bound::AlreadyBound(entry));
    registry.claim(claim("dead")).await.unwrap();
    registry.delete(KS, "dead", NOW, None).await.unwrap();
    assert_eq!(registry.bind(bind("dead", "https://a.example/")).await.unwrap(), Bound::Gone);
}

pub async fn a_claimed_name_is_not_bound_where_a_new_one_is_wanted<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.claim(claim("promo")).await.unwrap();
    let new = |name| Bind { only_new: true, ..bind(name, "https://a.example/") };
    for answers in [
        vec![registry.bind(new("promo")).await.unwrap()],
        registry.bind_all(vec![new("promo")], None).await.unwrap(),
    ] {
        assert!(
            matches!(&answers[..], [Bound::AlreadyBound(entry)] if entry.target.is_none()),
            "{answers:?}"
        );
    }
    assert!(matches!(registry.bind(new("free")).await.unwrap(), Bound::New(_)));
}

pub async fn sixty_four_binds_of_a_claimed_name_bind_it_once<B: Bench>(bench: B) {
    bench.registry().await.claim(claim("claimed")).await.unwrap();
    race(&bench, "claimed").await;
}

pub async fn a_look_alike_is_not_bound<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let skeleton = Some("payl".to_owned());
    let guarded = Claim { skeleton: skeleton.clone(), ..claim("pay1") };
    assert!(matches!(registry.claim(guarded).await.unwrap(), Claimed::Granted(_)));
    let like = Bind { skeleton: skeleton.clone(), ..bind("payI", "https://a.example/") };
    assert_eq!(registry.bind(like).await.unwrap(), Bound::LookAlike { name: "pay1".to_owned() });
    let itself = Bind { skeleton, ..bind("pay1", "https://a.example/") };
    assert!(matches!(registry.bind(itself).await.unwrap(), Bound::New(_)));
}

pub async fn a_batch_keeps_its_order_and_the_first_of_a_name_wins<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    assert_eq!(registry.bind_all(Vec::new(), None).await.unwrap(), []);
    let mut binds: Vec<Bind> =
        (0..700).rev().map(|n| bind(&format!("k{n}"), &format!("https://example.com/{n}"))).collect();
    binds.push(bind("k3", "https://example.com/other"));
    binds.push(bind("k4", "https://example.com/4"));
    binds.push(Bind { keyspace: "other".to_owned(), ..bind("k3", "https://example.com/other") });
    let answers = registry.bind_all(binds.clone(), None).await.unwrap();
    assert_eq!(answers.len(), binds.len());
    for (asked, answer) in binds.iter().zip(&answers).take(700) {
        let Bound::New(entry) = answer else { panic!("{asked:?}: {answer:?}") };
        assert_eq!((&entry.name, entry.target.as_ref()), (&asked.name, Some(&asked.target)));
    }
    assert!(
        matches!(&answers[700], Bound::AlreadyBound(entry) if entry.target.as_deref() == Some("https://example.com/3"))
    );
    assert!(matches!(&answers[701], Bound::Same(_)));
    assert!(matches!(&answers[702], Bound::New(entry) if entry.keyspace == "other"));
    let entry = registry.entry(KS, "k699").await.unwrap().unwrap();
    assert_eq!(entry.target.as_deref(), Some("https://example.com/699"));
}

pub async fn a_batch_meets_what_is_there<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.claim(Claim { skeleton: Some("s".to_owned()), ..claim("claimed") }).await.unwrap();
    registry.bind(bind("bound", "https://a.example/")).await.unwrap();
    registry.bind(bind("dead", "https://a.example/")).await.unwrap();
    registry.delete(KS, "dead", NOW, None).await.unwrap();
    let like = Bind { skeleton: Some("s".to_owned()), ..bind("like", "https://b.example/") };
    let names = ["claimed", "bound", "dead", "new"].map(|name| bind(name, "https://b.example/"));
    let answers = registry.bind_all([names.to_vec(), vec![like]].concat(), None).await.unwrap();
    assert!(matches!(&answers[0], Bound::New(entry) if entry.kind == Kind::Alias), "{answers:?}");
    assert!(matches!(&answers[1], Bound::AlreadyBound(_)), "{answers:?}");
    assert_eq!(answers[2], Bound::Gone);
    assert!(matches!(&answers[3], Bound::New(entry) if entry.kind == Kind::Issued), "{answers:?}");
    assert_eq!(answers[4], Bound::LookAlike { name: "claimed".to_owned() });
}

pub async fn batches_at_once_bind_each_name_once<B: Bench>(bench: B) {
    const NAMES: usize = 100;
    let answers = at_once(&bench, 8, |registry, caller| async move {
        // Each begins somewhere else, so that they meet in the middle.
        let names = (0..NAMES).map(|n| format!("k{}", (n + caller * 13) % NAMES));
        let binds = names.map(|name| bind(&name, &format!("https://example.com/{caller}"))).collect();
        registry.bind_all(binds, None).await.unwrap()
    });
    let mut won = Vec::new();
    for answer in answers.await.concat() {
        match answer {
            Bound::New(entry) => won.push(entry.name),
            Bound::AlreadyBound(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(won.len(), NAMES);
    assert_eq!(won.into_iter().collect::<HashSet<_>>().len(), NAMES);
}

pub async fn of_many_who_ask_at_once_each_is_told_its_own<B: Bench>(bench: B) {
    let asked = at_once(&bench, 300, |registry, caller| async move {
        let name = format!("k{caller}");
        let keyspace = if caller % 3 == 0 { "others" } else { KS };
        let wanted =
            Bind { keyspace: keyspace.to_owned(), ..bind(&name, &format!("https://example.com/{caller}")) };
        let Bound::New(entry) = registry.bind(wanted.clone()).await.unwrap() else { panic!("it is free") };
        assert_eq!(entry.target, Some(wanted.target));
        assert_eq!(
            registry.entry(keyspace, &name).await.unwrap(),
            Some(entry),
            "what was just bound is there"
        );
        let elsewhere = if keyspace == KS { "others" } else { KS };
        assert_eq!(registry.entry(elsewhere, &name).await.unwrap(), None);
        assert_eq!(
            registry.entry(KS, &format!("k\0{caller}")).await.unwrap(),
            None,
            "nothing can be called that"
        );
        let refused = registry.bind(bind(&format!("k\0{caller}"), "https://a.example/")).await;
        assert!(matches!(refused, Err(RegistryError::Refused(_))), "{refused:?}");
    });
    assert_eq!(asked.await.len(), 300);
}

pub async fn whoever_gives_up_takes_nobody_along<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let asked: Vec<_> = (0..100)
        .map(|caller| {
            let registry = registry.clone();
            let name = format!("k{caller}");
            tokio::spawn(async move { registry.bind(bind(&name, "https://a.example/")).await })
        })
        .collect();
    tokio::task::yield_now().await;
    for (caller, asked) in asked.into_iter().enumerate() {
        if caller % 2 == 0 {
            asked.abort();
        } else {
            assert!(matches!(asked.await.unwrap().unwrap(), Bound::New(_)));
            assert!(registry.entry(KS, &format!("k{caller}")).await.unwrap().is_some());
        }
    }
}
