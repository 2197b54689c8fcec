//! Reads everything that carries a promise, once, when the file is opened.
//!
//! A checksum tells that a row is rotten only to those who read the row. One whose *name* has rotted is
//! never asked for again: its track would look unused. So all of them are read here, and counted
//! against what other rows say there must be. And a page whose bookkeeping has rotted reads well until
//! the next write lands on its neighbour: so SQLite checks the pages of these tables first. Both together
//! cost about half a second for a million holes, and nothing one would notice otherwise. Claims are left
//! out: nothing is decided by them, and opening must not take longer the more there are.

use std::collections::BTreeMap;

use super::{
    super::run_now,
    rows::{SqliteRows, corrupt, get, open_document, read_hole},
};
use crate::{LedgerError, Rows, Track};

pub(super) fn verify(rows: &mut SqliteRows<'_>) -> Result<(), LedgerError> {
    for table in ["documents", "tracks", "holes"] {
        let found = rows.query(&format!("PRAGMA quick_check({table})"), [], |row| get::<String>(row, 0))?;
        if found != ["ok"] {
            return Err(corrupt(found.join("; ")));
        }
    }
    let head = run_now(rows.head())?;
    rows.query("SELECT kind, key, body, crc FROM documents", [], |row| {
        let (kind, key, body): (String, String, String) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        open_document::<serde::de::IgnoredAny>(&kind, &key, &body, get(row, 3)?)
    })?;
    let tracks = run_now(rows.tracks())?;
    let names: Vec<String> = tracks.iter().map(|(track, _)| track.to_string()).collect();
    if !names.is_sorted_by(|earlier, later| earlier < later) {
        return Err(corrupt("a track is there twice, or not where it belongs".to_owned()));
    }
    let tracks: BTreeMap<_, _> = tracks.into_iter().collect();

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
