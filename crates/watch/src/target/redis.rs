//! A Redis list or set that somebody fills and others pop from.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use keymill_sql::masked;
use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection};
use tokio::sync::Mutex;

use super::{Target, look_at_pool, within};
use crate::{marks::Marks, sample::Look};

/// `redis://host:6379/0?key=links&type=list`, or `type=set`.
pub struct RedisPool {
    client: Client,
    key: String,
    /// The command that says how many there are.
    count: &'static str,
    marks: Marks,
    shown: String,
    /// One that failed is dropped; the next look makes another.
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl RedisPool {
    pub fn parse(url: &str, marks: Marks) -> Result<Self, String> {
        let shown = masked(url);
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut key, mut count) = (None, "LLEN");
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("key", name) if !name.is_empty() => {
                    key = Some(percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned());
                }
                ("type", "list") => count = "LLEN",
                ("type", "set") => count = "SCARD",
                (name, value) => {
                    return Err(format!("{shown}: `{name}={value}` is neither key=NAME nor type=list|set"));
                }
            }
        }
        let key = key.ok_or_else(|| format!("{shown} names no key; add ?key=NAME"))?;
        // The driver's own complaint could quote the URL, password and all.
        let client = Client::open(address)
            .map_err(|_| format!("{shown} cannot be read; use redis://HOST:PORT/DB?key=NAME"))?;
        Ok(Self { client, key, count, marks, shown, connection: Mutex::default() })
    }

    async fn level(&self, patience: Duration) -> Result<u64, redis::RedisError> {
        let mut kept = self.connection.lock().await;
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(patience))
                    .set_response_timeout(Some(patience));
                self.client.get_multiplexed_async_connection_with_config(&config).await?
            }
        };
        let level = redis::cmd(self.count).arg(&self.key).query_async(&mut connection).await?;
        *kept = Some(connection);
        Ok(level)
    }
}

impl fmt::Debug for RedisPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisPool({} {})", self.shown, self.key)
    }
}

#[async_trait]
impl Target for RedisPool {
    async fn look(&self, patience: Duration) -> Look {
        let level = within(patience, self.level(patience)).await;
        let level = level.map_err(|error| format!("Redis did not say: {error}"));
        look_at_pool(&self.shown, "redis", &self.key, self.marks, level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_url_is_named_and_no_password_is_shown() {
        for (url, complaint) in [
            ("redis://:s3cret@h/0", "names no key"),
            ("redis://:s3cret@h/0?key=a&type=hash", "type=hash"),
            ("redis://:s3cret@h/0?kye=a", "kye=a"),
            ("redis://:s3cret@/x y?key=a", "cannot be read"),
        ] {
            let error = RedisPool::parse(url, Marks::default()).unwrap_err();
            assert!(error.contains(complaint) && !error.contains("s3cret"), "{url}: {error}");
        }
        let pool = RedisPool::parse("redis://:s3cret@h/0?key=a%20b&type=set", Marks::default()).unwrap();
        assert_eq!((pool.key.as_str(), pool.count), ("a b", "SCARD"));
        assert!(!format!("{pool:?}").contains("s3cret"));
    }
}
