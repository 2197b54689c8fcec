//! Where the unused keys of a pool are kept, if they are kept at all.
//!
//! Such a pool spells the same keys from the same numbers as a virtual one; a filler puts them where other
//! programs can take them, too. Definitions from before there were such pools state none of this and are
//! virtual.

use serde_json::Value;

use super::error::{DefinitionError, invalid};
use crate::stated::{RedisType, Stated, Store};

/// Room for the table's own name in the 63 bytes of a PostgreSQL identifier.
const TABLE_PREFIX_LENGTH_MAX: usize = 32;
const REDIS_KEY_LENGTH_MAX: usize = 256;

/// The rows that hold a pool's unused keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rows {
    /// `available_keys` and `used_keys` in the registry's database, each with the prefix before its name.
    Table { prefix: String },
    /// A list or a set of a Redis server.
    Redis { key: String, kind: RedisType },
}

impl Rows {
    /// `None` for a virtual pool.
    pub(super) fn resolve(stated: &Stated) -> Result<Option<Self>, DefinitionError> {
        let store = stated.store.unwrap_or(Store::Virtual);
        refuse_fields_of_other_stores(stated, store)?;
        match store {
            Store::Virtual => Ok(None),
            Store::Table => {
                let prefix = stated.table_prefix.as_deref().unwrap_or_default();
                check_table_prefix(prefix)?;
                Ok(Some(Self::Table { prefix: prefix.to_owned() }))
            }
            Store::Redis => {
                let key = stated.redis_key.as_deref().ok_or(DefinitionError::Missing {
                    field: "redis_key",
                    hint: "name the list or set; a keyspace's own name is the usual choice",
                })?;
                check_redis_key(key)?;
                let kind = stated.redis_type.unwrap_or(RedisType::List);
                Ok(Some(Self::Redis { key: key.to_owned(), kind }))
            }
        }
    }

    pub fn store(&self) -> Store {
        match self {
            Self::Table { .. } => Store::Table,
            Self::Redis { .. } => Store::Redis,
        }
    }

    pub(super) fn fields(&self) -> Vec<(&'static str, Value)> {
        match self {
            Self::Table { prefix } => vec![("table_prefix", prefix.as_str().into())],
            Self::Redis { key, kind } => {
                vec![("redis_key", key.as_str().into()), ("redis_type", kind.as_str().into())]
            }
        }
    }
}

fn refuse_fields_of_other_stores(stated: &Stated, store: Store) -> Result<(), DefinitionError> {
    let fields = [
        ("table_prefix", Store::Table, stated.table_prefix.is_some()),
        ("redis_key", Store::Redis, stated.redis_key.is_some()),
        ("redis_type", Store::Redis, stated.redis_type.is_some()),
    ];
    match fields.iter().find(|(_, applies_to, is_stated)| *is_stated && *applies_to != store) {
        None => Ok(()),
        Some((field, applies_to, _)) => Err(DefinitionError::Misplaced {
            field,
            applies_to: format!("store `{applies_to}`"),
            not_to: format!("store `{store}`"),
        }),
    }
}

/// Narrow enough that nobody ever has to quote a table's name.
fn check_table_prefix(prefix: &str) -> Result<(), DefinitionError> {
    let plain = prefix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let begins_well = !prefix.starts_with(|c: char| c.is_ascii_digit());
    if !plain || !begins_well || prefix.len() > TABLE_PREFIX_LENGTH_MAX {
        let rule = format!(
            "it is up to {TABLE_PREFIX_LENGTH_MAX} of `a-z`, `0-9` and `_`, and begins with no digit"
        );
        return Err(invalid("table_prefix", rule));
    }
    if prefix.starts_with("sqlite_") {
        return Err(invalid("table_prefix", "SQLite keeps names that begin with `sqlite_` for itself"));
    }
    Ok(())
}

/// What can be typed into `redis-cli` as it stands.
fn check_redis_key(key: &str) -> Result<(), DefinitionError> {
    let typed = key.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\'));
    if typed && (1..=REDIS_KEY_LENGTH_MAX).contains(&key.len()) {
        return Ok(());
    }
    let rule =
        format!("it is 1 to {REDIS_KEY_LENGTH_MAX} visible ASCII characters without quotes and backslashes");
    Err(invalid("redis_key", rule))
}
