//! Logs: one global filter, to stderr, as text for people or JSON lines for machines.

use std::{
    fmt,
    io::{self, IsTerminal},
};

use tracing_subscriber::{EnvFilter, filter::ParseError};

use crate::config::{Log, LogFormat};

/// Changes what is logged while the process runs.
pub struct LogLevel(Box<dyn Fn(EnvFilter) + Send + Sync>);

impl LogLevel {
    /// A level that was checked.
    pub(crate) fn set(&self, level: &str) {
        if let Ok(filter) = filter(level) {
            (self.0)(filter);
        }
    }
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLevel").finish_non_exhaustive()
    }
}

pub(crate) fn filter(level: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(level)
}

pub fn start_logging(log: &Log) -> anyhow::Result<LogLevel> {
    let json = match log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !io::stderr().is_terminal(),
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter(&log.level)?)
        .with_writer(io::stderr)
        // Colours in a file are noise.
        .with_ansi(io::stderr().is_terminal());
    // Each format is a type of its own, and so is what changes its filter.
    let (level, started) = if json {
        let logs = logs.json().flatten_event(true).with_current_span(false).with_span_list(false);
        let logs = logs.with_filter_reloading();
        let handle = logs.reload_handle();
        (LogLevel(Box::new(move |filter| drop(handle.reload(filter)))), logs.try_init())
    } else {
        let logs = logs.with_filter_reloading();
        let handle = logs.reload_handle();
        (LogLevel(Box::new(move |filter| drop(handle.reload(filter)))), logs.try_init())
    };
    started.map_err(|error| anyhow::anyhow!("logs could not be started: {error}"))?;
    Ok(level)
}
