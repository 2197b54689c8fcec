//! Requests that leave: sinks, heartbeats and targets say what to send; whoever runs the watcher brings what sends
//! it, and with it the question whom to trust.

use std::{fmt, time::Duration};

use async_trait::async_trait;

/// How long whoever is told something has to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a request and reads the whole answer. It has no timeout of its own.
#[async_trait]
pub trait Web: fmt::Debug + Send + Sync + 'static {
    /// An error is for people, and shows no more of the URL than its origin.
    async fn send(&self, request: Request) -> Result<Answer, String>;
}

#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    pub url: Address,
    /// A token to show.
    pub bearer: Option<String>,
    /// JSON.
    pub body: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Without what may be secret.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({:?} {})", self.method, self.url)
    }
}

/// An `http://` or `https://` address. Whoever knows that of a sink can call people, so only its origin is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    origin: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not http(s)://HOST[:PORT][/PATH]")]
pub struct NotAnAddress;

impl Address {
    pub fn parse(text: &str) -> Result<Self, NotAnAddress> {
        let url = url::Url::parse(text).map_err(|_| NotAnAddress)?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(NotAnAddress);
        }
        Ok(Self { text: url.to_string(), origin: url.origin().ascii_serialization() })
    }

    /// The whole of it, for whoever sends.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    pub fn is_secure(&self) -> bool {
        self.text.starts_with("https:")
    }

    /// The same with `path` below it.
    pub(crate) fn below(&self, path: &str) -> Self {
        let (place, _) = self.text.split_once('?').unwrap_or((&self.text, ""));
        Self { text: format!("{}{path}", place.trim_end_matches('/')), origin: self.origin.clone() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_web_and_shows_its_origin_only() {
        let address = Address::parse("https://hooks.slack.com/services/s3cret?token=s3cret").unwrap();
        assert!(!format!("{address} {address:?}").contains("s3cret"));
        assert_eq!(address.to_string(), "https://hooks.slack.com");
        for wrong in ["", "hooks.slack.com", "ftp://x", "http://", "file:///etc/passwd"] {
            assert_eq!(Address::parse(wrong), Err(NotAnAddress), "{wrong}");
        }
    }

    #[test]
    fn paths_are_put_below() {
        let below = |text: &str| Address::parse(text).unwrap().below("/api").reveal().to_owned();
        assert_eq!(below("http://a:1"), "http://a:1/api");
        assert_eq!(below("http://a:1/alerts/?x=1"), "http://a:1/alerts/api");
    }
}
