//! What a store of rows promises to the nodes that pop from it and to the filler that tops it up.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use keymill_id::{KeyspaceName, Number, Rows, Slab};
use keymill_ledger::{LedgerId, NodeName};

use crate::served::Settings;

/// The unused keys of one pool, as rows that other programs take too.
///
/// 1. A key that was popped is popped by nobody else, and never comes back, unless who popped it gives it back.
/// 2. A call that fails or is dropped may have taken effect: what it popped is burned.
/// 3. A push moves `next` from the start of its block to its end, together with the rows or not at all. So it
///    takes effect once, however often and however late it is sent, and whoever sends it.
/// 4. Nothing is pushed in an era that is over.
/// 5. A store that may have forgotten what it acknowledged says so ([`Standing::doubt`]), and neither pops nor
///    pushes until an era is begun.
#[async_trait]
pub trait RowPool: fmt::Debug + Send + Sync + 'static {
    /// Takes up to `count` keys out, for ever. Fewer: there are no more for now.
    async fn pop(&self, count: u32) -> Result<Popped, PoolError>;

    /// Puts keys back that this process popped and that never left it, once and as the last thing it does here. Says
    /// how many are rows again; the others are burned, as all of them are where it fails or takes too long. A store
    /// that cannot tell what it forgot takes none.
    async fn give_back(&self, _keys: Vec<Vec<u8>>) -> Result<u64, PoolError> {
        Ok(0)
    }

    async fn standing(&self) -> Result<Standing, PoolError>;

    /// Begins an era if `after` is still the last one: rows of earlier eras are out of reach from here on.
    async fn begin(&self, after: Option<Era>, era: Era, next: Number) -> Result<Begun, PoolError>;

    /// Adds the keys of a block that starts at `next`.
    async fn push(&self, era: Era, slab: &Slab) -> Result<Pushed, PoolError>;

    /// Numbers of one push: enough to be cheap, and over quickly in a store that serves others meanwhile.
    fn push_max(&self) -> u64 {
        1 << 14
    }

    /// Adds keys that were made elsewhere, each once in the life of the pool. Says which ones were new.
    async fn import(&self, era: Era, keys: &[&str]) -> Result<Option<Vec<bool>>, PoolError>;

    /// Writes down keys that leave without ever having been rows, where the store keeps a log. Gives back those that
    /// may leave.
    async fn log(&self, keys: Vec<String>) -> Result<Vec<String>, PoolError> {
        Ok(keys)
    }

    /// Whether `node` is the one that fills for the next `term`. Two that both think so do no harm: this saves
    /// work, promise 3 keeps order.
    async fn lead(&self, node: &NodeName, term: Duration) -> Result<bool, PoolError>;

    /// Lets another node fill at once.
    async fn resign(&self, node: &NodeName) -> Result<(), PoolError>;
}

/// Opens the pools of keyspaces. Nothing is connected to before the first call.
pub trait RowPools: fmt::Debug + Send + Sync + 'static {
    fn open(&self, home: &RowHome, settings: &Settings) -> Result<Arc<dyn RowPool>, PoolError>;
}

/// Whose rows they are, and where its definition puts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowHome {
    pub ledger: LedgerId,
    pub keyspace: KeyspaceName,
    pub rows: Rows,
}

/// How often rows were begun anew, by the ledger's count. What was pushed in another era is burned: the store
/// was flushed, replaced or may have forgotten pops, or the ledger itself was advanced after a rewind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Era {
    /// How often the ledger was advanced.
    pub advances: u64,
    /// From 1; the ledger's count of eras, so that of two stores only one can be the current one.
    pub term: u64,
}

/// What a store says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// `None`: no era was ever begun here, or the store has forgotten it.
    pub era: Option<Era>,
    /// Every number below was pushed in this era, or belongs to an earlier one.
    pub next: Number,
    /// Rows left.
    pub level: u64,
    /// Why it may have forgotten what it acknowledged.
    pub doubt: Option<String>,
}

#[derive(Debug, Default)]
pub struct Popped {
    pub keys: Vec<Vec<u8>>,
    /// Rows left.
    pub left: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// `burned` rows were there, and are out of reach now.
    Anew { burned: u64 },
    /// The standing is no longer what it was: look again.
    Overtaken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// Rows left.
    Done { level: u64 },
    /// The block does not start at `next`, or the era is over: look again.
    Overtaken,
}

/// Why rows could not be had. Variants differ in what the caller does next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Try again later: it cannot be reached, is full or read-only.
    #[error("{0}")]
    Unavailable(String),
    /// The filler has to look at it first.
    #[error("{0}")]
    Doubtful(String),
    /// Someone must change a setting, which it names.
    #[error("{0}")]
    Refused(String),
}

impl Era {
    /// As a store may keep it.
    pub fn parse(text: &str) -> Option<Self> {
        let (advances, term) = text.split_once('.')?;
        Some(Self { advances: advances.parse().ok()?, term: term.parse().ok()? })
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.advances, self.term)
    }
}

/// For nodes that serve no row pools.
#[derive(Debug)]
pub struct NoRowPools;

impl RowPools for NoRowPools {
    fn open(&self, home: &RowHome, _: &Settings) -> Result<Arc<dyn RowPool>, PoolError> {
        Err(PoolError::Refused(format!("this node serves no pools in a {}", home.rows.store())))
    }
}
