//! One small way to speak to PostgreSQL, to MySQL or MariaDB, and to SQLite: statements written once, values,
//! short transactions, numbered migrations.
//!
//! Its point is how it fails. A caller must know whether a transaction was undone, or whether nobody
//! knows: only [`SqlError::Unknown`] and [`SqlError::Broken`] can have taken effect, and only `COMMIT` can end
//! in them. A transaction that is dropped closes its connection, so that no half-read answer is ever taken for
//! another one.
//!
//! A statement is one text with `?` for its values; the few words that differ are in [`Dialect`].

mod address;
mod connection;
mod database;
mod dialect;
mod error;
mod identity;
mod insert;
mod many;
mod migrate;
mod notices;
mod row;
mod shared;
mod sqlite;
mod transaction;
mod value;
mod work;

pub use address::{Address, Tls, masked};
pub use database::Database;
pub use dialect::Dialect;
pub use error::SqlError;
pub use identity::identity;
pub use migrate::{Schema, Steps, Version};
pub use row::Row;
pub use shared::Shared;
pub use sqlite::{Fate, Sqlite};
pub use transaction::{Access, Transaction};
pub use value::Value;
pub use work::{Statements, Work};
