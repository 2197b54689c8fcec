//! Pages of a keyspace's entries.

use super::{
    Bench,
    requests::{HOUR, KS, NOW, bind, claim},
};
use crate::{
    Bind, Listing, Page, Registry, RegistryError,
    limits::{PAGE_MAX, SCAN_MAX},
};

fn listing(limit: u32) -> Listing {
    Listing { keyspace: KS.to_owned(), after: None, limit, query: None, live_at_ms: None }
}

fn names(page: &Page) -> Vec<&str> {
    page.entries.iter().map(|entry| entry.name.as_str()).collect()
}

/// The names of all pages, one after another.
async fn walk(registry: &Registry, mut listing: Listing) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = registry.list(listing.clone()).await.unwrap();
        assert!(page.entries.len() <= listing.limit as usize);
        found.extend(page.entries.into_iter().map(|entry| entry.name));
        match page.next {
            Some(next) => listing.after = Some(next),
            None => return found,
        }
    }
}

pub async fn pages_hold_every_entry_once_in_order<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    assert_eq!(registry.list(listing(10)).await.unwrap(), Page::default());
    let mut all: Vec<String> = (0..95).map(|n| format!("k{n}")).collect();
    all.extend(["K1", "k1 ", "_", "é", "Z", "z"].map(str::to_owned));
    registry.bind_all(all.iter().map(|name| bind(name, "https://a.example/")).collect(), None).await.unwrap();
    let other = Bind { keyspace: "other".to_owned(), ..bind("k1x", "https://a.example/") };
    registry.bind(other).await.unwrap();
    all.sort();
    for limit in [1, 7, 100, 101, 102] {
        assert_eq!(walk(&registry, listing(limit)).await, all, "in the order of bytes, by {limit}");
    }
    let whole = registry.list(listing(101)).await.unwrap();
    assert_eq!(whole.next, None, "a full page that is the last one says so");
    for limit in [0, PAGE_MAX + 1] {
        assert!(matches!(registry.list(listing(limit)).await, Err(RegistryError::Refused(_))));
    }
}

pub async fn pages_hold_every_entry_once_while_others_are_made<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let name = |n: u32| format!("k{:08x}", n.wrapping_mul(0x9e37_79b9));
    let before: Vec<String> = (0..200).map(name).collect();
    registry
        .bind_all(before.iter().map(|name| bind(name, "https://a.example/")).collect(), None)
        .await
        .unwrap();
    let other = bench.registry().await;
    let making = tokio::spawn(async move {
        for n in 200..400 {
            other.bind(bind(&name(n), "https://a.example/")).await.unwrap();
        }
    });
    let found = walk(&registry, listing(9)).await;
    assert!(found.is_sorted_by(|a, b| a < b), "none twice");
    let missing: Vec<_> = before.iter().filter(|name| found.binary_search(name).is_err()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    making.await.unwrap();
}

pub async fn a_query_finds_parts_of_names_and_targets<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    for (name, target) in [
        ("summer", "https://a.example/1"),
        ("winter", "https://b.example/SUMMERTIME"),
        ("autumn", "https://c.example/2"),
    ] {
        registry.bind(bind(name, target)).await.unwrap();
    }
    registry.claim(claim("midsummer")).await.unwrap();
    let find = |query: &str, limit| Listing { query: Some(query.to_owned()), ..listing(limit) };
    let page = registry.list(find("Summer", 10)).await.unwrap();
    assert_eq!((names(&page), page.next.as_deref()), (vec!["midsummer", "summer", "winter"], None));
    assert_eq!(walk(&registry, find("summer", 1)).await, ["midsummer", "summer", "winter"]);
    assert_eq!(walk(&registry, find("c.example", 10)).await, ["autumn"]);
    assert_eq!(walk(&registry, find("spring", 10)).await, [""; 0]);
}

pub async fn a_query_is_text_and_no_pattern<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    for (name, target) in [
        ("percent", "https://example.com/100%25"),
        ("plain", "https://example.com/100x25"),
        ("under_score", "https://example.com/"),
        ("underXscore", "https://example.com/'; DROP TABLE names; --\\"),
    ] {
        registry.bind(bind(name, target)).await.unwrap();
    }
    for (query, found) in [
        ("100%25", "percent"),
        ("under_score", "under_score"),
        ("'; drop", "underXscore"),
        ("\\", "underXscore"),
    ] {
        let find = Listing { query: Some(query.to_owned()), ..listing(10) };
        assert_eq!(walk(&registry, find).await, [found], "{query}");
    }
}

pub async fn only_live_links_are_listed_if_asked_for<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.bind(bind("live", "https://a.example/")).await.unwrap();
    registry
        .bind(Bind { expires_at_ms: Some(NOW + HOUR), ..bind("brief", "https://a.example/") })
        .await
        .unwrap();
    registry.bind(bind("dead", "https://a.example/")).await.unwrap();
    registry.delete(KS, "dead", NOW, None).await.unwrap();
    registry.claim(claim("claimed")).await.unwrap();
    let live = |at_ms| Listing { live_at_ms: Some(at_ms), ..listing(10) };
    assert_eq!(walk(&registry, live(NOW)).await, ["brief", "live"]);
    assert_eq!(walk(&registry, live(NOW + HOUR)).await, ["live"]);
    assert_eq!(walk(&registry, listing(10)).await, ["brief", "claimed", "dead", "live"]);
}

pub async fn a_page_looks_at_so_many_entries_and_says_where_it_stopped<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let used: Vec<String> = (0..SCAN_MAX).map(|n| format!("k{n:06}")).collect();
    registry.mark_used(KS, used, NOW).await.unwrap();
    registry.bind(bind("needle", "https://a.example/")).await.unwrap();
    let find = Listing { query: Some("needle".to_owned()), ..listing(10) };
    let first = registry.list(find.clone()).await.unwrap();
    assert_eq!((names(&first), first.next.as_deref()), (Vec::new(), Some("k009999")));
    let second = registry.list(Listing { after: first.next, ..find }).await.unwrap();
    assert_eq!((names(&second), second.next.as_deref()), (vec!["needle"], None));
}
