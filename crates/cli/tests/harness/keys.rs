//! The checker: every key that a client saw, and whether one was seen twice.

use std::collections::BTreeMap;

/// Keys that clients saw, packed so that millions of them fit.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    keys: BTreeMap<&'static str, Vec<u128>>,
}

impl Seen {
    pub(crate) fn log<S: AsRef<str>>(&mut self, keyspace: &'static str, keys: &[S]) {
        let packed = keys.iter().map(|key| pack(key.as_ref()));
        self.keys.entry(keyspace).or_default().extend(packed);
    }

    pub(crate) fn join(&mut self, other: Self) {
        for (keyspace, mut keys) in other.keys {
            self.keys.entry(keyspace).or_default().append(&mut keys);
        }
    }

    pub(crate) fn count(&self, keyspace: &str) -> u64 {
        self.keys.get(keyspace).map_or(0, |keys| keys.len() as u64)
    }

    pub(crate) fn total(&self) -> u64 {
        self.keys.values().map(|keys| keys.len() as u64).sum()
    }

    /// Keys that were seen before, counted once for each further time.
    pub(crate) fn duplicates(&mut self) -> u64 {
        let in_one = |keys: &mut Vec<u128>| {
            keys.sort_unstable();
            keys.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64
        };
        self.keys.values_mut().map(in_one).sum()
    }
}

/// The bytes behind a one, so that no two texts are packed alike.
fn pack(key: &str) -> u128 {
    assert!(key.len() < 16, "longer than a test's keys are: {key}");
    key.bytes().fold(1, |packed, byte| packed << 8 | u128::from(byte))
}
