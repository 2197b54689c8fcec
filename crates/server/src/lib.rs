//! The Keymill server: configuration, the front ends, and the life of the process.

pub mod auth;
mod banner;
pub mod config;
pub mod connect;
mod data_dir;
mod descriptors;
mod grpc;
mod http;
mod key_log;
pub mod ledgers;
mod level;
mod measures;
mod names;
mod notify;
mod observers;
mod peers;
mod registries;
mod reload;
mod resp;
mod serve;
mod telemetry;
mod tls;
mod trace;
mod watch;
pub mod web;

pub use data_dir::ServerFile;
pub use http::openapi;
pub use reload::Origin;
pub use resp::frame;
pub use serve::serve;
pub use telemetry::{LogLevel, start_logging};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
