//! Serving keys from memory.
//!
//! [`stock`] decides and `refill` does; [`shelf`] is the path of a take; the node's [`pen`] writes in
//! the ledger, one write at a time, and its [`witness`] remembers what the ledger acknowledged.
//! [`clock`] alone reads time.

mod breaker;
pub mod clock;
mod derived;
mod error;
mod free;
pub mod haul;
mod histogram;
mod inspect;
pub mod key_log;
mod lend;
mod lifecycle;
pub mod meter;
mod milled;
pub mod news;
mod node;
mod own;
mod padded;
pub mod pen;
pub mod quantity;
mod refill;
pub mod rowed;
mod served;
pub mod shelf;
mod skip_ahead;
pub mod stock;
mod thread_lane;
mod timed;
pub mod tuning;
mod waiting;
pub mod witness;
mod worker;

pub use error::IssueError;
pub use histogram::{Durations, Histogram};
pub use inspect::{IdParts, Inspection, KeyState};
pub use lend::{HOLDER_MAX, LeaseId, LendError, Loan, WINDOW_MS_MAX};
pub use lifecycle::Stopped;
pub use node::{CreateError, Elsewhere, LedgerIdentity, Node, NodeSettings, NodeState, Reserves, Wanted};
pub use served::{Glance, Leftovers, Served, Settings};
pub use timed::{TimeGlance, WorkerGlance};
