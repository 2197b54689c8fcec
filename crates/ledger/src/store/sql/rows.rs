//! The rows, in SQL that every engine speaks. No decision is made here.
//!
//! In a transaction that writes, a row that can be written again is locked when it is read, and holes are
//! read by statements of their own: at READ COMMITTED each sees whatever was committed before it began, so
//! holes read after a track include those made while its lock was waited for.
//!
//! The head is only shared, or every reserve of every node would wait for every other. An operation that
//! turns out to write the head is undone and run again with the head locked for itself: two who share it and
//! both want it would wait for each other.

use std::collections::HashSet;

use keymill_id::{Block, KeyspaceName, Number};
use keymill_sql::{Access, Dialect, Row, SqlError, Statements as _, Transaction, Value};

use super::columns::{Columns, Read, json, maybe_stored, stored, word};
use crate::{
    ClaimRow, ClaimState, Head, HoleKind, KeyspaceRow, LeaseRow, LedgerError, NodeName, NodeRow, Rows,
    Timestamp, TokenRow, Track, TrackRow, WitnessRow, WorkerId,
};

const HEAD: [&str; 11] = [
    "one",
    "id",
    "created_at",
    "incarnation",
    "halt_reason",
    "halted_since",
    "advances",
    "region",
    "changes",
    "root",
    "keyspaces",
];
const NODE: [&str; 7] = ["name", "epoch", "beat", "started_at", "last_seen", "stopped", "report"];
const TRACK: [&str; 8] =
    ["track", "next_number", "revision", "claims", "reserved", "issued", "burned", "holes"];
const HOLE: [&str; 3] = ["track", "number", "kind"];
const CLAIM: [&str; 11] = [
    "track",
    "first_number",
    "end_number",
    "node",
    "epoch",
    "reserved_at",
    "issued_up_to",
    "last_issued_at",
    "state",
    "unissued",
    "pending",
];
const KEYSPACE: [&str; 6] = ["name", "definition", "fingerprint", "tuning", "retired", "created_at"];
const LEASE: [&str; 6] = ["keyspace", "worker", "holder", "term", "expires_at", "released"];
const TOKEN: [&str; 2] = ["id", "body"];
const WITNESS: [&str; 2] = ["node", "body"];

/// How the head is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadLock {
    Shared,
    Exclusive,
}

/// What the rows of one store have in common.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) store: &'static str,
    pub(super) prefix: String,
    /// The engine's identity, as an expression.
    pub(super) incarnation: &'static str,
}

pub(super) struct SqlRows<'t> {
    pub(super) tables: &'t Tables,
    pub(super) transaction: &'t mut Transaction,
    pub(super) access: Access,
    pub(super) head_lock: HeadLock,
    pub(super) operation: &'static str,
    /// Rows that were found, and so are updated; all others are inserted, and lose to whoever is first.
    found: HashSet<String>,
    incarnation: Option<String>,
    /// What went wrong first, as the engine said it.
    pub(super) trouble: Option<SqlError>,
    /// The head must be locked for this operation alone.
    pub(super) wants_head: bool,
}

impl<'t> SqlRows<'t> {
    pub(super) fn new(
        tables: &'t Tables,
        transaction: &'t mut Transaction,
        access: Access,
        head_lock: HeadLock,
        operation: &'static str,
    ) -> Self {
        Self {
            tables,
            transaction,
            access,
            head_lock,
            operation,
            found: HashSet::new(),
            incarnation: None,
            trouble: None,
            wants_head: false,
        }
    }

    fn dialect(&self) -> Dialect {
        self.transaction.dialect()
    }

    fn table(&self, name: &str) -> String {
        format!("{}_{name}", self.tables.prefix)
    }

