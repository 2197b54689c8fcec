//! Keys written down one by one, in the registry's database.

use async_trait::async_trait;
use keymill_issuer::key_log::{Issued, KeyLog, KeyLogError};
use keymill_ledger::NodeName;
use keymill_registry::{Record, Registry, RegistryError};

/// The log of what this node issues.
#[derive(Debug)]
pub(crate) struct RegistryLog {
    pub registry: Registry,
    pub node: NodeName,
}

#[async_trait]
impl KeyLog for RegistryLog {
    async fn write(&self, issued: Issued<'_>) -> Result<(), KeyLogError> {
        let Issued { keyspace, definition, keys, at } = issued;
        self.registry.arrange(keyspace.as_str(), definition).await.map_err(unwritten)?;
        let record = Record {
            keyspace: keyspace.to_string(),
            keys,
            node: self.node.to_string(),
            at_ms: i64::try_from(at.0).unwrap_or(i64::MAX),
        };
        self.registry.record(record).await.map_err(unwritten)
    }
}

fn unwritten(error: RegistryError) -> KeyLogError {
    match &error {
        RegistryError::Unavailable(_) | RegistryError::Unknown(_) => {
            KeyLogError::Unavailable(error.to_string())
        }
        RegistryError::Refused(_) | RegistryError::Corrupt(_) => KeyLogError::Refused(error.to_string()),
    }
}
