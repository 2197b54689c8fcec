//! From the settings to a database: where names and links are kept, and the rows of pools.

use anyhow::Context;
use keymill_sql::{Address, Database, Sqlite, Tls};

use crate::config::{Config, RegistryPlace};

/// Connects nowhere yet. `beside` is the embedded ledger's file. `None`: names are kept nowhere.
pub(crate) fn open(config: &Config, beside: Option<Sqlite>) -> anyhow::Result<Option<Database>> {
    Ok(Some(match config.registry_place()? {
        RegistryPlace::Off => return Ok(None),
        RegistryPlace::Beside => Database::embedded(beside.context("the ledger is not a file")?),
        RegistryPlace::Shared(url) => {
            let file = |path: &str| (!path.is_empty()).then(|| path.into());
            let ledger = &config.ledger;
            let tls =
                Tls { ca: file(&ledger.tls_ca), cert: file(&ledger.tls_cert), key: file(&ledger.tls_key) };
            let address = Address::parse(url.reveal(), &tls, ledger.timeout.duration())
                .context("registry.url cannot be used")?;
            Database::new(address)
        }
    }))
}
