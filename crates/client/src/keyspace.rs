//! Keys of one keyspace, from a local cache that is filled in the background.

use std::sync::{Arc, Mutex};

use keymill_id::KeyspaceName;
use tokio::task::AbortHandle;

use crate::{
    board::Board,
    cache::Cache,
    chunk::Chunk,
    client::Shared,
    core::Core,
    error::Error,
    fetch::Order,
    refill,
    sizing::{Bounds, Sizing},
};

/// The most keys or IDs that are taken at a time.
pub const TAKE_MANY_MAX: u32 = 1_000_000;

/// Keys of one keyspace. Cheap to clone; all clones, and all that a client gives out for one name, share a cache.
///
/// A take from the cache costs nanoseconds and makes no call. The cache holds about a second's worth of keys at
/// the rate they are taken (see [`cache_hold`](crate::ClientBuilder::cache_hold)), is refilled when it is half
/// empty, and rides out an outage that is shorter than what it holds. What is in it when the process ends is
/// burned: gaps, never duplicates.
///
/// Keys leave the cache in the order they came, so that the tickets of a sequence rise as one client sees them.
#[derive(Debug, Clone)]
pub struct Keyspace {
    store: Arc<Store>,
    /// The client lives as long as its handles do.
    _client: Arc<Shared>,
}

/// A cache, and what fills it.
#[derive(Debug)]
pub(crate) struct Store {
    pub core: Arc<Core>,
    pub name: KeyspaceName,
    pub cache: Cache,
    pub board: Board,
    refiller: Mutex<Option<AbortHandle>>,
}

impl Store {
    /// Begins to fill at once.
    pub(crate) fn start(core: Arc<Core>, name: KeyspaceName, bounds: Bounds) -> Arc<Self> {
        let store = Arc::new(Self {
            core,
            name,
            cache: Cache::default(),
            board: Board::default(),
            refiller: Mutex::default(),
        });
        let task = store.core.runtime.spawn(refill::run(store.clone(), Sizing::new(bounds)));
        *store.lock() = Some(task.abort_handle());
        store
    }

    /// How many keys were burned.
    pub(crate) fn close(&self) -> u64 {
        if let Some(refiller) = self.lock().take() {
            refiller.abort();
        }
        let burned = self.cache.close();
        self.core.counters.keys_burned.add(burned);
        self.board.bad_news(Error::Closed);
        burned
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<AbortHandle>> {
        self.refiller.lock().expect("nothing panics while it holds the task")
    }
}

impl Keyspace {
    pub(crate) fn new(store: Arc<Store>, client: Arc<Shared>) -> Self {
        Self { store, _client: client }
    }

    pub fn name(&self) -> &str {
        self.store.name.as_ref()
    }

    /// One key. Waits until the deadline where the cache is empty.
    pub async fn take(&self) -> Result<String, Error> {
        self.with_key(text).await
    }

    /// Appends one key to `out`, which spares an allocation.
    pub async fn take_into(&self, out: &mut String) -> Result<(), Error> {
        self.with_key(|key| out.push_str(as_text(key))).await
    }

    /// Hands one key, which is ASCII, to `use_it`: the shortest way there is.
    #[inline]
    pub async fn with_key<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        match self.try_with_key(use_it) {
            Ok(used) => Ok(used),
            Err(use_it) => Box::pin(self.wait_for_key(use_it)).await,
        }
    }

    /// The same without waiting: gives `use_it` back when the chunk that is shown is used up.
    #[inline]
    pub(crate) fn try_with_key<R, F: FnOnce(&[u8]) -> R>(&self, use_it: F) -> Result<R, F> {
        self.store.cache.with_key(use_it)
    }

    /// One key as a number: an ID, or a ticket in plain decimal.
    pub async fn take_number(&self) -> Result<u64, Error> {
        match self.try_take_number() {
            Some(number) => Ok(number),
            None => Box::pin(self.wait_for_number()).await,
        }
    }

    #[inline]
    pub(crate) fn try_take_number(&self) -> Option<u64> {
        self.store.cache.take_number()
    }

