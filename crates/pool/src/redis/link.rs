//! A connection to the pool's Redis, made when it is needed, and what its failures mean.

use std::{fmt, time::Duration};

use keymill_id::Slab;
use keymill_issuer::rowed::PoolError;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, ScriptInvocation,
    ServerErrorKind, aio::MultiplexedConnection,
};
use tokio::sync::{Mutex, MutexGuard};

use super::durability;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// A push of thousands of keys may wait behind another program's slow command.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A connection that failed is dropped; the next call makes another.
pub(super) struct Link {
    client: Client,
    kept: Mutex<Option<Connected>>,
}

#[derive(Clone)]
struct Connected {
    connection: MultiplexedConnection,
    /// It writes its log before it answers.
    keeps_all: bool,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("at", &self.client.get_connection_info().addr()).finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(url: &str) -> Result<Self, PoolError> {
        // The error does not repeat the URL: it may hold a password.
        let client = Client::open(url)
            .map_err(|error| PoolError::Refused(format!("the tuning `redis_url` is wrong: {error}")))?;
        Ok(Self { client, kept: Mutex::default() })
    }

    /// Runs a script. It is not sent again: an outcome that nobody knows stays unknown.
    pub(super) async fn run<T: FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> Result<T, PoolError> {
        let mut kept = self.kept.lock().await;
        let mut connection = self.connected(&mut kept).await?.connection;
        drop(kept);
        match call.invoke_async(&mut connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failed(&mut *self.kept.lock().await, &error)),
        }
    }

    pub(super) async fn keeps_all(&self) -> Result<bool, PoolError> {
        Ok(self.connected(&mut *self.kept.lock().await).await?.keeps_all)
    }

    /// The connection, with nobody else on it until this is dropped.
    pub(super) async fn alone(&self) -> Result<Alone<'_>, PoolError> {
        let mut kept = self.kept.lock().await;
        let connection = self.connected(&mut kept).await?.connection;
        Ok(Alone { link: self, kept, connection })
    }

    async fn connected(&self, kept: &mut Option<Connected>) -> Result<Connected, PoolError> {
        if let Some(connected) = kept {
            return Ok(connected.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let connected = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connected.map_err(|error| self.sorted(&error))?;
        let keeps_all = durability::check(&mut connection).await?;
        let connected = Connected { connection, keeps_all };
        *kept = Some(connected.clone());
        Ok(connected)
    }

    /// Sorts the complaint; a connection that may be broken is not used again.
    fn failed(&self, kept: &mut Option<Connected>, error: &RedisError) -> PoolError {
        if error.is_io_error() || error.is_unrecoverable_error() {
            *kept = None;
        }
        self.sorted(error)
    }

    fn sorted(&self, error: &RedisError) -> PoolError {
        let at = self.client.get_connection_info().addr();
        match error.kind() {
            ErrorKind::AuthenticationFailed => PoolError::Refused(format!(
                "Redis at {at} does not know us: {error}; check user and password in `redis_url`"
            )),
            _ if error.code() == Some("NOAUTH") => PoolError::Refused(format!(
                "Redis at {at} wants a password: `redis_url` is redis://USER:PASSWORD@…"
            )),
            ErrorKind::Server(ServerErrorKind::NoPerm) => PoolError::Refused(format!(
                "Redis at {at} lets us do too little: {error}; the user needs INFO, EVAL, EVALSHA, SCRIPT, WATCH, \
                 MULTI and the list, set, hash and string commands on the pool's keys"
            )),
            ErrorKind::InvalidClientConfig => {
                PoolError::Refused(format!("the tuning `redis_url` is wrong: {error}"))
            }
            _ => PoolError::Unavailable(format!("Redis at {at}: {error}")),
        }
    }
}

/// A connection that is ours alone: what it watches, nobody else's commands end.
pub(super) struct Alone<'l> {
    link: &'l Link,
    kept: MutexGuard<'l, Option<Connected>>,
    connection: MultiplexedConnection,
}

impl Alone<'_> {
    pub(super) async fn query<T: FromRedisValue>(&mut self, commands: &Pipeline) -> Result<T, PoolError> {
        match commands.query_async(&mut self.connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.link.failed(&mut self.kept, &error)),
        }
    }
}

/// `COMMAND key …keys`, in one allocation.
pub(super) fn with_keys(command: &str, pool: &str, slab: &Slab) -> Cmd {
    let count = slab.len() as usize;
    let mut cmd = Cmd::with_capacity(count + 2, command.len() + pool.len() + count * slab.stride());
    cmd.arg(command).arg(pool);
    for index in 0..slab.len() {
        cmd.arg(slab.key(index));
    }
    cmd
}

/// What a server calls itself, in `INFO replication`.
pub(super) fn replication_id(info: &str) -> Option<String> {
    info.lines().find_map(|line| line.strip_prefix("master_replid:")).map(|id| id.trim().to_owned())
}
