//! A database and the connections to it, opened when they are needed.
//!
//! A pool of our own, because what matters here is what a driver's pool hides: why a connection could not
//! be had, and that one whose last answer was not read is never used again.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Semaphore;

use crate::{Access, Address, Dialect, SqlError, Transaction, Work, connection::Connection};

/// Connections of one process. More would only wait for each other's locks.
const CONNECTIONS_MAX: usize = 8;
/// How often work is run that others keep getting in the way of.
const ATTEMPTS_MAX: u32 = 20;
/// The pause before the second run; each later one is longer by as much.
const PAUSE: Duration = Duration::from_millis(1);

/// A handle; clones share their connections.
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) address: Address,
    idle: Mutex<Vec<Connection>>,
    room: Arc<Semaphore>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("address", &self.inner.address).finish_non_exhaustive()
    }
}

impl Database {
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

    /// Begins a transaction at READ COMMITTED. An error means that nothing has happened.
    pub async fn begin(&self, access: Access) -> Result<Transaction, SqlError> {
        let busy = || SqlError::Unavailable("all connections are in use".to_owned());
        let room = self.inner.room.clone().acquire_owned();
        let permit = tokio::time::timeout(self.inner.address.timeout, room).await;
        let permit = permit.map_err(|_| busy())?.map_err(|_| busy())?;
        let statement = match (access, self.dialect()) {
            (Access::Write, Dialect::Postgres) => "BEGIN",
            (Access::Read, Dialect::Postgres) => "BEGIN READ ONLY",
            (Access::Write, Dialect::MySql) => "START TRANSACTION",
            (Access::Read, Dialect::MySql) => "START TRANSACTION READ ONLY",
        };
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

    /// Runs `work` in one transaction, and again where another one got in its way. Only
    /// [`SqlError::Unknown`] can have taken effect.
    pub async fn run<W: Work>(&self, work: W) -> Result<W::Answer, SqlError> {
        let mut attempt = 1;
        loop {
            match self.attempt(&work).await {
                Err(SqlError::Aborted(_)) if attempt < ATTEMPTS_MAX => {}
                ended => return ended,
            }
            tokio::time::sleep(PAUSE * attempt).await;
            attempt += 1;
        }
    }

    async fn attempt<W: Work>(&self, work: &W) -> Result<W::Answer, SqlError> {
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

    fn forget(&self) {
        self.idle.lock().expect("nothing panics while it holds this").clear();
    }

    pub(crate) fn put_back(&self, connection: Connection) {
        if !connection.is_spoilt() {
            self.idle.lock().expect("nothing panics while it holds this").push(connection);
        }
    }
}
