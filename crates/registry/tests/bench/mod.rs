//! A registry on a real SQL engine, one prefix per test.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use keymill_registry::{Registry, conformance::Bench};
use keymill_sql::{Address, Database, Tls};

pub(crate) fn database(url: &str) -> Database {
    let address = Address::parse(url, &Tls::default(), Duration::from_secs(20)).expect("a good URL");
    Database::new(address)
}

pub(crate) struct OnServer {
    url: String,
}

impl OnServer {
    /// Tables of its own, which no other test has.
    pub(crate) fn new(url: &str) -> Self {
        static TESTS: AtomicU32 = AtomicU32::new(0);
        Self { url: format!("{url}?table_prefix=t{}", TESTS.fetch_add(1, Ordering::Relaxed)) }
    }
}

impl Bench for OnServer {
    async fn registry(&self) -> Registry {
        Registry::new(database(&self.url), true)
    }
}
