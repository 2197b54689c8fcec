//! The watch, shared between who looks, who delivers and who asks.

use std::{
    sync::{Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use crate::{
    history::Standing,
    incident::Incident,
    moment::Moment,
    sample::Look,
    watch::{Judgement, Watch},
};

#[derive(Debug)]
pub struct Board {
    watch: Mutex<Watch>,
}

impl Board {
    pub fn new(interval: Duration) -> Self {
        Self { watch: Mutex::new(Watch::new(interval)) }
    }

    /// Open incidents first, then the newest of those that are over.
    pub fn incidents(&self) -> Vec<Incident> {
        self.lock().incidents()
    }

    /// Where each level stood at the last look, of those that it measured.
    pub fn levels(&self) -> Vec<(String, Standing)> {
        self.lock().levels().to_vec()
    }

    pub(crate) fn judge(&self, look: &Look, now: Moment) -> Judgement {
        self.lock().judge(look, now)
    }

    pub(crate) fn notified(&self, incident: u64, at: SystemTime) {
        self.lock().notified(incident, at);
    }

    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().expect("nothing panics while it holds the watch")
    }
}