    fn locked(&self) -> &'static str {
        if self.access == Access::Write { self.dialect().exclusive() } else { "" }
    }

    /// Keeps what the engine said, which decides whether the operation is run again.
    fn failed(&mut self, error: SqlError) -> LedgerError {
        let answer = super::ledger_error(self.tables.store, self.operation, error.clone());
        self.trouble.get_or_insert(error);
        answer
    }

    async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, LedgerError> {
        let answer = self.transaction.query(sql, values).await;
        answer.map_err(|error| self.failed(error))
    }

    async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, LedgerError> {
        let answer = self.transaction.execute(sql, values).await;
        answer.map_err(|error| self.failed(error))
    }

    /// Rows of `table` for which `rest` holds, each read by `read`.
    async fn select<T>(
        &mut self,
        (table, columns): (&str, &[&str]),
        rest: &str,
        values: &[Value],
        read: fn(&mut Columns) -> Read<T>,
    ) -> Result<Vec<T>, LedgerError> {
        let sql = format!("SELECT {} FROM {} {rest}", columns.join(", "), self.table(table));
        let rows = self.query(&sql, values).await?;
        let read: Read<Vec<T>> = rows.into_iter().map(|row| read(&mut Columns::of(row))).collect();
        read.map_err(|error| self.failed(error))
    }

    fn identity(table: &str, key: &[Value]) -> String {
        format!("{table} {key:?}")
    }

    fn is_found(&mut self, table: &str, key: &[Value]) {
        self.found.insert(Self::identity(table, key));
    }

    /// Writes a row whose reader has locked it: the one that was found, or a new one. If another came first
    /// with a new one, the engine says so, and the operation is run again.
    async fn keep(
        &mut self,
        (table, columns): (&str, &[&str]),
        key: usize,
        values: Read<Vec<Value>>,
    ) -> Result<(), LedgerError> {
        let values = values.map_err(|error| self.failed(error))?;
        let name = self.table(table);
        let identity = Self::identity(table, &values[..key]);
        if !self.found.contains(&identity) {
            let marks = vec!["?"; values.len()].join(", ");
            let sql = format!("INSERT INTO {name} ({}) VALUES ({marks})", columns.join(", "));
            self.execute(&sql, &values).await?;
            self.found.insert(identity);
            return Ok(());
        }
        let is = |column: &&str| format!("{column} = ?");
        let sets = columns[key..].iter().map(is).collect::<Vec<_>>().join(", ");
        let keys = columns[..key].iter().map(is).collect::<Vec<_>>().join(" AND ");
        let ordered: Vec<Value> = values[key..].iter().chain(&values[..key]).cloned().collect();
        match self.execute(&format!("UPDATE {name} SET {sets} WHERE {keys}"), &ordered).await? {
            1 => Ok(()),
            _ => Err(self.failed(SqlError::Aborted(format!("a row of {name} is gone")))),
        }
    }

    /// Writes a row that is guarded by another's lock, whether or not it is there.
    async fn put(
        &mut self,
        (table, columns): (&str, &[&str]),
        key: usize,
        values: Read<Vec<Value>>,
    ) -> Result<(), LedgerError> {
        let values = values.map_err(|error| self.failed(error))?;
        let sql = self.dialect().upsert(&self.table(table), columns, key);
        self.execute(&sql, &values).await.map(drop)
    }

    fn number(&mut self, number: Number) -> Result<Value, LedgerError> {
        stored(number.get()).map_err(|error| self.failed(error))
    }
}

fn text(value: impl ToString) -> Value {
    value.to_string().into()
}

fn head_values(row: &Head) -> Read<Vec<Value>> {
    let halt = row.halted.as_ref();
    Ok(vec![
        1.into(),
        text(&row.id),
        stored(row.created_at.0)?,
        row.incarnation.as_str().into(),
        halt.map(|halt| halt.reason.clone()).into(),
        maybe_stored(halt.map(|halt| halt.since.0))?,
        stored(row.advances)?,
        maybe_stored(row.region.map(u64::from))?,
        stored(row.changes)?,
        row.root.as_ref().map(ToString::to_string).into(),
        stored(row.keyspaces)?,
    ])
}

fn node_values(row: &NodeRow) -> Read<Vec<Value>> {
    Ok(vec![
        text(&row.name),
        stored(row.epoch)?,
        stored(row.beat)?,
        stored(row.started_at.0)?,
        stored(row.last_seen.0)?,
        row.stopped.into(),
        json(&row.report),
    ])
}

