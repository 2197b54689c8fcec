//! Links that were asked for lately, and those that were found not to be there: bounded in number and in time.
//!
//! What this node changes it forgets at once; what another node changed is seen when its time is over.

use std::{
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::http::HeaderValue;
use quick_cache::{Equivalent, sync::Cache};

/// One that is not there is believed for at most this long: it may be made any moment.
const ABSENT_FOR: Duration = Duration::from_secs(1);

/// What was found at a name.
#[derive(Debug)]
pub(crate) struct Found {
    pub what: What,
    /// Followed since the last count was written down.
    pub visits: AtomicU64,
    /// In the process's own time.
    until: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Leads {
        place: Place,
        to: HeaderValue,
        expires_at_ms: Option<u64>,
    },
    /// Expired or deleted.
    Gone,
    Nothing,
}

/// A name in a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub keyspace: Box<str>,
    pub name: Box<str>,
}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        At(&self.keyspace, &self.name).hash(state);
    }
}

/// A place that is only looked at: it hashes as its owned form does.
#[derive(Hash)]
struct At<'p>(&'p str, &'p str);

impl Equivalent<Place> for At<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        *self.0 == *place.keyspace && *self.1 == *place.name
    }
}

#[derive(Debug)]
pub(crate) struct Remembered {
    found: Cache<Place, Arc<Found>>,
    believed_for: Duration,
}

impl Remembered {
    pub(crate) fn new(entries: usize, believed_for: Duration) -> Self {
        Self { found: Cache::new(entries), believed_for }
    }

    /// `now` is the process's own time.
    pub(crate) fn get(&self, keyspace: &str, name: &str, now: Duration) -> Option<Arc<Found>> {
        self.found.get(&At(keyspace, name)).filter(|found| now < found.until)
    }

    pub(crate) fn put(&self, keyspace: &str, name: &str, what: What, now: Duration) -> Arc<Found> {
        let believed_for = match what {
            What::Nothing => self.believed_for.min(ABSENT_FOR),
            What::Leads { .. } | What::Gone => self.believed_for,
        };
        let found = Arc::new(Found { what, visits: AtomicU64::new(0), until: now + believed_for });
        self.found.insert(Place { keyspace: keyspace.into(), name: name.into() }, found.clone());
        found
    }

    pub(crate) fn forget(&self, keyspace: &str, name: &str) {
        self.found.remove(&At(keyspace, name));
    }
}

impl Found {
    /// Counts a visit. True for the first one since the count was last written down.
    pub(crate) fn visit(&self) -> bool {
        self.visits.fetch_add(1, Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_remembered_is_believed_for_a_while() {
        let remembered = Remembered::new(10, 10 * SECOND);
        remembered.put("links", "a", What::Gone, SECOND);
        remembered.put("links", "b", What::Nothing, SECOND);
        assert_eq!(remembered.get("links", "a", 10 * SECOND).unwrap().what, What::Gone);
        assert!(remembered.get("links", "a", 11 * SECOND).is_none(), "its time is over");
        assert!(remembered.get("links", "b", 2 * SECOND).is_none(), "absence is believed less long");
        assert!(remembered.get("link", "sa", SECOND).is_none());
        remembered.forget("links", "a");
        assert!(remembered.get("links", "a", SECOND).is_none());
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let remembered = Remembered::new(100, SECOND);
        for n in 0..10_000 {
            remembered.put("links", &n.to_string(), What::Nothing, SECOND);
        }
        assert!(remembered.found.len() <= 100, "{}", remembered.found.len());
    }

    #[test]
    fn the_first_visit_is_told_from_the_others() {
        let found = Remembered::new(1, SECOND).put("links", "a", What::Gone, SECOND);
        assert_eq!([found.visit(), found.visit(), found.visit()], [true, false, false]);
        assert_eq!(found.visits.swap(0, Ordering::Relaxed), 3);
        assert!(found.visit());
    }
}
