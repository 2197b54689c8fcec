//! What is looked at. A file per kind, all of one shape; the server brings one more, itself.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::{
    marks::Marks,
    sample::{Ground, GroundState, Look, Reading, Sample, Seen, Supply},
};

mod redis;
mod server;
mod sql;

pub use redis::RedisPool;
pub use server::Keymill;
pub use sql::SqlPool;

/// 1. A look changes nothing.
/// 2. It never fails: what could not be measured is said to be unmeasured, and why.
/// 3. It ends within `patience`, and may be dropped at any time.
#[async_trait]
pub trait Target: fmt::Debug + Send + Sync + 'static {
    async fn look(&self, patience: Duration) -> Look;
}

/// What `measuring` found, or that it took too long.
pub(crate) async fn within<T, E: fmt::Display>(
    patience: Duration,
    measuring: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(patience, measuring).await {
        Ok(measured) => measured.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {patience:?}")),
    }
}

/// A look at a pool of which nothing but its level is known.
fn look_at_pool(
    scope: &str,
    ground: &'static str,
    keyspace: &str,
    marks: Marks,
    level: Result<u64, String>,
) -> Look {
    let reading = match level {
        Ok(level) => {
            Reading::Measured(Sample { level, supply: Supply::Pool, rate: None, issued: None, stock: None })
        }
        Err(why) => Reading::Unmeasured { why },
    };
    Look {
        scope: scope.to_owned(),
        ground: Ground { name: ground, state: GroundState::Fine },
        seen: vec![Seen { keyspace: keyspace.to_owned(), marks, reading }],
    }
}
