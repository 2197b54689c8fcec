//! Links that were asked for lately, and those that were found not to be there: bounded in number and in time.
//!
//! What this node changes it forgets at once; what another node changed is seen when its time is over.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::http::HeaderValue;
use keymill_id::KeyspaceName;
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
    pub keyspace: KeyspaceName,
    pub name: Arc<str>,
}

impl Place {
    fn at(&self) -> At<'_> {
        At(self.keyspace.as_str(), &self.name)
    }
}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at().hash(state);
    }
}

/// A place that is only looked at: it hashes as its owned form does.
#[derive(Clone, Copy, Hash)]
struct At<'p>(&'p str, &'p str);

impl Equivalent<Place> for At<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        *self.0 == *place.keyspace.as_str() && *self.1 == *place.name
    }
}

/// How many places share a count of changes.
const CHANGES: usize = 1024;

#[derive(Debug)]
pub(crate) struct Remembered {
    found: Cache<Place, Arc<Found>>,
    believed_for: Duration,
    /// How often something was forgotten, by the place's hash. What was looked up while its place changed may be what
    /// was there before.
    changes: Box<[AtomicU64]>,
}

/// How often a place had changed when it was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AsOf(u64);

impl Remembered {
    pub(crate) fn new(entries: usize, believed_for: Duration) -> Self {
        let changes = (0..CHANGES).map(|_| AtomicU64::new(0)).collect();
        Self { found: Cache::new(entries), believed_for, changes }
    }

    /// To be asked before a look-up whose answer is [put](Self::put).
    pub(crate) fn as_of(&self, place: &Place) -> AsOf {
        AsOf(self.changes_of(place.at()).load(Ordering::SeqCst))
    }

    fn changes_of(&self, at: At<'_>) -> &AtomicU64 {
        let mut hasher = DefaultHasher::new();
        at.hash(&mut hasher);
        &self.changes[usize::try_from(hasher.finish() % CHANGES as u64).unwrap_or_default()]
    }

    /// `now` is the process's own time.
    pub(crate) fn get(&self, keyspace: &str, name: &str, now: Duration) -> Option<Arc<Found>> {
        self.found.get(&At(keyspace, name)).filter(|found| now < found.until)
    }

    /// Not kept if the place changed since `as_of`.
    pub(crate) fn put(&self, place: Place, what: What, now: Duration, as_of: AsOf) -> Arc<Found> {
        let believed_for = match what {
            What::Nothing => self.believed_for.min(ABSENT_FOR),
            What::Leads { .. } | What::Gone => self.believed_for,
        };
        let found = Arc::new(Found { what, visits: AtomicU64::new(0), until: now + believed_for });
        self.found.insert(place.clone(), found.clone());
        // Looked at after it was put: whoever changes the place counts first and removes then, so one of us removes it.
        if self.as_of(&place) != as_of {
            self.found.remove(&place);
        }
        found
    }

    pub(crate) fn forget(&self, keyspace: &str, name: &str) {
        self.changes_of(At(keyspace, name)).fetch_add(1, Ordering::SeqCst);
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

    fn place(name: &str) -> Place {
        Place { keyspace: KeyspaceName::parse("links").unwrap(), name: name.into() }
    }

    impl Remembered {
        fn put_now(&self, name: &str, what: What) -> Arc<Found> {
            self.put(place(name), what, SECOND, self.as_of(&place(name)))
        }
    }

    #[test]
    fn what_was_looked_up_before_a_change_is_not_kept_after_it() {
        let remembered = Remembered::new(10, 10 * SECOND);
        let as_of = remembered.as_of(&place("a"));
        remembered.forget("links", "a");
        assert_eq!(remembered.put(place("a"), What::Gone, SECOND, as_of).what, What::Gone);
        assert!(remembered.get("links", "a", SECOND).is_none());
        remembered.put_now("a", What::Gone);
        assert!(remembered.get("links", "a", SECOND).is_some());
    }

    #[test]
    fn what_is_remembered_is_believed_for_a_while() {
        let remembered = Remembered::new(10, 10 * SECOND);
        remembered.put_now("a", What::Gone);
        remembered.put_now("b", What::Nothing);
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
            remembered.put_now(&n.to_string(), What::Nothing);
        }
        assert!(remembered.found.len() <= 100, "{}", remembered.found.len());
    }

    #[test]
    fn the_first_visit_is_told_from_the_others() {
        let found = Remembered::new(1, SECOND).put_now("a", What::Gone);
        assert_eq!([found.visit(), found.visit(), found.visit()], [true, false, false]);
        assert_eq!(found.visits.swap(0, Ordering::Relaxed), 3);
        assert!(found.visit());
    }
}
