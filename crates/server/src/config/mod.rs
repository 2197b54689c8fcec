//! What can be set, its defaults, and which values contradict each other.
//!
//! `config/keymill.toml` shows every key at its default with the trade-off; a test keeps the two equal.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use keymill_api::KeyspaceSpec;
use keymill_id::{Definition, Secret};
use keymill_issuer::{
    Wanted,
    quantity::{Size, Span},
};
use serde::{Deserialize, Serialize};

use crate::{
    ledgers::{self, StoreUrl},
    telemetry,
};

mod changes;
mod layers;
mod registry;
mod trace;
mod watch;

pub use changes::Change;
pub(crate) use layers::read;
pub use layers::{ConfigError, Layers, Setting, Source};
pub use registry::{RegistryConfig, RegistryPlace};
pub use trace::TraceConfig;
pub use watch::{HeartbeatUrl, WatchConfig};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub node: String,
    pub data_dir: PathBuf,
    pub listen: Listen,
    pub ledger: LedgerConfig,
    pub registry: RegistryConfig,
    pub watch: WatchConfig,
    pub auth: Auth,
    pub log: Log,
    pub metrics: Metrics,
    pub trace: TraceConfig,
    pub limits: Limits,
    #[serde(default)]
    pub keyspaces: toml::Table,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    pub http: String,
    pub resp: String,
    pub admin: String,
    pub public_url: String,
    pub tls_cert: String,
    pub tls_key: String,
    pub tls_client_ca: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    pub mode: AuthMode,
}

/// Whether callers need a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// As soon as a listener is not loopback.
    Auto,
    On,
    Off,
}

impl AuthMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerConfig {
    pub url: StoreUrl,
    pub lossy: Lossy,
    pub migrate: bool,
    pub tls_ca: String,
    pub tls_cert: String,
    pub tls_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<u16>,
    pub peers: Vec<String>,
    pub peers_ca: String,
    pub heartbeat: Span,
    pub timeout: Span,
}

/// What to do with an engine that may forget a write it acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lossy {
    Refused,
    Accepted,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub level: String,
    pub format: LogFormat,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    pub durations: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Auto,
    Text,
    Json,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub count_max: u32,
    pub stream_count_max: u32,
    pub body_bytes: Size,
    pub batch_bytes: Size,
    pub take_timeout: Span,
    pub request_timeout: Span,
    pub drain_timeout: Span,
    pub connections: usize,
    pub resp_connections: usize,
    pub resp_idle_timeout: Span,
    pub keepalive: Span,
    pub waiting_takes: usize,
    pub admin_requests: usize,
    pub name_requests: usize,
    pub keyspaces: u64,
    pub misses: u32,
    pub idempotency: Span,
}

impl Limits {
    /// How much of a stop is for callers; the rest of `drain_timeout` is for giving back, or one who does not read
    /// would burn the stock.
    pub fn finish_within(&self) -> Duration {
        self.drain_timeout.duration() * 3 / 4
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node: String::new(),
            data_dir: "./keymill-data".into(),
            listen: Listen {
                http: "127.0.0.1:7070".to_owned(),
                resp: "127.0.0.1:7071".to_owned(),
                admin: String::new(),
                public_url: String::new(),
                tls_cert: String::new(),
                tls_key: String::new(),
                tls_client_ca: String::new(),
            },
            ledger: LedgerConfig {
                url: StoreUrl::default(),
                lossy: Lossy::Refused,
                migrate: true,
                tls_ca: String::new(),
                tls_cert: String::new(),
                tls_key: String::new(),
                region: None,
                peers: Vec::new(),
                peers_ca: String::new(),
                heartbeat: Span(2_000),
                timeout: Span(2_000),
            },
            registry: RegistryConfig::default(),
            watch: WatchConfig::default(),
            auth: Auth { mode: AuthMode::Auto },
            log: Log { level: "info".to_owned(), format: LogFormat::Auto },
            metrics: Metrics { durations: true },
            trace: TraceConfig::default(),
            limits: Limits {
                count_max: 10_000,
                stream_count_max: 1_000_000,
                body_bytes: Size(64 << 10),
                batch_bytes: Size(4 << 20),
                take_timeout: Span(2_000),
                request_timeout: Span(10_000),
                drain_timeout: Span(10_000),
                connections: 20_000,
                resp_connections: 20_000,
                resp_idle_timeout: Span(0),
                keepalive: Span(60_000),
                waiting_takes: 1_000,
                admin_requests: 256,
                name_requests: 4_096,
                keyspaces: 10_000,
                misses: 60,
                idempotency: Span(24 * 3_600_000),
            },
            keyspaces: toml::Table::new(),
        }
    }
}

