//! References, looked up either way.

use std::collections::HashMap;

use keymill_sql::{Access, Row, SqlError, Statements, Value};
use sha2::{Digest as _, Sha256};

use super::Operation;
use crate::{
    batch::{pieces, plan_afresh, question_marks},
    limits::{self, Checked, REFERENCES_SHOWN},
    tables::{OF_KEYSPACE, Tables},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub keyspace: String,
    pub owner: Option<String>,
    pub reference: String,
    pub key: String,
    pub created_at_ms: i64,
}

impl Reference {
    /// Where a page that begins behind this one begins.
    pub fn cursor(&self) -> String {
        digest(self.owner.as_deref(), &self.reference)
    }

    /// The digest found it, and the texts decide.
    pub(super) fn key_of(&self, owner: Option<&str>, reference: &str) -> Result<String, SqlError> {
        if self.owner.as_deref() == owner && self.reference == reference {
            return Ok(self.key.clone());
        }
        let key = &self.key;
        Err(SqlError::Unexpected(format!("a reference to `{key}` is kept under the digest of another text")))
    }
}

/// What a reference is found by: the hex SHA-256 of its owner and its text, told apart by the owner's length.
pub(super) fn digest(owner: Option<&str>, reference: &str) -> String {
    let mut hash = Sha256::new();
    match owner {
        Some(owner) => hash.update(format!("{}:{owner}:", owner.len())),
        None => hash.update(":"),
    }
    hash.update(reference);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) const ROW: [&str; 6] = ["keyspace", "digest", "owner", "reference", "name", "created_at"];
pub(super) const ROW_KEY: usize = 2;

fn read(keyspace: &str, row: &Row) -> Result<Reference, SqlError> {
    Ok(Reference {
        keyspace: keyspace.to_owned(),
        owner: row.maybe_text(0)?,
        reference: row.text(1)?,
        key: row.text(2)?,
        created_at_ms: row.integer(3)?,
    })
}

/// References of `keyspace` for which `condition` holds, whose first `?` is the keyspace.
async fn select<S: Statements>(
    tables: &Tables,
    statements: &mut S,
    keyspace: &str,
    condition: &str,
    values: Vec<Value>,
) -> Result<Vec<Reference>, SqlError> {
    let columns = ROW[2..].join(", ");
    let sql = format!("SELECT {columns} FROM {} WHERE {condition}", tables.refs);
    let values: Vec<Value> = std::iter::once(keyspace.into()).chain(values).collect();
    let rows = statements.query(&sql, &values).await?;
    rows.iter().map(|row| read(keyspace, row)).collect()
}

#[derive(Debug, Clone)]
pub(crate) struct FindReference {
    pub(crate) keyspace: String,
    pub(crate) owner: Option<String>,
    pub(crate) reference: String,
}

pub(super) async fn find<S: Statements>(
    tables: &Tables,
    statements: &mut S,
    keyspace: &str,
    owner: Option<&str>,
    reference: &str,
) -> Result<Option<String>, SqlError> {
    let digest = digest(owner, reference);
    let found =
        select(tables, statements, keyspace, "keyspace = ? AND digest = ?", vec![digest.into()]).await?;
    found.first().map(|found| found.key_of(owner, reference)).transpose()
}

/// What there is of the references with these digests, by digest.
pub(super) async fn find_all<S: Statements>(
    tables: &Tables,
    statements: &mut S,
    keyspace: &str,
    digests: &[String],
) -> Result<HashMap<String, Reference>, SqlError> {
    let mut found = HashMap::new();
    plan_afresh(statements).await?;
    for piece in pieces(digests) {
        let condition = format!("keyspace = ? AND digest IN ({})", question_marks(piece.len()));
        let values = piece.iter().map(|digest| digest.as_str().into()).collect();
        for reference in select(tables, statements, keyspace, &condition, values).await? {
            found.insert(reference.cursor(), reference);
        }
    }
    Ok(found)
}

impl Operation for FindReference {
    type Answer = Option<String>;
    const ACCESS: Access = Access::Read;
    const IS_GLANCE: bool = true;

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)
    }

    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Option<String>, SqlError> {
        find(tables, statements, &self.keyspace, self.owner.as_deref(), &self.reference).await
    }
}

/// Many at once; answers in their order.
#[derive(Debug, Clone)]
pub(crate) struct FindReferences {
    pub(crate) keyspace: String,
    /// Owners and texts.
    pub(crate) references: Vec<(Option<String>, String)>,
}

impl Operation for FindReferences {
    type Answer = Vec<Option<String>>;
    const ACCESS: Access = Access::Read;

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::batch(self.references.len())
    }

    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Vec<Option<String>>, SqlError> {
        let digests: Vec<String> =
            self.references.iter().map(|(owner, text)| digest(owner.as_deref(), text)).collect();
        let found = find_all(tables, statements, &self.keyspace, &digests).await?;
        let keys = self.references.iter().zip(&digests).map(|((owner, text), digest)| {
            found.get(digest).map(|found| found.key_of(owner.as_deref(), text)).transpose()
        });
        keys.collect()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ReferencesTo {
    pub(crate) keyspace: String,
    pub(crate) key: String,
}

impl Operation for ReferencesTo {
    type Answer = Vec<Reference>;
    const ACCESS: Access = Access::Read;

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        limits::name("the key", &self.key)
    }

    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Vec<Reference>, SqlError> {
        let values = vec![self.key.as_str().into(), i64::from(REFERENCES_SHOWN).into()];
        let condition = format!("{OF_KEYSPACE} AND name = ? ORDER BY digest LIMIT ?");
        select(tables, statements, &self.keyspace, &condition, values).await
    }
}

#[derive(Debug, Clone)]
pub(crate) struct References {
    pub(crate) keyspace: String,
    pub(crate) after: Option<String>,
    pub(crate) limit: u32,
}

impl Operation for References {
    type Answer = Vec<Reference>;
    const ACCESS: Access = Access::Read;

    fn check(&self) -> Checked {
        limits::name("the keyspace", &self.keyspace)?;
        self.after.iter().try_for_each(|after| limits::text("the cursor", after))?;
        limits::page(self.limit)
    }

    async fn run<S: Statements>(
        &self,
        tables: &Tables,
        statements: &mut S,
    ) -> Result<Vec<Reference>, SqlError> {
        let after = self.after.clone().unwrap_or_default();
        let values = vec![after.into(), i64::from(self.limit).into()];
        let condition = "keyspace = ? AND digest > ? ORDER BY digest LIMIT ?";
        select(tables, statements, &self.keyspace, condition, values).await
    }
}
