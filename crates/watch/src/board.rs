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
    trail::{Point, Trail},
    watch::{Judgement, Watch},
};

#[derive(Debug)]
pub struct Board {
    watch: Mutex<Watch>,
    trail: Mutex<Trail>,
}

impl Board {
    pub fn new(interval: Duration) -> Self {
        Self { watch: Mutex::new(Watch::new(interval)), trail: Mutex::default() }
    }

    /// Open incidents first, then the newest of those that are over.
    pub fn incidents(&self) -> Vec<Incident> {
        self.lock().incidents()
    }

    /// Where each level stood at the last look, of those that it measured.
    pub fn levels(&self) -> Vec<(String, Standing)> {
        self.lock().levels().to_vec()
    }

    /// Where a level stood at the looks before, the oldest first.
    pub fn trail(&self, keyspace: &str) -> Vec<Point> {
        self.trail.lock().expect("nothing panics while it holds the trail").of(keyspace)
    }

    pub(crate) fn judge(&self, look: &Look, now: Moment) -> Judgement {
        let mut watch = self.lock();
        let judgement = watch.judge(look, now);
        let mut trail = self.trail.lock().expect("nothing panics while it holds the trail");
        trail.extend(now.wall, watch.levels());
        judgement
    }

    pub(crate) fn notified(&self, incident: u64, at: SystemTime) {
        self.lock().notified(incident, at);
    }

    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().expect("nothing panics while it holds the watch")
    }
}
