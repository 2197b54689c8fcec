//! A pool in SQL tables: `available_keys` and `used_keys`, from which other programs take by documented SQL.
//!
//! Whoever takes a key moves its row from the one table to the other in one transaction, and the key leaves once
//! that is committed. So `used_keys` is the log of everything that left, and a crash in between burns keys that are in
//! the log. Beside the two lies a third table with one row, `key_pool`, which every push compares and changes
//! together with the rows.

use std::{
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use keymill_id::{Number, Rows, Slab};
use keymill_issuer::rowed::{Begun, Era, PoolError, Popped, Pushed, RowHome, RowPool, Standing};
use keymill_ledger::NodeName;
use keymill_sql::{Database, Dialect, SqlError, Work};
use tokio::sync::{Mutex as TurnLock, RwLock};

mod beginning;
mod level;
mod moving;
mod opening;
mod putting;
mod record;
mod returning;
mod tables;
mod taking;
mod tending;

use beginning::{Burn, Close, Closed, Open};
use level::Level;
use opening::{Opened, Opening};
use putting::{Import, Log, Push};
use record::{LookAt, Place};
use returning::GiveBack;
use tables::Tables;
use taking::{Reading, TakeAnswer};
use tending::{Lead, Resign, SWEEP_EVERY, Sweep};

pub use tending::RESERVATION_TIMEOUT;

/// Keys that one transaction imports.
const IMPORT_MAX: usize = 10_000;

/// Where the tables of all pools are, and who we are.
#[derive(Debug, Clone)]
pub struct TableHome {
    /// The registry's.
    pub database: Database,
    /// Whether tables may be made: `ledger.migrate`.
    pub migrate: bool,
    pub node: NodeName,
}

#[derive(Debug)]
pub struct TablePool {
    database: Database,
    node: NodeName,
    opening: Opening,
    /// What was found at the first look; looked for anew after a refusal.
    place: TurnLock<Option<Place>>,
    reading: Mutex<Reading>,
    /// Held by whoever looks for the witness, and alone by who takes it out of the log.
    witnessing: RwLock<()>,
    level: Level,
    swept: Mutex<Option<Instant>>,
}

impl TablePool {
    /// Nothing is connected to before the first call.
    pub fn open(home: &RowHome, at: &TableHome) -> Result<Self, PoolError> {
        let Rows::Table { prefix } = &home.rows else {
            return Err(PoolError::Refused(format!("keyspace `{}` is no pool in tables", home.keyspace)));
        };
        let opening = Opening {
            tables: Tables::new(at.database.dialect(), prefix),
            owner: format!("{} {}", home.ledger, home.keyspace),
            migrate: at.migrate,
        };
        Ok(Self {
            database: at.database.clone(),
            node: at.node.clone(),
            opening,
            place: TurnLock::default(),
            reading: Mutex::default(),
            witnessing: RwLock::default(),
            level: Level::default(),
            swept: Mutex::default(),
        })
    }

    async fn place(&self) -> Result<Place, PoolError> {
        let mut known = self.place.lock().await;
        if let Some(place) = &*known {
            return Ok(place.clone());
        }
        let opened = self.opening.open(&self.database).await.map_err(|error| self.sorted(error))?;
        let place = self.ours(opened)?;
        *known = Some(place.clone());
        Ok(place)
    }

    fn ours(&self, opened: Opened) -> Result<Place, PoolError> {
        let Tables { available, pool, .. } = &self.opening.tables;
        Err(PoolError::Refused(match opened {
            Opened::Ours(place) => return Ok(place),
            Opened::Foreign(owner) => return Err(self.foreign(&owner)),
            Opened::Strange(table) => format!(
                "the registry's database has a table `{table}` that is not this pool's; create a keyspace with another \
                 `table_prefix`, and bring in what is in it with `keymill import keys`"
            ),
            Opened::Missing => format!(
                "the registry's database has no `{available}`, and may not be changed; turn `ledger.migrate` on until \
                 the pool is filled"
            ),
            Opened::Newer(version) => {
                format!("`{pool}` was made by a newer Keymill (version {version}); use that version")
            }
        }))
    }

    fn foreign(&self, owner: &str) -> PoolError {
        let (ledger, keyspace) = owner.split_once(' ').unwrap_or((owner, "?"));
        PoolError::Refused(format!(
            "the table `{}` of the registry's database belongs to keyspace `{keyspace}` of ledger {ledger}; create this \
             keyspace with another `table_prefix`",
            self.opening.tables.available
        ))
    }

    async fn run<W: Work>(&self, work: W) -> Result<W::Answer, PoolError> {
        match self.database.run(work).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                if matches!(error, SqlError::Refused(_)) {
                    // The tables may be gone.
                    *self.place.lock().await = None;
                }
                Err(self.sorted(error))
            }
        }
    }

    fn sorted(&self, error: SqlError) -> PoolError {
        let engine = self.database.dialect().name();
        let said = format!("{engine}, where the pool's tables are: {error}");
        match error {
            SqlError::Refused(_) | SqlError::Unexpected(_) => PoolError::Refused(said),
            SqlError::Aborted(_) | SqlError::Unavailable(_) | SqlError::Unknown(_) | SqlError::Broken(_) => {
                PoolError::Unavailable(said)
            }
        }
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().expect("nothing panics while it holds this")
    }

    /// Closes the pool for everyone, also for nodes whose own keys are all still in the log.
    async fn give_up(&self, place: &Place, era: Era) -> Result<(), PoolError> {
        self.run(Close { place: place.clone(), after: Some(era) }).await.map(drop)
    }

    /// Burns every row of a closed pool. `None`: it was opened meanwhile.
    async fn burn(&self, place: &Place) -> Result<Option<u64>, PoolError> {
        let mut burned = 0;
        loop {
            match self.run(Burn { place: place.clone() }).await? {
                None => return Ok(None),
                Some(0) => return Ok(Some(burned)),
                Some(rows) => burned += rows,
            }
        }
    }

    /// Ends reservations that other programs hold for too long, now and then.
    async fn sweep(&self, tables: Tables) -> Result<(), PoolError> {
        {
            let mut swept = self.swept.lock().expect("nothing panics while it holds this");
            if swept.is_some_and(|at| at.elapsed() < SWEEP_EVERY) {
                return Ok(());
            }
            *swept = Some(Instant::now());
        }
        let released = self.run(Sweep { tables, timeout: RESERVATION_TIMEOUT }).await?;
        if released > 0 {
            self.level.added(released);
            let available = &self.opening.tables.available;
            tracing::info!(
                released_reservations = released,
                "{released} reservations of `{available}` were not used in time and went back"
            );
        }
        Ok(())
    }
}

