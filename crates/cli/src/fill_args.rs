//! What `keymill fill` takes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use keymill_issuer::quantity::Count;

#[derive(Debug, Args)]
pub(crate) struct Fill {
    pub keyspace: String,
    /// How many keys there shall be, in the pool or in the file, such as 1000000 or 1M; as many as `capacity` unless said.
    #[arg(long)]
    pub count: Option<Count>,
    /// Take keys into this file instead of filling the pool.
    #[arg(long, value_name = "FILE", requires = "count")]
    pub out: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = Format::Txt, requires = "out")]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A key a line.
    Txt,
    /// The same under the header `key`.
    Csv,
}
