//! Chosen names: granted once, to the first who asks.

use super::{
    Bench,
    requests::{HOUR, KS, NOW, at_once, bind, claim},
};
use crate::{Bind, Bound, Claim, Claimed, Deleted, Kind, Marked, RegistryError, TakenBy, limits::NAME_MAX};

fn taken(by: TakenBy) -> Claimed {
    Claimed::Taken { by }
}

pub async fn a_name_is_granted_once<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    assert_eq!(registry.entry(KS, "promo").await.unwrap(), None);
    let Claimed::Granted(granted) = registry.claim(claim("promo")).await.unwrap() else {
        panic!("it is free")
    };
    assert_eq!((granted.kind, granted.target.clone(), granted.created_at_ms), (Kind::Alias, None, NOW));
    let other = bench.registry().await;
    assert_eq!(other.entry(KS, "promo").await.unwrap(), Some(granted));
    assert_eq!(other.claim(claim("promo")).await.unwrap(), taken(TakenBy::Alias));
    registry.bind(bind("promo", "https://example.com/")).await.unwrap();
    assert_eq!(other.claim(claim("promo")).await.unwrap(), taken(TakenBy::Bound));
    assert_eq!(other.delete(KS, "promo", NOW, None).await.unwrap(), Deleted::Done);
    assert_eq!(registry.claim(claim("promo")).await.unwrap(), taken(TakenBy::Tombstone));
    let brief = Bind { expires_at_ms: Some(NOW + HOUR), ..bind("brief", "https://example.com/") };
    registry.bind(brief).await.unwrap();
    let later = Claim { at_ms: NOW + HOUR, ..claim("brief") };
    assert_eq!(registry.claim(later).await.unwrap(), taken(TakenBy::Tombstone), "expired, and not yet swept");
}

pub async fn a_thousand_claims_of_one_name_grant_it_once<B: Bench>(bench: B) {
    let answers = at_once(&bench, 1_000, |registry, _| async move { registry.claim(claim("one")).await });
    let answers: Vec<Claimed> = answers.await.into_iter().map(Result::unwrap).collect();
    let granted = answers.iter().filter(|answer| matches!(answer, Claimed::Granted(_))).count();
    let refused = answers.iter().filter(|answer| **answer == taken(TakenBy::Alias)).count();
    assert_eq!((granted, refused), (1, 999));
}

pub async fn names_compare_byte_by_byte<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    // Case, a trailing blank and an accent: what collations fold together.
    let names = ["aB3k9Qp", "Ab3k9qP", "ab3k9qp", "ab3k9qp ", "äb3k9qp", "a\u{308}b3k9qp", "ab3k9q"];
    for name in names {
        let answer = registry.bind(bind(name, &format!("https://example.com/{name}"))).await.unwrap();
        assert!(matches!(answer, Bound::New(_)), "{name}: {answer:?}");
    }
    for name in names {
        let entry = registry.entry(KS, name).await.unwrap().unwrap();
        assert_eq!((entry.name.as_str(), entry.target), (name, Some(format!("https://example.com/{name}"))));
    }
    assert_eq!(registry.entry(KS, "AB3K9QP").await.unwrap(), None);
    assert_eq!(registry.entry(KS, "ab3k9qp  ").await.unwrap(), None);
}

pub async fn names_of_other_keyspaces_are_other_names<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    // Put together they spell the same.
    for (keyspace, name) in [("ab", "c"), ("a", "bc"), ("a", "c"), ("b", "c")] {
        let claim = Claim { keyspace: keyspace.to_owned(), ..claim(name) };
        assert!(matches!(registry.claim(claim).await.unwrap(), Claimed::Granted(_)), "{keyspace} {name}");
    }
}

