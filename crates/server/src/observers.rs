//! Who sees how the process fares.

use std::sync::Arc;

use keymill_watch::Board;

use crate::{measures::Measures, reload::Readings, trace::Traces};

#[derive(Debug, Clone)]
pub(crate) struct Observers {
    /// What the watcher found.
    pub board: Arc<Board>,
    /// What the front ends count.
    pub measures: Arc<Measures>,
    /// Who follows requests, if anyone collects what they see.
    pub traces: Option<Arc<Traces>>,
    /// How the configuration was last read again.
    pub readings: Arc<Readings>,
}
