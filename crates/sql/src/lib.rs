//! One small way to speak to PostgreSQL and to MySQL or MariaDB: statements written once, values, short
//! transactions, numbered migrations.
//!
//! Its point is how it fails. A caller must know whether a transaction was undone, or whether nobody
//! knows: only [`SqlError::Unknown`] can have taken effect, and only `COMMIT` can end in it. A transaction
//! that is dropped closes its connection, so that no half-read answer is ever taken for another one.
//!
//! A statement is one text with `?` for its values; the few words that differ are in [`Dialect`].

mod address;
mod connection;
mod database;
mod dialect;
mod error;
mod migrate;
mod notices;
mod row;
mod transaction;
mod value;
mod work;

pub use address::{Address, Tls, masked};
pub use database::Database;
pub use dialect::Dialect;
pub use error::SqlError;
pub use migrate::{Schema, Version};
pub use row::Row;
pub use transaction::{Access, Transaction};
pub use value::Value;
pub use work::{Statements, Work};
