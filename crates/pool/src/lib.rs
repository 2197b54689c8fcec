//! Pools as rows: keys that lie in Redis or in SQL tables, where other programs pop them too.
//!
//! What rows promise is `keymill_issuer::rowed`'s to say, and the filler that tops them up lives there; this crate
//! holds the stores, a folder each.

use std::sync::Arc;

use keymill_id::Rows;
use keymill_issuer::{
    Settings,
    rowed::{PoolError, RowHome, RowPool, RowPools},
};

pub mod redis;
pub mod table;

pub use crate::{
    redis::RedisPool,
    table::{TableHome, TablePool},
};

/// Opens the rows of keyspaces, wherever their definitions put them.
#[derive(Debug)]
pub struct Pools {
    /// `None`: there is no registry, and so no tables.
    pub tables: Option<TableHome>,
}

impl RowPools for Pools {
    fn open(&self, home: &RowHome, settings: &Settings) -> Result<Arc<dyn RowPool>, PoolError> {
        match &home.rows {
            Rows::Redis { .. } => Ok(Arc::new(RedisPool::open(home, settings)?)),
            Rows::Table { .. } => match &self.tables {
                Some(at) => Ok(Arc::new(TablePool::open(home, at)?)),
                None => Err(PoolError::Refused(format!(
                    "keyspace `{}` keeps its keys in the registry's database, and there is none: the ledger is on an \
                     engine without tables; name a postgres:// or mysql:// URL as `registry.url`",
                    home.keyspace
                ))),
            },
        }
    }
}