    /// Exactly `count` keys, or an error.
    ///
    /// What the cache cannot give at once is fetched for this call alone, so that a large order does not empty
    /// it for everyone. Tickets that are fetched so are ahead of those in the cache.
    pub async fn take_many(&self, count: u32) -> Result<Vec<String>, Error> {
        let mut keys = Vec::with_capacity(checked(count)?);
        if self.ready() >= u64::from(count) {
            self.grab(count, &mut keys);
        }
        let missing = count as usize - keys.len();
        if missing > 0 {
            self.fetch(missing, &mut keys).await?;
        }
        Ok(keys)
    }

    /// Keys in the cache: what is burned if the process ends now.
    pub fn ready(&self) -> u64 {
        self.store.cache.ready()
    }

    /// Stops refilling, and burns what the cache holds: returns how many keys that was. Takes are refused from
    /// now on; the client gives out a new handle if it is asked for one.
    pub fn close(&self) -> u64 {
        self.store.close()
    }

    /// Adds what the cache holds, up to `count` keys in all.
    fn grab(&self, count: u32, keys: &mut Vec<String>) {
        while let Some(left) = u32::try_from(keys.len()).ok().and_then(|have| count.checked_sub(have)) {
            let take = |chunk: &Chunk, at| keys.push(chunk.with_key(at, text));
            if left == 0 || self.store.cache.with_some(left, take) == 0 {
                return;
            }
        }
    }

    /// Adds keys that come for this call alone.
    async fn fetch(&self, count: usize, keys: &mut Vec<String>) -> Result<(), Error> {
        let Store { core, name, cache, .. } = &*self.store;
        if cache.is_closed() {
            return Err(Error::Closed);
        }
        let order = Order { count: count as u64, batch: 0 };
        let came = Mutex::new(Vec::new());
        let lock = || came.lock().expect("nothing panics while it holds what came");
        let fetched = core.fetch(name, order, &|_| (), &|chunk| lock().push(chunk)).await;
        let chunks = std::mem::take(&mut *lock());
        if let Err(error) = fetched {
            let burned = keys.len() as u64 + chunks.iter().map(|chunk| u64::from(chunk.count())).sum::<u64>();
            core.counters.keys_burned.add(burned);
            return Err(error);
        }
        let spelled =
            |chunk: &Chunk| (0..chunk.count()).map(|at| chunk.with_key(at, text)).collect::<Vec<_>>();
        keys.extend(chunks.iter().flat_map(spelled));
        Ok(())
    }

    async fn wait_for_key<R, F: FnOnce(&[u8]) -> R>(&self, use_it: F) -> Result<R, Error> {
        let mut use_it = Some(use_it);
        let look = || {
            let mut used = None;
            self.store.cache.with_some(1, |chunk, at| {
                used = use_it.take().map(|use_it| chunk.with_key(at, use_it));
            });
            Ok(used)
        };
        self.wait(look).await
    }

    async fn wait_for_number(&self) -> Result<u64, Error> {
        let cache = &self.store.cache;
        let look = || match cache.take_number() {
            None if cache.shows_text() => Err(Error::NotNumbers { keyspace: self.name().to_owned() }),
            number => Ok(number),
        };
        self.wait(look).await
    }

    async fn wait<T>(&self, look: impl FnMut() -> Result<Option<T>, Error>) -> Result<T, Error> {
        let Store { core, cache, board, .. } = &*self.store;
        if cache.is_closed() {
            return Err(Error::Closed);
        }
        board.wait(core, core.deadline(), look, || cache.cry()).await
    }
}

/// A count within [`TAKE_MANY_MAX`].
pub(crate) fn checked(count: u32) -> Result<usize, Error> {
    if count > TAKE_MANY_MAX {
        let detail = format!("must be at most TAKE_MANY_MAX ({TAKE_MANY_MAX}), and is {count}");
        return Err(Error::Settings { setting: "count", detail });
    }
    Ok(count as usize)
}

#[inline]
pub(crate) fn as_text(key: &[u8]) -> &str {
    std::str::from_utf8(key).expect("what is in a chunk is ASCII")
}

pub(crate) fn text(key: &[u8]) -> String {
    as_text(key).to_owned()
}
