//! Visits, counted in memory and written down in batches.
//!
//! A link that is followed counts for itself; only the first visit since the last writing puts it on the list of
//! those to be written. Writing costs as many pages of the registry as links were followed that lie apart, so under load
//! it is done as seldom as there is room for the list. A crash loses what was not written yet: counts are for people.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use keymill_registry::Visits;
use tokio::sync::Notify;

use super::remembered::{Found, What};

/// Links on the list that are worth writing down before it is time to.
const LISTED_MANY: usize = 250_000;
/// Beyond these visits are not counted until the list is written.
const LISTED_MAX: usize = 400_000;

#[derive(Debug, Default)]
pub(crate) struct VisitBook {
    listed: Mutex<Vec<Arc<Found>>>,
    many: Notify,
    /// Visits that were not counted, because too many links were followed at once.
    uncounted: AtomicU64,
}

impl VisitBook {
    pub(crate) fn note(&self, found: &Arc<Found>) {
        if !found.visit() {
            return;
        }
        let mut listed = self.listed.lock().expect("nothing panics while it holds this");
        if listed.len() < LISTED_MAX {
            listed.push(found.clone());
            if listed.len() == LISTED_MANY {
                self.many.notify_one();
            }
        } else {
            self.uncounted.fetch_add(found.visits.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Resolves when the list is long.
    pub(crate) async fn are_many(&self) {
        self.many.notified().await;
    }

    /// Everything since the last time.
    pub(crate) fn take(&self) -> Vec<Visits> {
        let listed = std::mem::take(&mut *self.listed.lock().expect("nothing panics while it holds this"));
        let count = |found: &Arc<Found>| match &found.what {
            What::Leads { place, .. } => Some(Visits {
                keyspace: place.keyspace.to_string(),
                name: place.name.to_string(),
                count: u32::try_from(found.visits.swap(0, Ordering::Relaxed)).unwrap_or(u32::MAX),
            }),
            What::Gone | What::Nothing => None,
        };
        listed.iter().filter_map(count).collect()
    }

    pub(crate) fn uncounted(&self) -> u64 {
        self.uncounted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::HeaderValue;
    use futures_util::FutureExt as _;
    use keymill_id::KeyspaceName;

    use super::{super::remembered::*, *};

    fn link(name: &str) -> Arc<Found> {
        let place = Place { keyspace: KeyspaceName::parse("links").unwrap(), name: name.into() };
        let to = HeaderValue::from_static("https://example.com/");
        let what = What::Leads { place: place.clone(), to, expires_at_ms: None };
        let remembered = Remembered::new(1, Duration::from_secs(1));
        let as_of = remembered.as_of(&place);
        remembered.put(place, what, Duration::ZERO, as_of)
    }

    #[test]
    fn every_visit_is_counted_once() {
        let (visits, a, b) = (VisitBook::default(), link("a"), link("b"));
        for found in [&a, &b, &a, &a] {
            visits.note(found);
        }
        let count = |name: &str, count| Visits { keyspace: "links".to_owned(), name: name.to_owned(), count };
        assert_eq!(visits.take(), [count("a", 3), count("b", 1)]);
        assert_eq!(visits.take(), []);
        visits.note(&b);
        assert_eq!(visits.take(), [count("b", 1)]);
    }

    #[tokio::test]
    async fn a_long_list_is_not_left_waiting_and_one_that_is_full_loses_count() {
        let (visits, a) = (VisitBook::default(), link("a"));
        let follow = |times: usize| {
            for _ in 0..times {
                visits.note(&a);
                // As another link that was not followed yet.
                a.visits.store(0, Ordering::Relaxed);
            }
        };
        follow(LISTED_MANY - 1);
        assert!(visits.are_many().now_or_never().is_none());
        follow(1);
        visits.are_many().await;
        follow(LISTED_MAX - LISTED_MANY);
        assert_eq!(visits.uncounted(), 0);
        follow(2);
        assert_eq!(visits.uncounted(), 2);
    }
}