#[async_trait]
impl RowPool for TablePool {
    async fn pop(&self, count: u32) -> Result<Popped, PoolError> {
        let place = self.place().await?;
        let _witnessing = self.witnessing.read().await;
        let take = self.reading().next(place.clone(), count, self.node.as_str());
        let begun = Instant::now();
        let taken = match self.run(take).await? {
            TakeAnswer::Taken(taken) => taken,
            TakeAnswer::Foreign(owner) => return Err(self.foreign(&owner)),
            TakeAnswer::NotBegun => {
                return Err(PoolError::Doubtful(
                    "the filler has not begun the pool, or begins it anew".to_owned(),
                ));
            }
            TakeAnswer::Doubt { era, why } => {
                self.give_up(&place, era).await?;
                return Err(PoolError::Doubtful(why));
            }
        };
        self.reading().learn(&taken, begun.elapsed());
        if taken.rows < u64::from(count) {
            self.level.ran_out();
        } else {
            self.level.taken(taken.rows);
        }
        Ok(Popped { keys: taken.keys, left: self.level.known() })
    }

    async fn give_back(&self, keys: Vec<Vec<u8>>) -> Result<u64, PoolError> {
        let place = self.place().await?;
        let _alone = self.witnessing.write().await;
        // It may be among them, and then the log loses it by our own hand.
        let Some(witness) = self.reading().witness.take() else { return Ok(0) };
        let keys = keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect();
        let given = self.run(GiveBack { place, witness, keys, node: self.node.to_string() }).await?;
        self.level.added(given);
        Ok(given)
    }

