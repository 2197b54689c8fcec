//! The ledger: durable cursors that many nodes share, and the promise that no number is in two blocks.
//!
//! [`contract`](Ledger) says what is promised. [`ops`] holds every operation once, over [`Rows`]; a
//! [`store`] only knows how to run one in a transaction. [`conformance!`] proves a store.
//! Nothing here reads a clock or makes a random number: both come in.

mod contract;
mod error;
mod lock;
mod names;
pub mod ops;
mod rows;
pub mod store;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use contract::{Grade, Ledger};
pub use error::{BoxError, LedgerError};
pub use keymill_sql::masked;
pub use lock::FileLock;
pub use names::{LedgerId, NODE_NAME_MAX, NodeName, NodeNameError, Timestamp, Track, TrackError, WorkerId};
pub use rows::{
    ClaimRow, ClaimState, Halt, Head, HoleKind, KeyspaceReport, KeyspaceRow, LeaseRow, NodeReport, NodeRow,
    Rows, TokenRow, TrackRow, WitnessRow,
};
pub use store::{
    Store, StoreOptions, Tls, etcd::EtcdStore, faults, memory::MemoryStore, redis::RedisStore, sql::SqlStore,
    sqlite::SqliteStore, zookeeper::ZookeeperStore,
};