/// Where the ledger is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerUrl {
    Sqlite(PathBuf),
    /// An engine that nodes share.
    Shared(StoreUrl),
}

impl Config {
    /// Checks how settings relate, before anything is opened.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |setting: &str, problem: String| {
            Err(ConfigError::Contradiction { setting: setting.to_owned(), problem })
        };
        let Limits { count_max, stream_count_max, .. } = self.limits;
        if count_max == 0 {
            return wrong("limits.count_max", "must be at least 1".to_owned());
        }
        if count_max > stream_count_max {
            let problem = format!("is {count_max}, above limits.stream_count_max ({stream_count_max})");
            return wrong("limits.count_max", problem);
        }
        for (setting, span) in [
            ("ledger.heartbeat", self.ledger.heartbeat),
            ("ledger.timeout", self.ledger.timeout),
            ("limits.take_timeout", self.limits.take_timeout),
            ("limits.request_timeout", self.limits.request_timeout),
        ] {
            if span.0 == 0 {
                return wrong(setting, "must be longer than 0".to_owned());
            }
        }
        let words = ["off", "error", "warn", "info", "debug", "trace"];
        let level = self.log.level.as_str();
        if !level.contains(['=', ',']) && !words.contains(&level) {
            let problem = format!("is `{}`; choose {}", level.escape_debug(), words.join(", "));
            return wrong("log.level", problem);
        }
        if let Err(error) = telemetry::filter(level) {
            let problem = format!("is `{}`, which is no filter: {error}", level.escape_debug());
            return wrong("log.level", problem);
        }
        for (setting, places) in [
            ("limits.connections", self.limits.connections),
            ("limits.resp_connections", self.limits.resp_connections),
            ("limits.waiting_takes", self.limits.waiting_takes),
            ("limits.admin_requests", self.limits.admin_requests),
            ("limits.name_requests", self.limits.name_requests),
        ] {
            if places == 0 {
                return wrong(setting, "must be at least 1".to_owned());
            }
        }
        if self.limits.keepalive.duration() < Duration::from_secs(1) {
            return wrong("limits.keepalive", "must be at least 1s".to_owned());
        }
        self.check_peers()?;
        self.check_tls()?;
        self.http()?;
        self.resp()?;
        self.admin()?;
        self.ledger_url()?;
        self.registry_place()?;
        self.check_public_url()?;
        self.check_watch()?;
        self.check_trace()?;
        for KeyspaceSpec { name, stated, .. } in self.keyspace_specs()? {
            // Whether it makes sense at all; a real secret is made when the keyspace is.
            if let Err(error) =
                Definition::resolve(&stated.named(&name), Secret::from_bytes([0; Secret::LENGTH]))
            {
                return wrong(&format!("keyspaces.{name}:"), error.to_string());
            }
        }
        Ok(())
    }

    /// Peers tell their region, which says nothing to a node without one.
    fn check_peers(&self) -> Result<(), ConfigError> {
        let wrong =
            |problem: String| Err(ConfigError::Contradiction { setting: "ledger.peers".to_owned(), problem });
        if let Some(peer) = self.ledger.peers.iter().find(|peer| !is_origin(peer)) {
            let peer = peer.escape_debug();
            return wrong(format!("has `{peer}`, which is not http://HOST:PORT or https://HOST:PORT"));
        }
        if !self.ledger.peers.is_empty() && self.ledger.region.is_none() {
            return wrong("needs `ledger.region`, which is compared with theirs".to_owned());
        }
        Ok(())
    }

    /// A certificate is of no use without its key, and who else is trusted only matters between the two.
    fn check_tls(&self) -> Result<(), ConfigError> {
        let Listen { tls_cert, tls_key, tls_client_ca, .. } = &self.listen;
        let missing = match (tls_cert.is_empty(), tls_key.is_empty(), tls_client_ca.is_empty()) {
            (false, true, _) => ("listen.tls_cert", "listen.tls_key"),
            (true, false, _) => ("listen.tls_key", "listen.tls_cert"),
            (true, true, false) => ("listen.tls_client_ca", "listen.tls_cert and listen.tls_key"),
            _ => return Ok(()),
        };
        let problem = format!("is set, and needs {}", missing.1);
        Err(ConfigError::Contradiction { setting: missing.0.to_owned(), problem })
    }

    pub fn http(&self) -> Result<SocketAddr, ConfigError> {
        self.listen.http.parse().map_err(|_| ConfigError::Contradiction {
            setting: "listen.http".to_owned(),
            problem: format!("is `{}`, which is not ADDRESS:PORT, such as 127.0.0.1:7070", self.listen.http),
        })
    }

    /// Where the Redis protocol is spoken; `None` if nowhere.
    pub fn resp(&self) -> Result<Option<SocketAddr>, ConfigError> {
        if self.listen.resp == "off" {
            return Ok(None);
        }
        self.listen.resp.parse().map(Some).map_err(|_| ConfigError::Contradiction {
            setting: "listen.resp".to_owned(),
            problem: format!(
                "is `{}`, which is neither ADDRESS:PORT, such as 127.0.0.1:7071, nor \"off\"",
                self.listen.resp
            ),
        })
    }

    /// Where dangerous calls are answered, if not everywhere.
    pub fn admin(&self) -> Result<Option<SocketAddr>, ConfigError> {
        if self.listen.admin.is_empty() {
            return Ok(None);
        }
        self.listen.admin.parse().map(Some).map_err(|_| ConfigError::Contradiction {
            setting: "listen.admin".to_owned(),
            problem: format!(
                "is `{}`, which is not ADDRESS:PORT, such as 127.0.0.1:7072; leave it empty for none",
                self.listen.admin
            ),
        })
    }

    pub fn ledger_url(&self) -> Result<LedgerUrl, ConfigError> {
        let wrong =
            |problem: String| ConfigError::Contradiction { setting: "ledger.url".to_owned(), problem };
        let url = self.ledger.url.reveal();
        if url.is_empty() {
            return Ok(LedgerUrl::Sqlite(self.data_dir.join("keymill.db")));
        }
        match url.split_once(':') {
            Some(("sqlite", path)) if path.starts_with("//") && !path.starts_with("///") => {
                Err(wrong("names a host, but SQLite is a file; use sqlite:PATH".to_owned()))
            }
            Some(("sqlite", path)) if !path.is_empty() => Ok(LedgerUrl::Sqlite(path.into())),
            Some(("memory", _)) => {
                Err(wrong("is `memory:`, which forgets at every restart and would repeat keys".to_owned()))
            }
            Some((scheme, place)) if ledgers::SHARED.contains(&scheme) && place.starts_with("//") => {
                Ok(LedgerUrl::Shared(self.ledger.url.clone()))
            }
            _ => Err(wrong(format!(
                "is not a ledger URL; use sqlite:PATH, or SCHEME://… with one of {}",
                ledgers::SHARED.join(", ")
            ))),
        }
    }

    /// The same as the node wants them.
    pub fn wanted(&self) -> Result<Vec<Wanted>, ConfigError> {
        let wanted = |KeyspaceSpec { name, stated, tuning }| Wanted { name, stated, tuning };
        Ok(self.keyspace_specs()?.into_iter().map(wanted).collect())
    }

    /// The keyspaces this file wants to exist.
    pub fn keyspace_specs(&self) -> Result<Vec<KeyspaceSpec>, ConfigError> {
        let spec = |(name, fields): (&String, &toml::Value)| {
            let setting = format!("keyspaces.{}", name.escape_debug());
            let fields = match serde_json::to_value(fields) {
                Ok(serde_json::Value::Object(fields)) => fields,
                _ => {
                    let problem = "is not a table; write [keyspaces.NAME]".to_owned();
                    return Err(ConfigError::Contradiction { setting, problem });
                }
            };
            KeyspaceSpec::from_fields(name, fields).map_err(|refusal| {
                // Not every complaint says which field it is about.
                let field = refusal.errors.first().and_then(|error| error.pointer.strip_prefix("#/"));
                let setting = match field {
                    Some(field) if field != "name" && !refusal.detail.contains(&format!("`{field}`")) => {
                        format!("{setting}.{field}:")
                    }
                    _ => format!("{setting}:"),
                };
                ConfigError::Contradiction { setting, problem: refusal.detail }
            })
        };
        self.keyspaces.iter().map(spec).collect()
    }
}

