//! A database, whatever the engine: work goes in, an answer comes out.

use std::{sync::Arc, time::Duration};

use crate::{Address, Dialect, Shared, SqlError, Sqlite, Work, address::TABLE_PREFIX};

/// How often work is run that others keep getting in the way of.
const ATTEMPTS_MAX: u32 = 20;
/// The pause before the second run; each later one is longer by as much.
const PAUSE: Duration = Duration::from_millis(1);

/// A handle; clones share what is behind it.
#[derive(Debug, Clone)]
pub struct Database {
    engine: Engine,
}

#[derive(Debug, Clone)]
enum Engine {
    Shared(Shared),
    Embedded(Sqlite),
}

impl Database {
    /// PostgreSQL, MySQL or MariaDB. Connects nowhere yet.
    pub fn new(address: Address) -> Self {
        Shared::new(address).into()
    }

    /// A file in this process, through the one thread that writes it.
    pub fn embedded(sqlite: Sqlite) -> Self {
        Self { engine: Engine::Embedded(sqlite) }
    }

    pub fn dialect(&self) -> Dialect {
        match &self.engine {
            Engine::Shared(shared) => shared.dialect(),
            Engine::Embedded(_) => Dialect::Sqlite,
        }
    }

    /// What the names of our tables begin with: `?table_prefix=` of the URL, or `keymill`.
    pub fn table_prefix(&self) -> &str {
        match &self.engine {
            Engine::Shared(shared) => shared.address().table_prefix(),
            Engine::Embedded(_) => TABLE_PREFIX,
        }
    }

    /// How long an engine over the wire may take to answer. `None`: it is in this process.
    pub fn timeout(&self) -> Option<Duration> {
        match &self.engine {
            Engine::Shared(shared) => Some(shared.address().timeout),
            Engine::Embedded(_) => None,
        }
    }

    /// Runs `work` in one transaction, and again where another one got in its way. Only
    /// [`SqlError::Unknown`] and [`SqlError::Broken`] can have taken effect.
    pub async fn run<W: Work>(&self, work: W) -> Result<W::Answer, SqlError> {
        let work = Arc::new(work);
        let mut attempt = 1;
        loop {
            let ended = match &self.engine {
                Engine::Shared(shared) => shared.attempt(&*work).await,
                Engine::Embedded(sqlite) => sqlite.attempt(&work).await,
            };
            match ended {
                Err(SqlError::Aborted(_)) if attempt < ATTEMPTS_MAX => {}
                ended => return ended,
            }
            tokio::time::sleep(PAUSE * attempt).await;
            attempt += 1;
        }
    }
}

impl From<Shared> for Database {
    fn from(shared: Shared) -> Self {
        Self { engine: Engine::Shared(shared) }
    }
}
