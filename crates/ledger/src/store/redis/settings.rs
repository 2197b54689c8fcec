//! What a Redis is set up to forget, found out at every connection and said aloud.

use redis::{RedisError, aio::MultiplexedConnection};

use super::refused;
use crate::LedgerError;

/// Refuses a server that would throw rows away, and says what the others keep.
pub(super) async fn check(connection: &mut MultiplexedConnection) -> Result<(), LedgerError> {
    let mut found = Vec::new();
    for name in ["maxmemory-policy", "min-replicas-to-write", "appendonly", "appendfsync", "save"] {
        match setting(connection, name).await {
            Ok(value) => found.push(value),
            Err(error) => {
                tracing::warn!(%error, "how Redis keeps what it acknowledged could not be checked: {error}");
                return Ok(());
            }
        }
    }
    let [policy, replicas_to_write, log, sync, save] = found.try_into().expect("five were asked for");
    if policy != "noeviction" {
        return Err(refused(format!(
            "Redis is set to throw keys away when memory runs out (maxmemory-policy {policy}), and with them \
             cursors; set maxmemory-policy noeviction"
        )));
    }
    if replicas_to_write == "0" && has_replicas(connection).await {
        tracing::warn!(
            "Redis goes on writing when it is cut off from its replicas (min-replicas-to-write 0), and would \
             grant numbers that its successor grants again; set min-replicas-to-write 1"
        );
    }
    match (log.as_str(), sync.as_str()) {
        ("yes", "always") => tracing::info!(
            "Redis writes its log before it answers (appendonly yes, appendfsync always): what it acknowledged \
             survives a crash, but not a failover"
        ),
        ("yes", sync) => tracing::warn!(
            "Redis may forget the last seconds in a crash (appendonly yes, appendfsync {sync}); \
             set appendfsync always"
        ),
        _ if save.is_empty() => tracing::warn!(
            "Redis keeps nothing on its disk (appendonly no, save \"\"): a restart is an empty ledger; \
             set appendonly yes and appendfsync always"
        ),
        _ => tracing::warn!(
            "Redis may forget minutes in a crash (appendonly no, save {save}); \
             set appendonly yes and appendfsync always"
        ),
    }
    Ok(())
}

async fn has_replicas(connection: &mut MultiplexedConnection) -> bool {
    let info: Result<String, RedisError> =
        redis::cmd("INFO").arg("replication").query_async(connection).await;
    info.is_ok_and(|info| info.contains("connected_slaves:") && !info.contains("connected_slaves:0"))
}

async fn setting(connection: &mut MultiplexedConnection, name: &str) -> Result<String, RedisError> {
    let found: Vec<(String, String)> =
        redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await?;
    Ok(found.into_iter().next().map(|(_, value)| value).unwrap_or_default())
}
