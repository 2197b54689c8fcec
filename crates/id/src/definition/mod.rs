//! A keyspace's frozen definition: complete, valid, and never changed.
//!
//! Everything that shapes keys is in here, so two nodes with equal definitions spell equal keys. A
//! [`Definition`] cannot be invalid: it comes from [`Definition::resolve`], or from the ledger's text by the
//! same checks. It is stored as sorted compact JSON, and its fingerprint is a hash over that.
//!
//! **Adding a frozen field later**: definitions that are already stored do not have it, and must keep their
//! text and their fingerprint. So a new field gets the value that means what its absence meant, and
//! `fields` leaves it out while it has that value.

mod digest;
mod error;
mod pool;
mod rows;
mod sequence;
mod snowflake;
mod spelled;

use std::{collections::BTreeMap, fmt};

use serde_json::Value;
use sha2::{Digest, Sha256};

pub use self::{
    digest::DigestDefinition, error::DefinitionError, pool::PoolDefinition, rows::Rows,
    sequence::SequenceDefinition, snowflake::SnowflakeDefinition,
};
use crate::{
    hex,
    secret::Secret,
    stated::{Scheme, Stated},
};

/// What a keyspace is, for ever.
///
/// Not `Serialize`, so that no secret ends up in an answer by accident: say which form is meant with
/// [`to_stored_json`](Self::to_stored_json) or [`to_public_json`](Self::to_public_json).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Definition {
    Pool(PoolDefinition),
    Sequence(SequenceDefinition),
    Snowflake(SnowflakeDefinition),
    /// Made without asking anyone; there is nothing to define.
    Free(FreeScheme),
    /// Made from what they stand for.
    Digest(DigestDefinition),
}

/// Schemes that need no ledger: their keys are unique by chance alone.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum FreeScheme {
    Uuid4,
    Uuid7,
    Ulid,
}

/// A frozen field that is stated otherwise than it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    pub field: &'static str,
    pub stated: String,
    pub stored: String,
}

impl Definition {
    /// Completes what is stated with defaults. `secret` becomes the shuffle's; where nothing is
    /// shuffled it is dropped.
    pub fn resolve(stated: &Stated, secret: Secret) -> Result<Self, DefinitionError> {
        let scheme = stated.scheme.ok_or(DefinitionError::Missing {
            field: "scheme",
            hint: "state what kind of keyspace it is, such as `pool` or `sequence`",
        })?;
        if let Some((field, schemes)) = stated.misplaced(scheme) {
            return Err(DefinitionError::Misplaced {
                field,
                applies_to: schemes.iter().map(|scheme| scheme.as_str()).collect::<Vec<_>>().join(" and "),
                not_to: scheme.as_str().to_owned(),
            });
        }
        match scheme {
            Scheme::Pool => PoolDefinition::resolve(stated, secret).map(Self::Pool),
            Scheme::Sequence => SequenceDefinition::resolve(stated).map(Self::Sequence),
            Scheme::Snowflake => SnowflakeDefinition::resolve(stated).map(Self::Snowflake),
            Scheme::Uuid4 => Ok(Self::Free(FreeScheme::Uuid4)),
            Scheme::Uuid7 => Ok(Self::Free(FreeScheme::Uuid7)),
            Scheme::Ulid => Ok(Self::Free(FreeScheme::Ulid)),
            Scheme::Digest => DigestDefinition::resolve(stated).map(Self::Digest),
        }
    }

    pub fn scheme(&self) -> Scheme {
        match self {
            Self::Pool(_) => Scheme::Pool,
            Self::Sequence(_) => Scheme::Sequence,
            Self::Snowflake(_) => Scheme::Snowflake,
            Self::Free(FreeScheme::Uuid4) => Scheme::Uuid4,
            Self::Free(FreeScheme::Uuid7) => Scheme::Uuid7,
            Self::Free(FreeScheme::Ulid) => Scheme::Ulid,
            Self::Digest(_) => Scheme::Digest,
        }
    }

    /// Whether it is the keyspace that answers `GET /{key}`.
    pub fn root(&self) -> bool {
        match self {
            Self::Pool(pool) => pool.root(),
            Self::Digest(digest) => digest.root(),
            Self::Sequence(_) | Self::Snowflake(_) | Self::Free(_) => false,
        }
    }

    /// What every key begins with.
    pub fn prefix(&self) -> &str {
        match self {
            Self::Pool(pool) => pool.prefix(),
            Self::Sequence(sequence) => sequence.prefix(),
            Self::Digest(digest) => digest.prefix(),
            Self::Snowflake(_) | Self::Free(_) => "",
        }
    }

