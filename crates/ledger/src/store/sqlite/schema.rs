//! The file's tables, and how an older file becomes a newer one.

use std::path::Path;

use rusqlite::Connection;

use super::{SQLITE, failure};
use crate::LedgerError;

/// Marks the file as ours: "KMIL".
const APPLICATION_ID: i64 = 0x4b4d_494c;

/// One entry per version; never edited once released, only added to.
///
/// `documents` holds what is read whole (head, nodes, keyspaces, leases, tokens, witnesses) as JSON;
/// tracks, holes and claims have columns, because they are searched by number. Text compares by bytes.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE documents (
        kind TEXT NOT NULL,
        key  TEXT NOT NULL,
        body TEXT NOT NULL,
        crc  INTEGER NOT NULL,
        PRIMARY KEY (kind, key)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE tracks (
        track    TEXT NOT NULL PRIMARY KEY,
        cursor   INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        claims   INTEGER NOT NULL,
        reserved INTEGER NOT NULL,
        issued   INTEGER NOT NULL,
        burned   INTEGER NOT NULL,
        holes    INTEGER NOT NULL,
        crc      INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE holes (
        track  TEXT NOT NULL,
        number INTEGER NOT NULL,
        kind   TEXT NOT NULL,
        crc    INTEGER NOT NULL,
        PRIMARY KEY (track, number)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE claims (
        track          TEXT NOT NULL,
        start          INTEGER NOT NULL,
        \"end\"          INTEGER NOT NULL,
        node           TEXT NOT NULL,
        epoch          INTEGER NOT NULL,
        reserved_at    INTEGER NOT NULL,
        issued_up_to   INTEGER NOT NULL,
        last_issued_at INTEGER,
        state          TEXT NOT NULL,
        unissued       TEXT NOT NULL,
        PRIMARY KEY (track, start)
    ) STRICT, WITHOUT ROWID;

    CREATE INDEX open_claims ON claims (node) WHERE state = 'open' AND issued_up_to < \"end\";
"];

/// Brings the file to this version. Says whether it was new; then `begin` has written its first row,
/// in the same transaction, so that a crash leaves a ledger or an empty file and nothing between.
pub(super) fn prepare(
    connection: &mut Connection,
    path: &Path,
    begin: impl FnOnce(&mut Connection) -> Result<(), LedgerError>,
) -> Result<bool, LedgerError> {
    let failed = |error| failure("migrate", error);
    let pragma = |connection: &Connection, name| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed)
    };
    let application = pragma(connection, "application_id")?;
    let version = pragma(connection, "user_version")?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let created = application == 0 && version == 0 && tables == 0;
    if !created && application != APPLICATION_ID {
        return Err(refused(format!("{} is an SQLite file, but not a Keymill ledger", path.display())));
    }
    let known = i64::try_from(MIGRATIONS.len()).expect("a handful of migrations");
    if version > known {
        return Err(refused(format!(
            "{} was written by a newer Keymill (format {version}, this one knows {known}); use that version",
            path.display()
        )));
    }
    if !created && version < 1 {
        return Err(refused(format!("{} says its format is {version}, which never was", path.display())));
    }
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    let migrated = (|| {
        for (version, migration) in (1..).zip(MIGRATIONS).filter(|(target, _)| *target > version) {
            connection.execute_batch(migration).map_err(failed)?;
            connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
            connection.pragma_update(None, "user_version", version).map_err(failed)?;
        }
        if created { begin(connection) } else { Ok(()) }
    })();
    let end = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.execute_batch(end).map_err(failed);
    migrated.and(ended).map(|()| created)
}

fn refused(detail: String) -> LedgerError {
    LedgerError::Corrupt { store: SQLITE, detail }
}
