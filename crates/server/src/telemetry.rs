//! Logs: one global filter, to stderr, as text for people or JSON lines for machines.

use std::io::{self, IsTerminal};

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

pub fn start_logging(log: &Log) -> anyhow::Result<()> {
    let filter = EnvFilter::builder()
        .parse(&log.level)
        .with_context(|| format!("log.level `{}` is not a level or filter", log.level.escape_debug()))?;
    let json = match log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !io::stderr().is_terminal(),
    };
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = if json {
        logs.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    } else {
        logs.try_init()
    };
    started.map_err(|error| anyhow::anyhow!("logs could not be started: {error}"))
}
