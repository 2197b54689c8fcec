//! The Keymill server: configuration, the HTTP front end, and the life of the process.

mod banner;
pub mod config;
mod data_dir;
mod http;
mod serve;
mod telemetry;

pub use data_dir::ServerFile;
pub use http::openapi;
pub use serve::serve;
pub use telemetry::start_logging;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
