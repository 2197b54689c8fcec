//! Reads everything that carries a promise, once, when the file is opened.
//!
//! A checksum tells that a row is rotten only to those who read the row. One whose *name* has rotted is
//! never asked for again: its track would look unused. So all of them are read here, and counted
//! against what other rows say there must be. It costs about a second for some millions of holes.

use std::collections::BTreeMap;

use super::{
    super::run_now,
    rows::{SqliteRows, corrupt, get, open_document, read_hole},
};
use crate::{LedgerError, Rows, Track};

pub(super) fn verify(rows: &mut SqliteRows<'_>) -> Result<(), LedgerError> {
    let head = run_now(rows.head())?;
    rows.query("SELECT kind, key, body, crc FROM documents", [], |row| {
        let (kind, key, body): (String, String, String) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        open_document::<serde::de::IgnoredAny>(&kind, &key, &body, get(row, 3)?)
    })?;
    let tracks: BTreeMap<_, _> = run_now(rows.tracks())?.into_iter().collect();

    let keyspaces = run_now(rows.keyspaces())?;
    if keyspaces.len() as u64 != head.keyspaces {
        let (found, said) = (keyspaces.len(), head.keyspaces);
        return Err(corrupt(format!("it holds {found} keyspaces where its head says {said}")));
    }
    let trackless = keyspaces.into_iter().map(|row| Track::of(row.name)).find(|t| !tracks.contains_key(t));
    if let Some(track) = trackless {
        return Err(corrupt(format!("track `{track}` is missing")));
    }

    let mut holes: BTreeMap<String, u64> = BTreeMap::new();
    rows.query("SELECT track, number, kind, crc FROM holes", [], |row| {
        let (track, ..) = read_hole(row)?;
        *holes.entry(track).or_default() += 1;
        Ok(())
    })?;
    for (track, row) in &tracks {
        let found = holes.remove(&track.to_string()).unwrap_or(0);
        if found != row.holes {
            return Err(corrupt(format!("track `{track}` has {found} holes where it says {}", row.holes)));
        }
    }
    match holes.pop_first() {
        None => Ok(()),
        Some((track, _)) => Err(corrupt(format!("track `{track}` has holes and is missing"))),
    }
}
