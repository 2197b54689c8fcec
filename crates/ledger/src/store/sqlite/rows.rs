//! The rows, in SQL. No decision is made here.

use keymill_id::{Block, KeyspaceName, Number};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde::{Serialize, de::DeserializeOwned};

use super::{SQLITE, failure};
use crate::{
    ClaimRow, Head, HoleKind, KeyspaceRow, LeaseRow, LedgerError, NodeName, NodeRow, Rows, Timestamp,
    TokenRow, Track, TrackRow, WitnessRow, WorkerId,
};

#[derive(Debug)]
pub(super) struct SqliteRows<'c> {
    pub(super) connection: &'c mut Connection,
}

const CLAIM: &str =
    "track, start, \"end\", node, epoch, reserved_at, issued_up_to, last_issued_at, state, unissued";

impl SqliteRows<'_> {
    /// A file has no identity of its own that a copy would not share; the nodes' witnesses tell copies.
    pub(super) fn incarnation_now(&mut self) -> String {
        "sqlite".to_owned()
    }

    fn execute(&mut self, sql: &str, params: impl Params) -> Result<usize, LedgerError> {
        let run = || self.connection.prepare_cached(sql)?.execute(params);
        run().map_err(|error| failure("write", error))
    }

    pub(super) fn query<T>(
        &mut self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T, LedgerError>,
    ) -> Result<Vec<T>, LedgerError> {
        let failed = |error| failure("read", error);
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query(params).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    fn document<T: DeserializeOwned>(&mut self, kind: &str, key: &str) -> Result<Option<T>, LedgerError> {
        let read = || {
            let mut statement = self
                .connection
                .prepare_cached("SELECT body, crc FROM documents WHERE kind = ?1 AND key = ?2")?;
            statement
                .query_row([kind, key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))
                .optional()
        };
        let found = read().map_err(|error| failure("read", error))?;
        found.map(|(body, crc)| open_document(kind, key, &body, crc)).transpose()
    }

    fn documents<T: DeserializeOwned>(&mut self, kind: &str) -> Result<Vec<(String, T)>, LedgerError> {
        self.query("SELECT key, body, crc FROM documents WHERE kind = ?1 ORDER BY key", [kind], |row| {
            let (key, body, crc): (String, String, i64) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
            let document = open_document(kind, &key, &body, crc)?;
            Ok((key, document))
        })
    }

    fn put_document(&mut self, kind: &str, key: &str, row: &impl Serialize) -> Result<(), LedgerError> {
        let body = serde_json::to_string(row).expect("rows are plain data");
        let crc = document_crc(kind, key, &body);
        let sql = "INSERT INTO documents (kind, key, body, crc) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body, crc = excluded.crc";
        self.execute(sql, params![kind, key, body, crc]).map(drop)
    }
}

fn document_crc(kind: &str, key: &str, body: &str) -> i64 {
    crc(&[kind.as_bytes(), key.as_bytes(), body.as_bytes()])
}

pub(super) fn open_document<T: DeserializeOwned>(
    kind: &str,
    key: &str,
    body: &str,
    crc: i64,
) -> Result<T, LedgerError> {
    if crc != document_crc(kind, key, body) {
        return Err(corrupt(format!("the {kind} `{key}` does not match its checksum")));
    }
    serde_json::from_str(body).map_err(|error| corrupt(format!("the {kind} `{key}` cannot be read: {error}")))
}

fn crc(parts: &[&[u8]]) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
        hasher.update(&[0]); // so that "ab","c" and "a","bc" differ
    }
    i64::from(hasher.finalize())
}

pub(super) fn corrupt(detail: String) -> LedgerError {
    LedgerError::Corrupt { store: SQLITE, detail }
}

pub(super) fn get<T: rusqlite::types::FromSql>(row: &Row<'_>, column: usize) -> Result<T, LedgerError> {
    row.get(column).map_err(|error| match error {
        rusqlite::Error::SqliteFailure(..) => failure("read", error),
        other => corrupt(other.to_string()),
    })
}

/// Integers go through here both ways, so that none is stored or read that is not a number of ours.
fn stored(value: u64) -> Result<i64, LedgerError> {
    i64::try_from(value).map_err(|_| corrupt(format!("{value} does not fit a 64-bit column")))
}

fn count(row: &Row<'_>, column: usize) -> Result<u64, LedgerError> {
    let value: i64 = get(row, column)?;
    u64::try_from(value).map_err(|_| corrupt(format!("{value} where a count should be")))
}

