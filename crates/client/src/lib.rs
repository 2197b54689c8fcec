//! The SDK: keys from a local cache, IDs made in process, and calls that survive a node.
//!
//! ```no_run
//! use keymill_client::Client;
//!
//! # async fn example() -> Result<(), keymill_client::Error> {
//! let client = Client::builder().endpoints(["http://10.0.0.1:7070", "http://10.0.0.2:7070"]).build()?;
//!
//! // From a cache that is filled in the background: nanoseconds, and no call.
//! let links = client.keyspace("links")?;
//! let key = links.take().await?;
//!
//! // Made here, by a worker that a server lent us: no call either.
//! let events = client.snowflake("events").await?;
//! let id = events.next_id().await?;
//!
//! // Gives the worker back. What is cached is burned.
//! client.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Without async the same is in [`blocking`]. A server that asks for a token is shown
//! [`token`](ClientBuilder::token), one that speaks TLS is an `https://` endpoint, with
//! [`tls_ca`](ClientBuilder::tls_ca) and [`tls_identity`](ClientBuilder::tls_identity) where the machine's
//! authorities do not know it or it asks who we are; [`environment`](ClientBuilder::environment) reads all of that.
//!
//! # What it promises
//!
//! - **No key twice.** A key in a cache was issued to this process alone. An ID is made only inside a window of a
//!   worker's time that was lent to this process alone; a pause, a lost lease or a wrong clock cannot change that.
//! - **Gaps.** What is cached when the process stops or dies is burned, and so is what a lost answer held: at most
//!   [`cache_keys`](ClientBuilder::cache_keys) per keyspace, and a worker's [`window`](ClientBuilder::window).
//! - **A deadline.** Whatever has to wait ends with an answer or an [`Error`] within
//!   [`deadline`](ClientBuilder::deadline).
//!
//! # What it does not promise
//!
//! A process that forks, and a virtual machine that is cloned or restored from a snapshot, has its caches and
//! windows twice, and would use them twice: build clients afterwards. All endpoints must be nodes of one ledger:
//! two ledgers hand out the same keys.
//!
//! # What happens when a server does not answer
//!
//! Caches and windows go on as far as they reach. A failed call goes to the next endpoint at once, and after a
//! round through all of them again after a pause: exponential, with full jitter, or as long as the server asked
//! for. Retries come out of a budget (a fifth of the calls, two a second, twenty at once), so that they never
//! become most of the load. An endpoint that failed three times in a row is left alone by its breaker; after a
//! pause one call goes to see. What is wrong with the request is never sent again. [`Client::stats`] counts it all.

mod backoff;
mod board;
mod breaker;
mod budget;
mod builder;
mod cache;
mod chunk;
mod client;
mod clock;
mod core;
mod dice;
mod endpoint;
mod error;
mod failure;
mod fetch;
mod keeper;
mod keyspace;
mod lane;
mod refill;
mod sizing;
mod snowflake;
mod stats;
mod tls;

pub mod blocking;

pub use breaker::BreakerState;
pub use builder::ClientBuilder;
pub use client::Client;
pub use error::{Error, GaveUp};
pub use failure::Failure;
pub use keymill_wire::Code;
pub use keyspace::{Keyspace, TAKE_MANY_MAX};
pub use snowflake::Snowflake;
pub use stats::{EndpointStats, Stats};
