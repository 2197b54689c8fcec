//! A client: what its handles share, and how it ends.

use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use keymill_id::KeyspaceName;

use crate::{
    builder::ClientBuilder,
    core::Core,
    error::Error,
    keyspace::{Keyspace, Store},
    sizing::Bounds,
    snowflake::{Mint, Snowflake},
    stats::Stats,
};

/// Talks to the nodes of one ledger. Cheap to clone.
///
/// Handles of one keyspace share a cache or a worker. When the last clone and the last handle are gone, what is
/// cached is burned and workers are left to expire; [`close`](Self::close) gives workers back at once.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    core: Arc<Core>,
    bounds: Bounds,
    holder: String,
    window: Duration,
    stores: Mutex<HashMap<KeyspaceName, Arc<Store>>>,
    mints: Mutex<HashMap<KeyspaceName, Arc<Mint>>>,
}

impl Drop for Shared {
    /// Nobody is left to take anything.
    fn drop(&mut self) {
        for store in lock(&self.stores).values() {
            store.close();
        }
        for mint in lock(&self.mints).values() {
            mint.abandon();
        }
    }
}

impl Client {
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn new(core: Core, bounds: Bounds, holder: String, window: Duration) -> Self {
        let (stores, mints) = Default::default();
        let shared = Shared { core: Arc::new(core), bounds, holder, window, stores, mints };
        Self { shared: Arc::new(shared) }
    }

    /// Keys of a keyspace, from a local cache that begins to fill at once.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        let name = named(name)?;
        let Shared { core, bounds, stores, .. } = &*self.shared;
        let mut stores = lock(stores);
        stores.retain(|_, store| !store.cache.is_closed());
        let start = || Store::start(core.clone(), name.clone(), *bounds);
        let store = stores.entry(name.clone()).or_insert_with(start).clone();
        Ok(Keyspace::new(store, self.shared.clone()))
    }

    /// IDs of a snowflake keyspace, made in this process. Waits until a worker is leased.
    pub async fn snowflake(&self, name: &str) -> Result<Snowflake, Error> {
        let mint = self.mint(named(name)?);
        mint.until_leased().await?;
        Ok(Snowflake::new(mint, self.shared.clone()))
    }

    fn mint(&self, name: KeyspaceName) -> Arc<Mint> {
        let Shared { core, holder, window, mints, .. } = &*self.shared;
        let mut mints = lock(mints);
        mints.retain(|_, mint| !mint.is_closed());
        let start = || Mint::start(core.clone(), name.clone(), holder.clone(), *window);
        mints.entry(name.clone()).or_insert_with(start).clone()
    }

    /// What was done so far, as numbers.
    pub fn stats(&self) -> Stats {
        self.shared.core.stats()
    }

    /// Ends all handles: burns what is cached, and gives every worker back. The first error is returned once
    /// all was tried; a worker that could not be given back is free when its lease has run out.
    pub async fn close(&self) -> Result<(), Error> {
        for store in drain(&self.shared.stores) {
            store.close();
        }
        let mut closed = Ok(());
        for mint in drain(&self.shared.mints) {
            closed = closed.and(mint.close().await);
        }
        closed
    }
}

fn named(name: &str) -> Result<KeyspaceName, Error> {
    KeyspaceName::parse(name)
        .map_err(|error| Error::Settings { setting: "keyspace", detail: format!("`{name}`: {error}") })
}

fn lock<T: Debug>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds the handles")
}

fn drain<T: Debug>(handles: &Mutex<HashMap<KeyspaceName, T>>) -> Vec<T> {
    lock(handles).drain().map(|(_, handle)| handle).collect()
}

#[cfg(test)]
mod tests {
    use keymill_wire::grpc::WorkerLease;

    use super::*;
    use crate::lane::{Lane, tests::lease};

    /// A worker whose window begins so many milliseconds from now, and no server.
    fn lent(from_now_ms: i64) -> Snowflake {
        let builder = Client::builder().endpoints(["http://127.0.0.1:1"]).deadline(Duration::from_secs(1));
        let client = builder.build().unwrap();
        let mint = client.mint(named("events").unwrap());
        let moved = |tick: u64| tick.saturating_add_signed(from_now_ms);
        let WorkerLease { window_start, window_end, .. } = lease();
        let lease =
            WorkerLease { window_start: moved(window_start), window_end: moved(window_end), ..lease() };
        mint.admit(Lane::new(&lease).unwrap());
        Snowflake::new(mint, client.shared.clone())
    }

    #[tokio::test]
    async fn a_clock_that_is_a_little_behind_is_waited_for_and_one_that_is_far_behind_is_told() {
        assert_eq!(lent(200).next_ids(10).await.unwrap().len(), 10);
        let error = lent(3_600_000).next_id().await.unwrap_err();
        assert!(matches!(error, Error::ClockBehind { by } if by > Duration::from_secs(3500)), "{error}");
    }

    #[tokio::test]
    async fn a_window_that_is_over_makes_no_id_and_an_error_by_the_deadline() {
        let error = lent(-3_600_000).next_id().await.unwrap_err();
        assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    }

    #[tokio::test]
    async fn handles_of_one_name_share_a_cache_until_it_is_closed() {
        let client = Client::builder().endpoints(["http://127.0.0.1:1"]).build().unwrap();
        let store = |client: &Client| {
            client.keyspace("links").unwrap();
            Arc::as_ptr(&lock(&client.shared.stores)["links"])
        };
        let first = store(&client);
        assert_eq!(store(&client.clone()), first);
        let kept = lock(&client.shared.stores)["links"].clone();
        client.keyspace("links").unwrap().close();
        assert_ne!(store(&client), Arc::as_ptr(&kept));
    }
}
