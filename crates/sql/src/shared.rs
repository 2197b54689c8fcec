//! A database that many processes share, over the wire, and the connections to it, opened when they are needed.
//!
//! A pool of our own, because what matters here is what a driver's pool hides: why a connection could not
//! be had, and that one whose last answer was not read is never used again.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Access, Address, Dialect, SqlError, Transaction, Work, connection::Connection, notices};

/// Connections of one process. More would only wait for each other's locks.
const CONNECTIONS_MAX: usize = 8;

/// A handle; clones share their connections.
#[derive(Clone)]
pub struct Shared {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) address: Address,
    idle: Mutex<Vec<Connection>>,
    room: Arc<Semaphore>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("address", &self.inner.address).finish_non_exhaustive()
    }
}

impl Shared {
    /// Connects nowhere yet.
    pub fn new(address: Address) -> Self {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Self { inner: Arc::new(Inner { address, idle: Mutex::default(), room }) }
    }

    pub fn dialect(&self) -> Dialect {
        self.inner.address.dialect()
    }

    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    /// Runs work that only reads without a transaction.
    async fn glance<W: Work>(&self, work: &W) -> Result<W::Answer, SqlError> {
        let permit = self.room().await?;
        if let Some(connection) = self.inner.take() {
            let mut bare = Transaction::bare(self.inner.clone(), connection, permit, W::ACCESS);
            match work.run(&mut bare).await {
                // The engine was restarted since. Nothing was written, so it can be asked again.
                Err(SqlError::Unavailable(_)) => self.inner.forget(),
                answer => {
                    bare.leave();
                    return answer;
                }
            }
            drop(bare);
            let permit = self.room().await?;
            return self.glance_anew(work, permit).await;
        }
        self.glance_anew(work, permit).await
    }

    async fn glance_anew<W: Work>(
        &self,
        work: &W,
        permit: OwnedSemaphorePermit,
    ) -> Result<W::Answer, SqlError> {
        let connection = Connection::open(&self.inner.address).await?;
        let mut bare = Transaction::bare(self.inner.clone(), connection, permit, W::ACCESS);
        let answer = work.run(&mut bare).await;
        bare.leave();
        answer
    }

    /// Runs work that writes by one statement without a transaction, on a connection that is surely there: of a
    /// statement that was not answered nobody knows whether it was committed. `None`: there is no such connection.
    async fn stroke<W: Work>(&self, work: &W) -> Result<Option<W::Answer>, SqlError> {
        let permit = self.room().await?;
        let Some(connection) = self.inner.take_fresh() else { return Ok(None) };
        let mut bare = Transaction::bare(self.inner.clone(), connection, permit, W::ACCESS);
        let (answer, warning) = notices::heard(work.run(&mut bare)).await;
        bare.leave();
        match warning {
            Some(warning) if answer.is_ok() => Err(SqlError::Unknown(warning)),
            _ => answer.map(Some),
        }
    }

    /// A place among the connections.
    async fn room(&self) -> Result<OwnedSemaphorePermit, SqlError> {
        let busy = || SqlError::Unavailable("all connections are in use".to_owned());
        let room = self.inner.room.clone().acquire_owned();
        let permit = tokio::time::timeout(self.inner.address.timeout, room).await;
        permit.map_err(|_| busy())?.map_err(|_| busy())
    }

    /// Begins a transaction at READ COMMITTED. An error means that nothing has happened.
    pub async fn begin(&self, access: Access) -> Result<Transaction, SqlError> {
        let permit = self.room().await?;
        let statement = self.dialect().begin(access);
        if let Some(mut connection) = self.inner.take() {
            match connection.command(statement).await {
                Ok(()) => return Ok(Transaction::new(self.inner.clone(), connection, permit)),
                // The engine was restarted since, and all the others are as dead as this one.
                Err(_) => self.inner.forget(),
            }
        }
        let mut connection = Connection::open(&self.inner.address).await?;
        connection.command(statement).await?;
        Ok(Transaction::new(self.inner.clone(), connection, permit))
    }

    /// Runs `work` once, in a transaction of its own.
    pub(crate) async fn attempt<W: Work>(&self, work: &W) -> Result<W::Answer, SqlError> {
        match W::ACCESS {
            Access::Read if W::IS_GLANCE => return self.glance(work).await,
            // MySQL takes more than one statement to say which of several rows are new.
            Access::Write if W::IS_GLANCE && self.dialect() == Dialect::Postgres => {
                if let Some(answer) = self.stroke(work).await? {
                    return Ok(answer);
                }
            }
            _ => {}
        }
        let mut transaction = self.begin(W::ACCESS).await?;
        let answer = match work.run(&mut transaction).await {
            Ok(answer) => answer,
            Err(error) => {
                transaction.rollback().await;
                return Err(error);
            }
        };
        match W::ACCESS {
            Access::Read => transaction.rollback().await,
            Access::Write => transaction.commit().await?,
        }
        Ok(answer)
    }
}

impl Inner {
    fn take(&self) -> Option<Connection> {
        self.idle.lock().expect("nothing panics while it holds this").pop()
    }

    fn take_fresh(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().expect("nothing panics while it holds this");
        // The last to be put back is the freshest.
        if idle.last().is_some_and(Connection::is_fresh) { idle.pop() } else { None }
    }

    fn forget(&self) {
        self.idle.lock().expect("nothing panics while it holds this").clear();
    }

    pub(crate) fn put_back(&self, connection: Connection) {
        if !connection.is_spoilt() {
            self.idle.lock().expect("nothing panics while it holds this").push(connection);
        }
    }
}