    /// Where `stated` disagrees. Only what it states is compared, as this scheme would write it; two
    /// spellings of one alphabet stay two, since they are read differently.
    pub fn conflicts(&self, stated: &Stated) -> Vec<Conflict> {
        let fields = self.fields();
        let written =
            Self::resolve(stated, Secret::from_bytes([0; Secret::LENGTH])).map(|stated| stated.fields());
        let mut conflicts = Vec::new();
        for (field, value) in stated.values() {
            let value =
                written.as_ref().ok().and_then(|written| written.get(field)).cloned().unwrap_or(value);
            let stored = fields.get(field);
            if stored == Some(&value) {
                continue;
            }
            let stored = stored.map_or_else(|| format!("nothing, as it is a {}", self.scheme()), shown);
            conflicts.push(Conflict { field, stated: shown(&value), stored });
            // With another scheme every other field differs too, and that helps nobody.
            if field == "scheme" {
                break;
            }
        }
        conflicts
    }

    /// Hex SHA-256 of the stored definition, its secret replaced by the secret's own SHA-256: equal for
    /// equal definitions, safe to show.
    pub fn fingerprint(&self) -> String {
        let mut fields = self.fields();
        if let Some(secret) = self.secret() {
            fields.insert("secret", secret.sha256_hex().into());
        }
        hex::encode(&Sha256::digest(sorted_json(&fields)))
    }

    /// What the ledger keeps: all fields, and the secret.
    pub fn to_stored_json(&self) -> String {
        sorted_json(&self.stored_fields())
    }

    /// Reads what [`to_stored_json`](Self::to_stored_json) wrote, and nothing else: a text that would be
    /// written otherwise is refused, so a missing field is never taken for a default.
    pub fn from_stored_json(text: &str) -> Result<Self, DefinitionError> {
        let unreadable = |reason: String| DefinitionError::Unreadable { reason };
        let fields: BTreeMap<String, Value> =
            serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
        let secret = match fields.get("secret") {
            Some(Value::String(secret)) => Secret::from_hex(secret)
                .ok_or_else(|| unreadable("its secret is not 64 hexadecimal digits".to_owned()))?,
            Some(_) => return Err(unreadable("its secret is not a text".to_owned())),
            // Dropped again, or else found out below.
            None => Secret::from_bytes([0; Secret::LENGTH]),
        };
        let stated = fields.iter().filter(|(field, _)| *field != "secret");
        let stated: Value = stated.map(|(field, value)| (field.clone(), value.clone())).collect();
        let stated: Stated = serde_json::from_value(stated).map_err(|error| unreadable(error.to_string()))?;
        let definition = Self::resolve(&stated, secret).map_err(|error| unreadable(error.to_string()))?;
        let written = definition.stored_fields();
        match written
            .keys()
            .copied()
            .chain(fields.keys().map(String::as_str))
            .find(|field| written.get(field) != fields.get(*field))
        {
            None => Ok(definition),
            Some(field) => {
                Err(unreadable(format!("its `{field}` is missing or was not written by this version")))
            }
        }
    }

    /// All fields but the secret. Ledger numbers are strings, as everywhere in JSON.
    pub fn to_public_json(&self) -> Value {
        self.fields().into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
    }

    fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Pool(pool) => pool.secret(),
            _ => None,
        }
    }

    /// Every frozen field but the secret, by name, as it is compared, stored and shown.
    fn fields(&self) -> BTreeMap<&'static str, Value> {
        match self {
            Self::Pool(pool) => pool.fields(),
            Self::Sequence(sequence) => sequence.fields(),
            Self::Snowflake(snowflake) => snowflake.fields(),
            Self::Digest(digest) => digest.fields(),
            Self::Free(_) => BTreeMap::from([("scheme", self.scheme().as_str().into())]),
        }
    }

    fn stored_fields(&self) -> BTreeMap<&'static str, Value> {
        let mut fields = self.fields();
        if let Some(secret) = self.secret() {
            fields.insert("secret", secret.to_hex().into());
        }
        fields
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is stated as {}, but the ledger has {}", self.field, self.stated, self.stored)
    }
}

/// A value for people: texts without quotes, unless they are empty.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        other => other.to_string(),
    }
}

/// Sorted, because a `BTreeMap` is, whatever features of `serde_json` are on elsewhere. All values are
/// plain or lists, so nothing below the top has an order to lose.
fn sorted_json(fields: &BTreeMap<&'static str, Value>) -> String {
    serde_json::to_string(fields).expect("text keys and plain values serialise")
}
