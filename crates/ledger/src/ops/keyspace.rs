//! Keyspaces: created once, frozen, retired, never re-created.

use std::collections::BTreeSet;

use keymill_id::{KeyspaceName, Number};

use super::{Operation, Stamp};
use crate::{Head, HoleKind, KeyspaceRow, LedgerError, Rows, Track, TrackRow};

/// Creates a keyspace if it is absent; what stands in the ledger afterwards is read back.
#[derive(Debug, Clone)]
pub struct CreateKeyspace {
    pub stamp: Stamp,
    pub name: KeyspaceName,
    /// Stored as it is; see [`KeyspaceRow::definition`].
    pub definition: String,
    pub fingerprint: String,
    pub tuning: serde_json::Map<String, serde_json::Value>,
    pub root: bool,
    /// Route words the pool could spell, as numbers.
    pub withheld: Vec<Number>,
    /// `limits.keyspaces`
    pub limit: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedKeyspace {
    /// What the ledger holds now: ours, or the one that was there first.
    pub row: KeyspaceRow,
    pub created: bool,
}

impl Operation for CreateKeyspace {
    type Answer = CreatedKeyspace;
    const NAME: &'static str = "create_keyspace";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<CreatedKeyspace, LedgerError> {
        let (mut head, _) = self.stamp.check(rows).await?;
        if let Some(row) = rows.keyspace(&self.name).await? {
            return Ok(CreatedKeyspace { row, created: false });
        }
        let track = Track::of(self.name.clone());
        if rows.track(&track).await?.is_some() {
            return Err(LedgerError::LostKeyspace { keyspace: self.name.clone() });
        }
        if head.keyspaces >= self.limit {
            return Err(LedgerError::TooManyKeyspaces { limit: self.limit });
        }
        if self.root {
            if let Some(root) = head.root {
                return Err(LedgerError::RootTaken { root });
            }
            head.root = Some(self.name.clone());
        }
        let row = KeyspaceRow {
            name: self.name.clone(),
            definition: self.definition.clone(),
            fingerprint: self.fingerprint.clone(),
            tuning: self.tuning.clone(),
            retired: false,
            created_at: self.stamp.at,
        };
        // Two words may be one number.
        let withheld: BTreeSet<Number> = self.withheld.iter().copied().collect();
        for &number in &withheld {
            rows.put_hole(&track, number, HoleKind::Route).await?;
        }
        let holes = withheld.len() as u64;
        rows.put_track(&track, &TrackRow { holes, ..TrackRow::default() }).await?;
        rows.put_keyspace(&row).await?;
        head.keyspaces += 1;
        touch(rows, head).await?;
        Ok(CreatedKeyspace { row, created: true })
    }
}

/// Sets what may change: a value of `null` goes back to the default.
#[derive(Debug, Clone)]
pub struct TuneKeyspace {
    pub stamp: Stamp,
    pub name: KeyspaceName,
    pub tuning: serde_json::Map<String, serde_json::Value>,
}

impl Operation for TuneKeyspace {
    type Answer = KeyspaceRow;
    const NAME: &'static str = "tune_keyspace";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<KeyspaceRow, LedgerError> {
        let (head, _) = self.stamp.check(rows).await?;
        let mut row = known(rows, &self.name).await?;
        for (field, value) in &self.tuning {
            if value.is_null() {
                row.tuning.remove(field);
            } else {
                row.tuning.insert(field.clone(), value.clone());
            }
        }
        rows.put_keyspace(&row).await?;
        touch(rows, head).await?;
        Ok(row)
    }
}

/// Takes a keyspace out of service, for ever. Its track stays, so that the name never counts from zero.
#[derive(Debug, Clone)]
pub struct RetireKeyspace {
    pub stamp: Stamp,
    pub name: KeyspaceName,
}

impl Operation for RetireKeyspace {
    type Answer = KeyspaceRow;
    const NAME: &'static str = "retire_keyspace";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<KeyspaceRow, LedgerError> {
        let (head, _) = self.stamp.check(rows).await?;
        let mut row = known(rows, &self.name).await?;
        row.retired = true;
        rows.put_keyspace(&row).await?;
        touch(rows, head).await?;
        Ok(row)
    }
}

async fn known<R: Rows>(rows: &mut R, name: &KeyspaceName) -> Result<KeyspaceRow, LedgerError> {
    rows.keyspace(name).await?.ok_or_else(|| LedgerError::UnknownKeyspace { keyspace: name.clone() })
}

/// Lets every node's next heartbeat notice.
pub(super) async fn touch<R: Rows>(rows: &mut R, mut head: Head) -> Result<(), LedgerError> {
    head.changes += 1;
    rows.put_head(&head).await
}