fn number(row: &Row<'_>, column: usize) -> Result<Number, LedgerError> {
    let value = count(row, column)?;
    Number::new(value).ok_or_else(|| corrupt(format!("{value} where a number should be")))
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    row: &Row<'_>,
    column: usize,
) -> Result<T, LedgerError> {
    let text: String = get(row, column)?;
    text.parse().map_err(|error| corrupt(format!("{error}")))
}

/// A unit-like enum, stored as the word that serde spells it with.
fn word(value: &impl Serialize) -> String {
    let json = serde_json::to_value(value).expect("an enum of words");
    json.as_str().expect("an enum of words").to_owned()
}

fn from_word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, LedgerError> {
    let text: String = get(row, column)?;
    serde_json::from_value(text.into()).map_err(|error| corrupt(error.to_string()))
}

fn track_crc(track: &str, row: &TrackRow) -> i64 {
    let TrackRow { cursor, revision, claims, reserved, issued, burned, holes } = row;
    let fields = [cursor.get(), *revision, *claims, *reserved, *issued, *burned, *holes];
    crc(&[track.as_bytes(), &fields.map(u64::to_be_bytes).concat()])
}

fn read_track(row: &Row<'_>) -> Result<(Track, TrackRow), LedgerError> {
    let track: Track = parsed(row, 0)?;
    let found = TrackRow {
        cursor: number(row, 1)?,
        revision: count(row, 2)?,
        claims: count(row, 3)?,
        reserved: count(row, 4)?,
        issued: count(row, 5)?,
        burned: count(row, 6)?,
        holes: count(row, 7)?,
    };
    if get::<i64>(row, 8)? != track_crc(&track.to_string(), &found) {
        return Err(corrupt(format!("track `{track}` does not match its checksum")));
    }
    Ok((track, found))
}

/// A search in a damaged tree can end at a sound row that is not the one looked for.
fn as_asked<T: PartialEq + std::fmt::Debug>(found: &T, asked: &T) -> Result<(), LedgerError> {
    if found == asked { Ok(()) } else { Err(corrupt(format!("it gave {found:?} for {asked:?}"))) }
}

fn hole_crc(track: &str, number: Number, kind: &str) -> i64 {
    crc(&[track.as_bytes(), &number.get().to_be_bytes(), kind.as_bytes()])
}

/// Columns: track, number, kind, crc.
pub(super) fn read_hole(row: &Row<'_>) -> Result<(String, Number, HoleKind), LedgerError> {
    let (track, number, kind): (String, Number, String) = (get(row, 0)?, number(row, 1)?, get(row, 2)?);
    if get::<i64>(row, 3)? != hole_crc(&track, number, &kind) {
        return Err(corrupt(format!("the hole {number} of `{track}` does not match its checksum")));
    }
    Ok((track, number, from_word(row, 2)?))
}

fn read_claim(row: &Row<'_>) -> Result<ClaimRow, LedgerError> {
    let unissued: String = get(row, 9)?;
    let claim = ClaimRow {
        track: parsed(row, 0)?,
        start: number(row, 1)?,
        end: number(row, 2)?,
        node: parsed(row, 3)?,
        epoch: count(row, 4)?,
        reserved_at: Timestamp(count(row, 5)?),
        issued_up_to: number(row, 6)?,
        last_issued_at: get::<Option<i64>>(row, 7)?.and_then(|at| u64::try_from(at).ok()).map(Timestamp),
        state: from_word(row, 8)?,
        unissued: serde_json::from_str(&unissued).map_err(|error| corrupt(error.to_string()))?,
    };
    // Sums are made of these, and a claim has no checksum.
    let ClaimRow { track, start, end, issued_up_to, .. } = &claim;
    if start >= end || issued_up_to < start || issued_up_to > end {
        return Err(corrupt(format!("the claim {start}..{end} of `{track}` is issued up to {issued_up_to}")));
    }
    Ok(claim)
}

fn lease_key(keyspace: &KeyspaceName, worker: WorkerId) -> String {
    format!("{keyspace}/{worker}")
}