    async fn standing(&self) -> Result<Standing, PoolError> {
        let place = self.place().await?;
        let witnessing = self.witnessing.read().await;
        let witness = self.reading().witness.clone();
        let (mut record, doubt) = self.run(LookAt { place: place.clone(), witness }).await?;
        if record.owner != place.owner {
            return Err(self.foreign(&record.owner));
        }
        if let (Some(era), Some(_)) = (record.era, &doubt) {
            self.give_up(&place, era).await?;
            record.era = None;
        }
        drop(witnessing);
        let level = self
            .level
            .look(&self.database, &place.tables, record.next)
            .await
            .map_err(|error| self.sorted(error))?;
        Ok(Standing { era: record.era, next: record.next, level, doubt })
    }

    async fn begin(&self, after: Option<Era>, era: Era, next: Number) -> Result<Begun, PoolError> {
        let place = self.place().await?;
        let has_rows = match self.run(Close { place: place.clone(), after }).await? {
            Closed::Yes { has_rows } => has_rows,
            Closed::Overtaken => return Ok(Begun::Overtaken),
            Closed::Foreign(owner) => return Err(self.foreign(&owner)),
        };
        let burned = if has_rows { self.burn(&place).await? } else { Some(0) };
        let Some(burned) = burned else { return Ok(Begun::Overtaken) };
        if burned > 0 {
            let used = &place.tables.used;
            tracing::warn!(
                burned_rows = burned,
                "{burned} rows were burned; `{used}` has them, used by `(burned)`"
            );
        }
        let is_open = self.run(Open { place, era, next }).await?;
        self.level.forget();
        Ok(if is_open { Begun::Anew { burned } } else { Begun::Overtaken })
    }

    /// Nobody waits for a push but the next one, except in a file, where everyone does.
    fn push_max(&self) -> u64 {
        match self.database.dialect() {
            Dialect::Postgres | Dialect::MySql => 1 << 16,
            Dialect::Sqlite => 1 << 12,
        }
    }

    async fn push(&self, era: Era, slab: &Slab) -> Result<Pushed, PoolError> {
        let place = self.place().await?;
        let _turn = self.level.adding().await;
        let push = Push::new(place, era, slab);
        let added = match self.database.run(push.clone()).await {
            Err(SqlError::Refused(refused)) => {
                tracing::debug!(refused, "a push is repeated, and looks first: {refused}");
                self.run(push.cautious()).await?
            }
            pushed => pushed.map_err(|error| self.sorted(error))?,
        };
        let Some(added) = added else { return Ok(Pushed::Overtaken) };
        self.level.pushed(added, slab.block().end());
        Ok(Pushed::Done { level: self.level.known() })
    }

    async fn import(&self, era: Era, keys: &[&str]) -> Result<Option<Vec<bool>>, PoolError> {
        let place = self.place().await?;
        let _turn = self.level.adding().await;
        let mut added = Vec::with_capacity(keys.len());
        for keys in keys.chunks(IMPORT_MAX) {
            let keys = keys.iter().map(|key| (*key).to_owned()).collect();
            let Some(outcome) = self.run(Import { place: place.clone(), era, keys }).await? else {
                return Ok(None);
            };
            self.level.added(outcome.iter().filter(|added| **added).count() as u64);
            added.extend(outcome);
        }
        Ok(Some(added))
    }

    async fn log(&self, keys: Vec<String>) -> Result<Vec<String>, PoolError> {
        let place = self.place().await?;
        self.run(Log { place, keys, node: self.node.to_string() }).await
    }

    /// A file has one process, which leads.
    async fn lead(&self, node: &NodeName, term: Duration) -> Result<bool, PoolError> {
        let tables = self.place().await?.tables;
        let node = node.to_string();
        let leads = tables.dialect == Dialect::Sqlite
            || self.run(Lead { tables: tables.clone(), node, term }).await?;
        if leads {
            self.sweep(tables).await?;
        }
        Ok(leads)
    }

    async fn resign(&self, node: &NodeName) -> Result<(), PoolError> {
        let tables = self.place().await?.tables;
        self.run(Resign { tables, node: node.to_string() }).await
    }
}
