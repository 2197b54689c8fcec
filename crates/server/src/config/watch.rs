//! Who is told when a level is low, and how often levels are looked at.

use keymill_issuer::quantity::Span;
use keymill_watch::{Address, Sink, SinkSettings};
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};

/// More often than this nobody needs to look.
const INTERVAL_MIN: Span = Span(100);
const INTERVAL_MAX: Span = Span(3_600_000);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchConfig {
    pub interval: Span,
    pub heartbeat_url: HeartbeatUrl,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<SinkSettings>,
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self { interval: Span(5_000), heartbeat_url: HeartbeatUrl::default(), sinks: Vec::new() }
    }
}

/// Whoever knows it can pretend that all is well, so it is not shown.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HeartbeatUrl(pub String);

impl std::fmt::Debug for HeartbeatUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "HeartbeatUrl()" } else { "HeartbeatUrl(***)" })
    }
}

impl WatchConfig {
    pub fn heartbeat_url(&self) -> Result<Option<Address>, ConfigError> {
        let HeartbeatUrl(text) = &self.heartbeat_url;
        if text.is_empty() {
            return Ok(None);
        }
        Address::parse(text).map(Some).map_err(|error| ConfigError::Contradiction {
            setting: "watch.heartbeat_url".to_owned(),
            problem: error.to_string(),
        })
    }

    pub fn sinks(&self) -> Result<Vec<Box<dyn Sink>>, ConfigError> {
        let open = |(index, settings): (usize, &SinkSettings)| {
            settings.open().map_err(|error| ConfigError::Contradiction {
                setting: format!("watch.sinks[{index}]:"),
                problem: error.to_string(),
            })
        };
        self.sinks.iter().enumerate().map(open).collect()
    }

    /// Whether anyone is spoken to by https.
    pub fn is_secure(&self) -> bool {
        self.heartbeat_url.0.starts_with("https:") || self.sinks.iter().any(SinkSettings::is_secure)
    }
}

impl Config {
    pub(super) fn check_watch(&self) -> Result<(), ConfigError> {
        let WatchConfig { interval, .. } = self.watch;
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
            let problem = format!("is {interval}, and must be from {INTERVAL_MIN} to {INTERVAL_MAX}");
            return Err(ConfigError::Contradiction { setting: "watch.interval".to_owned(), problem });
        }
        self.watch.heartbeat_url()?;
        self.watch.sinks()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(watch: &str) -> Result<(), String> {
        let watch = toml::from_str(watch).map_err(|error| error.message().to_owned())?;
        Config { watch, ..Config::default() }.check().map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_wrong_is_named_before_anything_is_watched() {
        let fine = "interval = \"5s\"\nheartbeat_url = \"\"\n";
        for (text, complaint) in [
            ("interval = \"1ms\"\nheartbeat_url = \"\"".to_owned(), "watch.interval is 1ms"),
            (
                "interval = \"5s\"\nheartbeat_url = \"hc-ping.com/x\"".to_owned(),
                "watch.heartbeat_url is not http",
            ),
            (format!("{fine}[[sinks]]\ntype = \"pager\"\nurl = \"http://x\""), "pager"),
            (format!("{fine}[[sinks]]\ntype = \"webhook\"\nurl = \"x\""), "watch.sinks[0]: url is not"),
            (
                format!(
                    "{fine}[[sinks]]\ntype = \"webhook\"\nurl = \"http://x\"\ntemplate = '{{\"a\": {{{{summary}}}}}}'"
                ),
                "not JSON once it is filled in",
            ),
            (
                format!("{fine}[[sinks]]\ntype = \"alertmanager\"\nurl = \"http://x\"\ntemplate = \"{{}}\""),
                "has its own format",
            ),
        ] {
            let error = check(&text).unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
        check(&format!("{fine}[[sinks]]\ntype = \"webhook\"\nurl = \"https://hooks.example/s3cret\""))
            .unwrap();
    }

    #[test]
    fn a_sink_s_address_is_a_secret() {
        let sinks = "[[sinks]]\ntype = \"webhook\"\nurl = \"https://hooks.example/s3cret\"";
        let watch: WatchConfig = toml::from_str(&format!(
            "interval = \"5s\"\nheartbeat_url = \"https://hc.example/s3cret\"\n{sinks}"
        ))
        .unwrap();
        assert!(!format!("{watch:?} {:?}", watch.sinks().unwrap()).contains("s3cret"));
    }
}