impl Rows for SqliteRows<'_> {
    async fn incarnation(&mut self) -> Result<String, LedgerError> {
        Ok(self.incarnation_now())
    }

    async fn clock(&mut self, host: Timestamp) -> Result<Timestamp, LedgerError> {
        Ok(host)
    }

    async fn head(&mut self) -> Result<Head, LedgerError> {
        self.document("head", "")?.ok_or_else(|| corrupt("its head is missing".to_owned()))
    }

    async fn put_head(&mut self, row: &Head) -> Result<(), LedgerError> {
        self.put_document("head", "", row)
    }

    async fn node(&mut self, name: &NodeName) -> Result<Option<NodeRow>, LedgerError> {
        self.document("node", name.as_str())
    }

    async fn put_node(&mut self, row: &NodeRow) -> Result<(), LedgerError> {
        self.put_document("node", row.name.as_str(), row)
    }

    async fn nodes(&mut self) -> Result<Vec<NodeRow>, LedgerError> {
        Ok(self.documents("node")?.into_iter().map(|(_, node)| node).collect())
    }

    async fn track(&mut self, track: &Track) -> Result<Option<TrackRow>, LedgerError> {
        let sql = "SELECT track, cursor, revision, claims, reserved, issued, burned, holes, crc
                   FROM tracks WHERE track = ?1";
        let found = self.query(sql, [track.to_string()], read_track)?.pop();
        found.map(|(name, row)| as_asked(&name, track).map(|()| row)).transpose()
    }

    async fn put_track(&mut self, track: &Track, row: &TrackRow) -> Result<(), LedgerError> {
        let name = track.to_string();
        let sql = "INSERT INTO tracks (track, cursor, revision, claims, reserved, issued, burned, holes, crc)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                   ON CONFLICT (track) DO UPDATE SET
                       cursor = excluded.cursor, revision = excluded.revision, claims = excluded.claims,
                       reserved = excluded.reserved, issued = excluded.issued, burned = excluded.burned,
                       holes = excluded.holes, crc = excluded.crc";
        let values = params![
            name,
            stored(row.cursor.get())?,
            stored(row.revision)?,
            stored(row.claims)?,
            stored(row.reserved)?,
            stored(row.issued)?,
            stored(row.burned)?,
            stored(row.holes)?,
            track_crc(&name, row),
        ];
        self.execute(sql, values).map(drop)
    }

    async fn tracks(&mut self) -> Result<Vec<(Track, TrackRow)>, LedgerError> {
        let sql = "SELECT track, cursor, revision, claims, reserved, issued, burned, holes, crc
                   FROM tracks ORDER BY track";
        self.query(sql, [], read_track)
    }

    async fn hole(&mut self, track: &Track, number: Number) -> Result<Option<HoleKind>, LedgerError> {
        let sql = "SELECT track, number, kind, crc FROM holes WHERE track = ?1 AND number = ?2";
        let params = params![track.to_string(), stored(number.get())?];
        let found = self.query(sql, params, read_hole)?.pop();
        let asked = (track.to_string(), number);
        found.map(|(name, at, kind)| as_asked(&(name, at), &asked).map(|()| kind)).transpose()
    }

    async fn holes(&mut self, track: &Track, block: Block) -> Result<Vec<Number>, LedgerError> {
        let sql = "SELECT track, number, kind, crc FROM holes
                   WHERE track = ?1 AND number >= ?2 AND number < ?3 ORDER BY number";
        let params = params![track.to_string(), stored(block.start().get())?, stored(block.end().get())?];
        let (name, found) = (track.to_string(), self.query(sql, params, read_hole)?);
        let number = |(of, number, _): (String, _, _)| {
            as_asked(&(of, block.contains(number)), &(name.clone(), true)).map(|()| number)
        };
        found.into_iter().map(number).collect()
    }

    async fn put_hole(&mut self, track: &Track, number: Number, kind: HoleKind) -> Result<(), LedgerError> {
        let sql = "INSERT OR REPLACE INTO holes (track, number, kind, crc) VALUES (?1, ?2, ?3, ?4)";
        let (track, kind) = (track.to_string(), word(&kind));
        let crc = hole_crc(&track, number, &kind);
        self.execute(sql, params![track, stored(number.get())?, kind, crc]).map(drop)
    }

    async fn claim_at(&mut self, track: &Track, number: Number) -> Result<Option<ClaimRow>, LedgerError> {
        let sql = format!(
            "SELECT {CLAIM} FROM claims WHERE track = ?1 AND start <= ?2 ORDER BY start DESC LIMIT 1"
        );
        let params = params![track.to_string(), stored(number.get())?];
        Ok(self.query(&sql, params, read_claim)?.pop())
    }

    async fn claims(
        &mut self,
        track: &Track,
        before: Option<Number>,
        limit: usize,
    ) -> Result<Vec<ClaimRow>, LedgerError> {
        let sql = format!(
            "SELECT {CLAIM} FROM claims WHERE track = ?1 AND start <= ?2 ORDER BY start DESC LIMIT ?3"
        );
        let highest = match before {
            None => Number::MAX.get(),
            Some(before) if before == Number::ZERO => return Ok(Vec::new()),
            Some(before) => before.get() - 1,
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query(&sql, params![track.to_string(), stored(highest)?, limit], read_claim)
    }

    async fn open_claims(&mut self, node: &NodeName) -> Result<Vec<ClaimRow>, LedgerError> {
        let sql = format!(
            "SELECT {CLAIM} FROM claims WHERE node = ?1 AND state = 'open' AND issued_up_to < \"end\""
        );
        self.query(&sql, [node.as_str()], read_claim)
    }

    async fn put_claim(&mut self, row: &ClaimRow) -> Result<(), LedgerError> {
        let sql = format!(
            "INSERT OR REPLACE INTO claims ({CLAIM}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
        );
        let values = params![
            row.track.to_string(),
            stored(row.start.get())?,
            stored(row.end.get())?,
            row.node.as_str(),
            stored(row.epoch)?,
            stored(row.reserved_at.0)?,
            stored(row.issued_up_to.get())?,
            row.last_issued_at.map(|at| stored(at.0)).transpose()?,
            word(&row.state),
            serde_json::to_string(&row.unissued).expect("blocks are plain data"),
        ];
        self.execute(&sql, values).map(drop)
    }

    async fn remove_claim(&mut self, track: &Track, start: Number) -> Result<(), LedgerError> {
        let sql = "DELETE FROM claims WHERE track = ?1 AND start = ?2";
        self.execute(sql, params![track.to_string(), stored(start.get())?]).map(drop)
    }

    async fn keyspace(&mut self, name: &KeyspaceName) -> Result<Option<KeyspaceRow>, LedgerError> {
        self.document("keyspace", name.as_str())
    }

    async fn put_keyspace(&mut self, row: &KeyspaceRow) -> Result<(), LedgerError> {
        self.put_document("keyspace", row.name.as_str(), row)
    }

    async fn keyspaces(&mut self) -> Result<Vec<KeyspaceRow>, LedgerError> {
        Ok(self.documents("keyspace")?.into_iter().map(|(_, row)| row).collect())
    }

    async fn leases(&mut self, keyspace: &KeyspaceName) -> Result<Vec<LeaseRow>, LedgerError> {
        // '0' follows '/': the range holds exactly the keys that start with `keyspace/`.
        let sql = "SELECT key, body, crc FROM documents WHERE kind = 'lease' AND key > ?1 AND key < ?2";
        self.query(sql, [format!("{keyspace}/"), format!("{keyspace}0")], |row| {
            let (key, body, crc): (String, String, i64) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
            open_document("lease", &key, &body, crc)
        })
    }

    async fn leases_of(&mut self, holder: &str) -> Result<Vec<LeaseRow>, LedgerError> {
        let leases = self.documents::<LeaseRow>("lease")?.into_iter().map(|(_, lease)| lease);
        Ok(leases.filter(|lease| lease.holder == holder && !lease.released).collect())
    }

    async fn lease(
        &mut self,
        keyspace: &KeyspaceName,
        worker: WorkerId,
    ) -> Result<Option<LeaseRow>, LedgerError> {
        self.document("lease", &lease_key(keyspace, worker))
    }

    async fn put_lease(&mut self, row: &LeaseRow) -> Result<(), LedgerError> {
        self.put_document("lease", &lease_key(&row.keyspace, row.worker), row)
    }

    async fn tokens(&mut self) -> Result<Vec<TokenRow>, LedgerError> {
        Ok(self.documents("token")?.into_iter().map(|(_, row)| row).collect())
    }

    async fn put_token(&mut self, row: &TokenRow) -> Result<(), LedgerError> {
        self.put_document("token", &row.id, row)
    }

    async fn remove_token(&mut self, id: &str) -> Result<bool, LedgerError> {
        Ok(self.execute("DELETE FROM documents WHERE kind = 'token' AND key = ?1", [id])? > 0)
    }

    async fn witnesses(&mut self) -> Result<Vec<(NodeName, WitnessRow)>, LedgerError> {
        let named = self.documents("witness")?.into_iter();
        named
            .map(|(key, row)| Ok((NodeName::parse(&key).map_err(|e| corrupt(e.to_string()))?, row)))
            .collect()
    }

    async fn put_witness(&mut self, node: &NodeName, row: &WitnessRow) -> Result<(), LedgerError> {
        self.put_document("witness", node.as_str(), row)
    }

    async fn clear_witnesses(&mut self) -> Result<(), LedgerError> {
        self.execute("DELETE FROM documents WHERE kind = 'witness'", []).map(drop)
    }
}
