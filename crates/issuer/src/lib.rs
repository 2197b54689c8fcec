//! Serving keys from memory.
//!
//! [`stock`] decides and `refill` does; [`shelf`] is the path of a take; the node's `pen` writes in the
//! ledger, one write at a time, and its [`witness`] remembers what the ledger acknowledged.

pub mod clock;
pub mod quantity;
pub mod shelf;
pub mod stock;
pub mod tuning;
pub mod witness;