fn track_values(track: &Track, row: &TrackRow) -> Read<Vec<Value>> {
    let TrackRow { cursor, revision, claims, reserved, issued, burned, holes } = *row;
    let mut values = vec![text(track)];
    for count in [cursor.get(), revision, claims, reserved, issued, burned, holes] {
        values.push(stored(count)?);
    }
    Ok(values)
}

fn claim_values(row: &ClaimRow) -> Read<Vec<Value>> {
    Ok(vec![
        text(&row.track),
        stored(row.start.get())?,
        stored(row.end.get())?,
        text(&row.node),
        stored(row.epoch)?,
        stored(row.reserved_at.0)?,
        stored(row.issued_up_to.get())?,
        maybe_stored(row.last_issued_at.map(|at| at.0))?,
        word(&row.state),
        json(&row.unissued),
        (row.state == ClaimState::Open && row.issued_up_to < row.end).into(),
    ])
}

fn lease_values(row: &LeaseRow) -> Read<Vec<Value>> {
    Ok(vec![
        text(&row.keyspace),
        i64::from(row.worker.0).into(),
        row.holder.as_str().into(),
        stored(row.term)?,
        stored(row.expires_at.0)?,
        row.released.into(),
    ])
}

impl Rows for SqlRows<'_> {
    async fn incarnation(&mut self) -> Result<String, LedgerError> {
        if let Some(incarnation) = &self.incarnation {
            return Ok(incarnation.clone());
        }
        let mut rows = self.query(&format!("SELECT {}", self.tables.incarnation), &[]).await?;
        let read = rows.pop().map_or_else(|| Err(nothing("incarnation")), |row| Columns::of(row).text());
        read.map_err(|error| self.failed(error))
    }

    async fn clock(&mut self, _host: Timestamp) -> Result<Timestamp, LedgerError> {
        let mut rows = self.query(&format!("SELECT {}", self.dialect().clock()), &[]).await?;
        let read = rows.pop().map_or_else(|| Err(nothing("clock")), |row| Columns::of(row).count());
        read.map(Timestamp).map_err(|error| self.failed(error))
    }

    async fn head(&mut self) -> Result<Head, LedgerError> {
        let lock = match (self.access, self.head_lock) {
            (Access::Read, _) => "",
            (Access::Write, HeadLock::Shared) => self.dialect().shared(),
            (Access::Write, HeadLock::Exclusive) => self.dialect().exclusive(),
        };
        // With the engine's identity, which is wanted next: a question less.
        let (columns, incarnation) = (HEAD[1..].join(", "), self.tables.incarnation);
        let sql = format!("SELECT {incarnation}, {columns} FROM {} WHERE one = 1{lock}", self.table("head"));
        let mut rows = self.query(&sql, &[]).await?;
        let read = |row: Row| {
            let mut columns = Columns::of(row);
            Ok((columns.text()?, columns.head()?))
        };
        let read = rows.pop().map_or_else(|| Err(nothing("head")), read);
        let (incarnation, head) = read.map_err(|error| self.failed(error))?;
        self.incarnation = Some(incarnation);
        self.is_found("head", &[1.into()]);
        Ok(head)
    }

    async fn put_head(&mut self, row: &Head) -> Result<(), LedgerError> {
        if self.head_lock == HeadLock::Shared {
            self.wants_head = true;
            return Err(self.failed(SqlError::Aborted("it writes the head".to_owned())));
        }
        self.keep(("head", &HEAD), 1, head_values(row)).await
    }

    async fn node(&mut self, name: &NodeName) -> Result<Option<NodeRow>, LedgerError> {
        let rest = format!("WHERE name = ?{}", self.locked());
        let found = self.select(("nodes", &NODE), &rest, &[text(name)], Columns::node).await?.pop();
        if found.is_some() {
            self.is_found("nodes", &[text(name)]);
        }
        Ok(found)
    }

    async fn put_node(&mut self, row: &NodeRow) -> Result<(), LedgerError> {
        self.keep(("nodes", &NODE), 1, node_values(row)).await
    }

    async fn nodes(&mut self) -> Result<Vec<NodeRow>, LedgerError> {
        let rest = format!("ORDER BY name{}", self.locked());
        let nodes = self.select(("nodes", &NODE), &rest, &[], Columns::node).await?;
        for node in &nodes {
            self.is_found("nodes", &[text(&node.name)]);
        }
        Ok(nodes)
    }

    async fn track(&mut self, track: &Track) -> Result<Option<TrackRow>, LedgerError> {
        let rest = format!("WHERE track = ?{}", self.locked());
        let found = self.select(("tracks", &TRACK), &rest, &[text(track)], Columns::track).await?.pop();
        if found.is_some() {
            self.is_found("tracks", &[text(track)]);
        }
        Ok(found.map(|(_, row)| row))
    }

    async fn put_track(&mut self, track: &Track, row: &TrackRow) -> Result<(), LedgerError> {
        self.keep(("tracks", &TRACK), 1, track_values(track, row)).await
    }

    async fn tracks(&mut self) -> Result<Vec<(Track, TrackRow)>, LedgerError> {
        let rest = format!("ORDER BY track{}", self.locked());
        let tracks = self.select(("tracks", &TRACK), &rest, &[], Columns::track).await?;
        for (track, _) in &tracks {
            self.is_found("tracks", &[text(track)]);
        }
        Ok(tracks)
    }

    async fn hole(&mut self, track: &Track, number: Number) -> Result<Option<HoleKind>, LedgerError> {
        let values = [text(track), self.number(number)?];
        let rest = "WHERE track = ? AND number = ?";
        let found = self.select(("holes", &HOLE[1..]), rest, &values, Columns::hole).await?.pop();
        Ok(found.map(|(_, kind)| kind))
    }

    async fn holes(&mut self, track: &Track, block: Block) -> Result<Vec<Number>, LedgerError> {
        let values = [text(track), self.number(block.start())?, self.number(block.end())?];
        let rest = "WHERE track = ? AND number >= ? AND number < ? ORDER BY number";
        let holes = self.select(("holes", &HOLE[1..]), rest, &values, Columns::hole).await?;
        Ok(holes.into_iter().map(|(number, _)| number).collect())
    }

    async fn put_hole(&mut self, track: &Track, number: Number, kind: HoleKind) -> Result<(), LedgerError> {
        let values = vec![text(track), self.number(number)?, word(&kind)];
        self.put(("holes", &HOLE), 2, Ok(values)).await
    }

    async fn claim_at(&mut self, track: &Track, number: Number) -> Result<Option<ClaimRow>, LedgerError> {
        let values = [text(track), self.number(number)?];
        let rest = "WHERE track = ? AND first_number <= ? ORDER BY first_number DESC LIMIT 1";
        Ok(self.select(("claims", &CLAIM), rest, &values, Columns::claim).await?.pop())
    }

    async fn claims(
        &mut self,
        track: &Track,
        before: Option<Number>,
        limit: usize,
    ) -> Result<Vec<ClaimRow>, LedgerError> {
        let highest = match before {
            None => Number::MAX.get(),
            Some(before) if before == Number::ZERO => return Ok(Vec::new()),
            Some(before) => before.get() - 1,
        };
        let highest = stored(highest).map_err(|error| self.failed(error))?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rest = "WHERE track = ? AND first_number <= ? ORDER BY first_number DESC LIMIT ?";
        self.select(("claims", &CLAIM), rest, &[text(track), highest, limit.into()], Columns::claim).await
    }

    async fn open_claims(&mut self, node: &NodeName) -> Result<Vec<ClaimRow>, LedgerError> {
        // In order, so that those who then lock their tracks do it in the same one.
        let rest = "WHERE node = ? AND pending = ? ORDER BY track, first_number";
        self.select(("claims", &CLAIM), rest, &[text(node), true.into()], Columns::claim).await
    }

    async fn put_claim(&mut self, row: &ClaimRow) -> Result<(), LedgerError> {
        self.put(("claims", &CLAIM), 2, claim_values(row)).await
    }

    async fn remove_claim(&mut self, track: &Track, start: Number) -> Result<(), LedgerError> {
        let values = [text(track), self.number(start)?];
        let sql = format!("DELETE FROM {} WHERE track = ? AND first_number = ?", self.table("claims"));
        self.execute(&sql, &values).await.map(drop)
    }

    async fn keyspace(&mut self, name: &KeyspaceName) -> Result<Option<KeyspaceRow>, LedgerError> {
        let name = [text(name)];
        Ok(self.select(("keyspaces", &KEYSPACE), "WHERE name = ?", &name, Columns::keyspace).await?.pop())
    }

    async fn put_keyspace(&mut self, row: &KeyspaceRow) -> Result<(), LedgerError> {
        let created_at = stored(row.created_at.0).map_err(|error| self.failed(error))?;
        let values = vec![
            text(&row.name),
            row.definition.as_str().into(),
            row.fingerprint.as_str().into(),
            json(&row.tuning),
            row.retired.into(),
            created_at,
        ];
        self.put(("keyspaces", &KEYSPACE), 1, Ok(values)).await
    }

    async fn keyspaces(&mut self) -> Result<Vec<KeyspaceRow>, LedgerError> {
        self.select(("keyspaces", &KEYSPACE), "ORDER BY name", &[], Columns::keyspace).await
    }

    async fn leases(&mut self, keyspace: &KeyspaceName) -> Result<Vec<LeaseRow>, LedgerError> {
        let rest = format!("WHERE keyspace = ? ORDER BY keyspace, worker{}", self.locked());
        self.found_leases(&rest, &[text(keyspace)]).await
    }

    async fn leases_of(&mut self, holder: &str) -> Result<Vec<LeaseRow>, LedgerError> {
        let rest = format!("WHERE holder = ? AND released = ? ORDER BY keyspace, worker{}", self.locked());
        self.found_leases(&rest, &[holder.into(), false.into()]).await
    }

    async fn lease(
        &mut self,
        keyspace: &KeyspaceName,
        worker: WorkerId,
    ) -> Result<Option<LeaseRow>, LedgerError> {
        let rest = format!("WHERE keyspace = ? AND worker = ?{}", self.locked());
        Ok(self.found_leases(&rest, &[text(keyspace), i64::from(worker.0).into()]).await?.pop())
    }

    async fn put_lease(&mut self, row: &LeaseRow) -> Result<(), LedgerError> {
        self.keep(("leases", &LEASE), 2, lease_values(row)).await
    }

    async fn tokens(&mut self) -> Result<Vec<TokenRow>, LedgerError> {
        self.select(("tokens", &TOKEN), "ORDER BY id", &[], Columns::token).await
    }

    async fn put_token(&mut self, row: &TokenRow) -> Result<(), LedgerError> {
        self.put(("tokens", &TOKEN), 1, Ok(vec![row.id.as_str().into(), json(&row.body)])).await
    }

    async fn remove_token(&mut self, id: &str) -> Result<bool, LedgerError> {
        let sql = format!("DELETE FROM {} WHERE id = ?", self.table("tokens"));
        Ok(self.execute(&sql, &[id.into()]).await? > 0)
    }

    async fn witnesses(&mut self) -> Result<Vec<(NodeName, WitnessRow)>, LedgerError> {
        let rest = format!("ORDER BY node{}", self.locked());
        let witnesses = self.select(("witnesses", &WITNESS), &rest, &[], Columns::witness).await?;
        for (node, _) in &witnesses {
            self.is_found("witnesses", &[text(node)]);
        }
        Ok(witnesses)
    }

    async fn put_witness(&mut self, node: &NodeName, row: &WitnessRow) -> Result<(), LedgerError> {
        self.keep(("witnesses", &WITNESS), 1, Ok(vec![text(node), json(row)])).await
    }

    async fn clear_witnesses(&mut self) -> Result<(), LedgerError> {
        self.execute(&format!("DELETE FROM {}", self.table("witnesses")), &[]).await.map(drop)
    }
}

impl SqlRows<'_> {
    async fn found_leases(&mut self, rest: &str, values: &[Value]) -> Result<Vec<LeaseRow>, LedgerError> {
        let leases = self.select(("leases", &LEASE), rest, values, Columns::lease).await?;
        for lease in &leases {
            self.is_found("leases", &[text(&lease.keyspace), i64::from(lease.worker.0).into()]);
        }
        Ok(leases)
    }
}

fn nothing(what: &str) -> SqlError {
    SqlError::Unexpected(format!("its {what} is missing"))
}
