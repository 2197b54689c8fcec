//! How rows are spelled as keys and values.
//!
//! Keys sort as their rows do: numbers are 16 hex digits, and `/` ends every name, so that `a` and `a-b`
//! never mix. Values are JSON behind the number of their format; a format from the future is refused.

use keymill_id::{KeyspaceName, Number};
use serde::{Serialize, de::DeserializeOwned};

use crate::{NodeName, Track, WorkerId};

/// How values are written. Raised when an older version could not read them.
const FORMAT: &str = "1";

pub(super) const HEAD: &str = "head";
/// Written with every lease, and guarded by whoever chose one from the list of all.
pub(super) const LEASES: &str = "mark/lease";
/// Written with every witness, and guarded by whoever read them all.
pub(super) const WITNESSES: &str = "mark/witness";
/// How many holes the ledger holds.
pub(super) const HOLES: &str = "count/holes";

/// Keys from `from` up to, and without, `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub from: String,
    pub to: String,
    pub order: Order,
    /// `None`: all of them.
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Up,
    Down,
}

impl Span {
    /// Everything below `prefix/`. '0' follows '/', so that is exactly where it ends.
    pub(super) fn under(prefix: &str) -> Self {
        Self { from: format!("{prefix}/"), to: format!("{prefix}0"), order: Order::Up, limit: None }
    }

    pub(super) fn down(self, limit: usize) -> Self {
        Self { order: Order::Down, limit: Some(limit), ..self }
    }

    pub(super) fn up(self, limit: usize) -> Self {
        Self { limit: Some(limit), ..self }
    }

    pub(super) fn starting(self, from: String) -> Self {
        Self { from, ..self }
    }

    pub(super) fn ending(self, to: String) -> Self {
        Self { to, ..self }
    }

    pub(in crate::store) fn contains(&self, key: &str) -> bool {
        *self.from <= *key && *key < *self.to
    }
}

pub(super) fn node(name: &NodeName) -> String {
    format!("node/{name}")
}

/// `/` ends a name, so a worker's track is spelled with `:`.
fn spelled(track: &Track) -> String {
    track.to_string().replace('/', ":")
}

pub(super) fn track(track: &Track) -> String {
    format!("track/{}", spelled(track))
}

pub(super) fn track_of(key: &str) -> Option<Track> {
    key.strip_prefix("track/")?.replace(':', "/").parse().ok()
}

pub(super) fn holes(track: &Track) -> String {
    format!("hole/{}", spelled(track))
}

pub(super) fn claims(track: &Track) -> String {
    format!("claim/{}", spelled(track))
}

pub(super) fn open_claims(node: &NodeName) -> String {
    format!("open/{node}")
}

pub(super) fn open_claim(node: &NodeName, track: &Track, start: Number) -> String {
    at(&format!("{}/{}", open_claims(node), spelled(track)), start.get())
}

/// The key of a number below `prefix`. One past the last number has a key too.
pub(super) fn at(prefix: &str, number: u64) -> String {
    format!("{prefix}/{number:016x}")
}

pub(super) fn keyspace(name: &KeyspaceName) -> String {
    format!("keyspace/{name}")
}

pub(super) fn leases(keyspace: &KeyspaceName) -> String {
    format!("lease/{keyspace}")
}

pub(super) fn lease(keyspace: &KeyspaceName, worker: WorkerId) -> String {
    format!("lease/{keyspace}/{:05}", worker.0)
}

/// An id is any text; what is not a letter, digit, `_` or `-` is spelled by its bytes.
pub(super) fn token(id: &str) -> String {
    let mut key = "token/".to_owned();
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => key.push(char::from(byte)),
            other => key.push_str(&format!("%{other:02x}")),
        }
    }
    key
}

pub(super) fn witness(node: &NodeName) -> String {
    format!("witness/{node}")
}

pub(super) fn node_of(key: &str) -> Option<NodeName> {
    NodeName::parse(key.rsplit_once('/')?.1).ok()
}

pub(super) fn write(row: &impl Serialize) -> String {
    let json = serde_json::to_string(row).expect("rows are plain data");
    format!("{FORMAT} {json}")
}

/// What stands under `key`, or why it cannot be read.
pub(super) fn read<T: DeserializeOwned>(key: &str, value: &str) -> Result<T, String> {
    match value.split_once(' ') {
        Some((FORMAT, json)) => {
            serde_json::from_str(json).map_err(|error| format!("`{key}` cannot be read: {error}"))
        }
        Some((format, _)) if format.bytes().all(|b| b.is_ascii_digit()) => Err(format!(
            "`{key}` is written in format {format}, and this version reads format {FORMAT}; \
             use the version that wrote it"
        )),
        _ => Err(format!("`{key}` was not written by Keymill")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_rows_do() {
        let track: Track = "events/17".parse().unwrap();
        let keys = [0, 9, 10, 255, 1 << 53, (1 << 53) + 1, i64::MAX as u64].map(|n| at(&claims(&track), n));
        assert!(keys.is_sorted(), "{keys:?}");
    }

    #[test]
    fn a_name_holds_its_own_keys_and_no_others() {
        let of = |track: &str| Span::under(&claims(&track.parse().unwrap()));
        let key = |track: &str| at(&claims(&track.parse().unwrap()), 7);
        let tracks = ["a", "aa", "a-b", "a0", "a_b", "a/1", "a/17"];
        for (holder, other) in tracks.iter().flat_map(|a| tracks.map(|b| (*a, b))) {
            assert_eq!(of(holder).contains(&key(other)), holder == other, "{holder} and {other}");
        }
    }

    #[test]
    fn a_value_of_another_format_is_refused() {
        assert_eq!(read::<u64>("k", &write(&7_u64)), Ok(7));
        assert!(read::<u64>("k", "2 7").unwrap_err().contains("format 2"));
        assert!(read::<u64>("k", "seven").unwrap_err().contains("not written by Keymill"));
    }
}
