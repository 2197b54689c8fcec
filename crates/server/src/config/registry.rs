//! Where names and links are kept, and how much of them is remembered.

use keymill_issuer::quantity::Span;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, LedgerUrl};
use crate::ledgers::StoreUrl;

/// The engines that keep names besides the embedded one.
const SQL: [&str; 4] = ["postgres", "postgresql", "mysql", "mariadb"];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryConfig {
    pub url: StoreUrl,
    pub cache_entries: usize,
    pub cache_for: Span,
    pub reuse_after: Span,
    pub sweep_interval: Span,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            url: StoreUrl::default(),
            cache_entries: 100_000,
            cache_for: Span(10_000),
            reuse_after: Span(0),
            sweep_interval: Span(60_000),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryPlace {
    /// Nowhere: the ledger is on an engine that keeps no names, and no other was named.
    Off,
    /// In the embedded ledger's own file.
    Beside,
    Shared(StoreUrl),
}

impl Config {
    pub fn registry_place(&self) -> Result<RegistryPlace, ConfigError> {
        let wrong = |problem: &str| {
            let (setting, problem) = ("registry.url".to_owned(), problem.to_owned());
            Err(ConfigError::Contradiction { setting, problem })
        };
        let scheme_of = |url: &StoreUrl| url.reveal().split(':').next().unwrap_or_default().to_owned();
        let url = &self.registry.url;
        let ledger = self.ledger_url()?;
        if url.reveal().is_empty() {
            return Ok(match ledger {
                LedgerUrl::Sqlite(_) => RegistryPlace::Beside,
                LedgerUrl::Shared(url) if SQL.contains(&scheme_of(&url).as_str()) => {
                    RegistryPlace::Shared(url)
                }
                LedgerUrl::Shared(_) => RegistryPlace::Off,
            });
        }
        match scheme_of(url).as_str() {
            scheme if SQL.contains(&scheme) => Ok(RegistryPlace::Shared(url.clone())),
            "sqlite" if matches!(ledger, LedgerUrl::Shared(_)) => wrong(
                "is a file, and the ledger is shared: each node would have its own names; name PostgreSQL or MariaDB",
            ),
            "sqlite" if *url == self.ledger.url => Ok(RegistryPlace::Beside),
            "sqlite" => {
                wrong("is another file than the ledger; leave it empty, and names are kept beside the ledger")
            }
            _ => wrong("is not a registry URL; use postgres://… or mysql://…, or leave it empty"),
        }
    }

    /// Whose links these are: `https://go.example`.
    pub(super) fn check_public_url(&self) -> Result<(), ConfigError> {
        let text = self.listen.public_url.as_str();
        if text.is_empty() {
            return Ok(());
        }
        let plain = url::Url::parse(text).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.query().is_none()
                && url.fragment().is_none()
        });
        if plain.is_some() {
            return Ok(());
        }
        let problem = format!("is `{}`, which is not http(s)://HOST[/PATH]", text.escape_debug());
        Err(ConfigError::Contradiction { setting: "listen.public_url".to_owned(), problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ledger: &str, registry: &str) -> Result<RegistryPlace, ConfigError> {
        let mut config = Config::default();
        config.ledger.url = StoreUrl::new(ledger);
        config.registry.url = StoreUrl::new(registry);
        config.registry_place()
    }

    #[test]
    fn names_live_where_the_ledger_does_if_that_is_sql() {
        let postgres = StoreUrl::new("postgres://db/keys");
        assert_eq!(place("", "").unwrap(), RegistryPlace::Beside);
        assert_eq!(place("postgres://db/keys", "").unwrap(), RegistryPlace::Shared(postgres.clone()));
        assert_eq!(place("etcd://h:2379", "").unwrap(), RegistryPlace::Off);
        assert_eq!(place("etcd://h:2379", "postgres://db/keys").unwrap(), RegistryPlace::Shared(postgres));
        for (ledger, registry, complaint) in [
            ("etcd://h:2379", "sqlite:names.db", "its own names"),
            ("", "sqlite:names.db", "another file"),
            ("", "redis://h", "not a registry URL"),
        ] {
            let error = place(ledger, registry).unwrap_err().to_string();
            assert!(error.contains(complaint), "{error}");
        }
    }

    #[test]
    fn a_public_url_is_one() {
        for (text, fine) in [
            ("", true),
            ("https://go.example", true),
            ("https://go.example/l", true),
            ("go.example", false),
            ("ftp://go.example", false),
            ("https://go.example?x", false),
        ] {
            let mut config = Config::default();
            config.listen.public_url = text.to_owned();
            assert_eq!(config.check().is_ok(), fine, "{text}");
        }
    }
}
