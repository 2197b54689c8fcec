//! What a pool's Redis is set up to forget, found out at every connection.

use keymill_issuer::rowed::PoolError;
use redis::{RedisError, aio::MultiplexedConnection};

/// Refuses a server that would throw rows away; of the others, says whether it writes its log before it answers.
pub(super) async fn check(connection: &mut MultiplexedConnection) -> Result<bool, PoolError> {
    let mut found = Vec::new();
    for name in ["maxmemory-policy", "appendonly", "appendfsync"] {
        match setting(connection, name).await {
            Ok(value) => found.push(value),
            Err(error) => {
                tracing::debug!(%error, "how Redis keeps a pool could not be checked: {error}");
                return Ok(false);
            }
        }
    }
    if found[0].starts_with("allkeys-") {
        return Err(PoolError::Refused(format!(
            "the pool's Redis is set to throw keys away when memory runs out (maxmemory-policy {}); set \
             maxmemory-policy noeviction, or a volatile one",
            found[0]
        )));
    }
    Ok(found[1] == "yes" && found[2] == "always")
}

async fn setting(connection: &mut MultiplexedConnection, name: &str) -> Result<String, RedisError> {
    let found: Vec<(String, String)> =
        redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await?;
    Ok(found.into_iter().next().map(|(_, value)| value).unwrap_or_default())
}
