//! From a URL to a ledger: which engine it names, and what all of them are opened with.

use std::{fmt, sync::Arc};

use keymill_ledger::{
    EtcdStore, Ledger, LedgerError, LedgerId, RedisStore, SqlStore, StoreOptions, Timestamp, Tls,
    ZookeeperStore, masked,
};
use serde::{Deserialize, Serialize};

use crate::config::{LedgerConfig, Lossy};

/// Where a store is. It may hold a password, which is never shown.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoreUrl(String);

impl StoreUrl {
    pub fn new(url: &str) -> Self {
        Self(url.to_owned())
    }

    /// With its secrets, to connect.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", masked(&self.0))
    }
}

/// The schemes of engines that many nodes share.
pub(crate) const SHARED: [&str; 9] =
    ["postgres", "postgresql", "mysql", "mariadb", "redis", "rediss", "etcd", "etcds", "zookeeper"];

/// What the settings say, for a ledger that gets `new_id` if it may be made, and is made now.
pub fn options(config: &LedgerConfig, create: bool, new_id: LedgerId, at: Timestamp) -> StoreOptions {
    let file = |path: &str| (!path.is_empty()).then(|| path.into());
    StoreOptions {
        lossy_accepted: config.lossy == Lossy::Accepted,
        migrate: config.migrate,
        timeout: config.timeout.duration(),
        tls: Tls { ca: file(&config.tls_ca), cert: file(&config.tls_cert), key: file(&config.tls_key) },
        create,
        new_id,
        at,
    }
}

/// Reads the URL of a shared engine and connects nowhere yet. Inside a runtime.
pub fn open(url: &StoreUrl, options: StoreOptions) -> Result<Arc<dyn Ledger>, LedgerError> {
    let text = url.reveal();
    let scheme = text.split(':').next().unwrap_or_default();
    Ok(match scheme {
        "postgres" | "postgresql" | "mysql" | "mariadb" => Arc::new(SqlStore::new(text, options)?),
        "redis" | "rediss" => Arc::new(RedisStore::new(text, options)?),
        "etcd" | "etcds" => Arc::new(EtcdStore::new(text, options)?),
        "zookeeper" => Arc::new(ZookeeperStore::new(text, options)?),
        _ => {
            let detail = format!("{url} names no engine that nodes can share");
            return Err(LedgerError::Refused { store: "shared", detail });
        }
    })
}

/// Random, made once.
pub fn new_id() -> Result<LedgerId, getrandom::Error> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    Ok(LedgerId(id.iter().map(|byte| format!("{byte:02x}")).collect()))
}