/// Whether it is an address and nothing else: whom a node asks is no place for a path or a password.
fn is_origin(text: &str) -> bool {
    let plain = |url: &url::Url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && (url.path(), url.query(), url.fragment()) == ("/", None, None)
            && (url.username(), url.password()) == ("", None)
    };
    url::Url::parse(text).is_ok_and(|url| plain(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = include_str!("../../../../config/keymill.toml");

    #[test]
    fn the_shown_config_equals_the_defaults() {
        let shown: Config = toml::from_str(SHOWN).unwrap();
        assert_eq!(shown, Config::default());
    }

    #[test]
    fn the_shown_config_shows_every_key() {
        let defaults = toml::Table::try_from(Config::default()).unwrap();
        for (section, value) in &defaults {
            let toml::Value::Table(keys) = value else {
                assert!(SHOWN.contains(&format!("\n{section} = ")), "{section}");
                continue;
            };
            for key in keys.keys() {
                let written = toml::from_str::<toml::Table>(SHOWN).unwrap();
                assert!(written[section].get(key).is_some(), "{section}.{key} is not shown");
            }
        }
        assert!(SHOWN.contains("# region = "), "what is unset by default is shown as a comment");
    }

    #[test]
    fn contradictions_name_both_values() {
        let mut config = Config::default();
        config.limits.count_max = 5;
        config.limits.stream_count_max = 4;
        let message = config.check().unwrap_err().to_string();
        assert!(message.contains('5') && message.contains("stream_count_max (4)"), "{message}");
    }

    #[test]
    fn a_ledger_that_forgets_is_refused() {
        let mut config = Config::default();
        config.ledger.url = StoreUrl::new("memory:");
        assert!(config.check().unwrap_err().to_string().contains("repeat keys"));
        config.ledger.url = StoreUrl::new("keymill.db");
        assert!(config.check().unwrap_err().to_string().contains("postgres"));
        config.ledger.url = StoreUrl::new("sqlite:/tmp/x.db");
        assert_eq!(config.ledger_url().unwrap(), LedgerUrl::Sqlite("/tmp/x.db".into()));
    }

    #[test]
    fn a_password_is_never_shown() {
        let mut config = Config::default();
        config.ledger.url = StoreUrl::new("postgres://app:s3cret@db/keys");
        config.check().unwrap();
        assert!(!format!("{config:?} {:?}", config.ledger_url().unwrap()).contains("s3cret"));
    }
}
