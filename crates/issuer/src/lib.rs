//! Serving keys from memory.
//!
//! [`stock`] decides and `refill` does; [`shelf`] is the path of a take; the node's [`pen`] writes in
//! the ledger, one write at a time, and its [`witness`] remembers what the ledger acknowledged.
//! [`clock`] alone reads time.

pub mod clock;
mod error;
mod free;
pub mod haul;
mod inspect;
mod lifecycle;
mod milled;
mod node;
pub mod pen;
pub mod quantity;
mod refill;
mod served;
pub mod shelf;
pub mod stock;
mod thread_lane;
mod timed;
pub mod tuning;
pub mod witness;
mod worker;

pub use error::IssueError;
pub use inspect::{IdParts, Inspection, KeyState};
pub use lifecycle::Stopped;
pub use node::{CreateError, Node, NodeSettings, NodeState, ReserveTimes, Wanted};
pub use served::{Glance, Leftovers, Served};
pub use timed::{TimeGlance, WorkerGlance};
