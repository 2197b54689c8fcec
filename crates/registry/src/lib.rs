//! What keys point to: names people chose, links, references, receipts. In SQL, written once for three engines.
//!
//! A [`Registry`] grants a name to the first who asks and to nobody else, whatever crashes or is sent twice in
//! between: every promise rests on a primary key and one transaction. Nothing here reads a clock or makes a
//! random number: both come in.

mod batch;
mod entry;
mod error;
pub mod limits;
mod ops;
mod order;
mod registry;
pub mod rules;
mod schema;
mod tables;
mod together;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use entry::{Entry, Kind};
pub use error::RegistryError;
pub use ops::{
    Attempt, BatchReceipt, Begun, Bind, Bound, Change, Changed, Claim, Claimed, Deleted, Derive, Derived,
    Expiry, Finished, Listing, Marked, NewReference, Page, Receipt, Record, Recorded, Reference, Referred,
    Swept, TakenBy, Told, VisitSum, Visits,
};
pub use registry::Registry;