pub async fn what_cannot_be_kept_whole_is_refused<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let longest = "n".repeat(NAME_MAX);
    assert!(matches!(registry.claim(claim(&longest)).await.unwrap(), Claimed::Granted(_)));
    let longer = format!("{longest}x");
    for (name, problem) in [(longer.as_str(), "256 bytes"), ("", "empty"), ("a\0b", "NUL")] {
        let refused = registry.claim(claim(name)).await.unwrap_err();
        assert!(matches!(&refused, RegistryError::Refused(said) if said.contains(problem)), "{refused}");
        assert_eq!(registry.entry(KS, name).await.unwrap(), None);
    }
    for target in ["t".repeat(2_049), "https://example.com/\0".to_owned()] {
        let refused = registry.bind(bind("free", &target)).await.unwrap_err();
        assert!(matches!(&refused, RegistryError::Refused(said) if said.contains("target")), "{refused}");
    }
    assert_eq!(registry.entry(KS, "free").await.unwrap(), None);
}

fn guarded(name: &str, skeleton: &str) -> Claim {
    Claim { skeleton: Some(skeleton.to_owned()), ..claim(name) }
}

pub async fn a_look_alike_is_taken_alive_or_dead<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let like = |name: &str| taken(TakenBy::LookAlike { name: name.to_owned() });
    assert!(matches!(registry.claim(guarded("pay1", "payl")).await.unwrap(), Claimed::Granted(_)));
    assert_eq!(registry.claim(guarded("payl", "payl")).await.unwrap(), like("pay1"));
    assert_eq!(registry.claim(guarded("pay1", "payl")).await.unwrap(), taken(TakenBy::Alias), "itself");
    assert_eq!(registry.entry(KS, "payl").await.unwrap(), None, "and nothing is left behind");
    registry.delete(KS, "pay1", NOW, Some(NOW + HOUR)).await.unwrap();
    assert_eq!(registry.claim(guarded("payI", "payl")).await.unwrap(), like("pay1"));
    registry.sweep(NOW + HOUR, 10, None).await.unwrap();
    assert!(matches!(registry.claim(guarded("payI", "payl")).await.unwrap(), Claimed::Granted(_)));
    let elsewhere = Claim { keyspace: "other".to_owned(), ..guarded("payl", "payl") };
    assert!(matches!(registry.claim(elsewhere).await.unwrap(), Claimed::Granted(_)));
}

pub async fn look_alikes_claimed_at_once_are_granted_once<B: Bench>(bench: B) {
    let answers = at_once(&bench, 64, |registry, caller| async move {
        registry.claim(guarded(&format!("look{caller}"), "look")).await.unwrap()
    });
    let (mut granted, mut named) = (Vec::new(), Vec::new());
    for answer in answers.await {
        match answer {
            Claimed::Granted(entry) => granted.push(entry.name),
            Claimed::Taken { by: TakenBy::LookAlike { name } } => named.push(name),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((granted.len(), named.len()), (1, 63));
    assert!(named.iter().all(|name| *name == granted[0]));
}

pub async fn used_names_are_nobodys<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.bind(bind("bound", "https://example.com/")).await.unwrap();
    let names = ["old1", "old2", "old1", "bound", "OLD1"].map(str::to_owned).to_vec();
    let marked = registry.mark_used(KS, names.clone(), NOW).await.unwrap();
    assert_eq!(marked, [Marked::New, Marked::New, Marked::Known, Marked::Taken, Marked::New]);
    let again = [Marked::Known, Marked::Known, Marked::Known, Marked::Taken, Marked::Known];
    assert_eq!(registry.mark_used(KS, names, NOW).await.unwrap(), again);
    assert_eq!(registry.claim(claim("old1")).await.unwrap(), taken(TakenBy::Used));
    let refused = registry.bind(bind("old2", "https://example.com/")).await.unwrap();
    assert!(matches!(&refused, Bound::AlreadyBound(entry) if entry.kind == Kind::Used), "{refused:?}");
    let entry = registry.entry(KS, "bound").await.unwrap().unwrap();
    assert_eq!(entry.kind, Kind::Issued, "what was there stays as it was");
    let many: Vec<String> = (0..1_234).map(|n| format!("many{n}")).collect();
    let at_once = at_once(&bench, 4, |registry, _| {
        let many = many.clone();
        async move { registry.mark_used(KS, many, NOW).await.unwrap() }
    });
    let new = at_once.await.concat().into_iter().filter(|marked| *marked == Marked::New).count();
    assert_eq!(new, many.len(), "each is new to one of those who bring it");
}
