//! Visits, counted in memory and written down in batches.
//!
//! A link that is followed counts for itself; only the first visit since the last writing puts it on the list of
//! those to be written. A crash loses what was not written yet: counts are for people.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use keymill_registry::Visits;

use super::remembered::{Found, What};

/// Links on the list; beyond it visits are not counted until it is written.
const LISTED_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct VisitBook {
    listed: Mutex<Vec<Arc<Found>>>,
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
        } else {
            self.uncounted.fetch_add(found.visits.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
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

    use super::{super::remembered::*, *};

    fn link(name: &str) -> Arc<Found> {
        let place = Place { keyspace: "links".into(), name: name.into() };
        let to = HeaderValue::from_static("https://example.com/");
        let what = What::Leads { place, to, expires_at_ms: None };
        let remembered = Remembered::new(1, Duration::from_secs(1));
        let as_of = remembered.as_of("links", name);
        remembered.put("links", name, what, Duration::ZERO, as_of)
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
}
