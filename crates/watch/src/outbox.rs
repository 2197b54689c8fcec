//! What one sink still has to be told, and when to try again.
//!
//! A page and its resolution are told in this order, each until the sink took it. While a sink is down, what it
//! would hear of one subject collapses: a page that was resolved and fires again is one page. So an outbox holds
//! two notices a subject at most.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::notice::{Notice, Status};

/// Subjects with something to tell; more are refused, and said so in the log.
const SUBJECTS_MAX: usize = 10_000;
/// The first pause after a failure; it doubles up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Outbox {
    /// How often a sink wants to hear of what still fires.
    repeat: Option<Duration>,
    /// By dedup key; whose turn it is first.
    pending: VecDeque<(String, VecDeque<Notice>)>,
    /// Pages the sink took, and when it is to hear of them again.
    firing: BTreeMap<String, (Duration, Notice)>,
    failures: u32,
    not_before: Duration,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Tell(Box<Notice>),
    Wait(Duration),
    /// Until something is put in.
    Idle,
}

impl Outbox {
    pub(crate) fn new(repeat: Option<Duration>) -> Self {
        Self {
            repeat,
            pending: VecDeque::new(),
            firing: BTreeMap::new(),
            failures: 0,
            not_before: Duration::ZERO,
        }
    }

    /// Says whether there was room.
    pub(crate) fn put(&mut self, notice: Notice) -> bool {
        if let Some((_, line)) = self.pending.iter_mut().find(|(key, _)| *key == notice.dedup_key) {
            let is_news = line.back().is_none_or(|last| last.status != notice.status);
            if line.len() == 2 || !is_news {
                line.pop_back();
            }
            // A third in a row says what the first one does, but newer.
            if line.back().is_some_and(|last| last.status == notice.status) {
                line.pop_back();
            }
            line.push_back(notice);
            return true;
        }
        if self.pending.len() == SUBJECTS_MAX {
            return false;
        }
        self.pending.push_back((notice.dedup_key.clone(), VecDeque::from([notice])));
        true
    }

    pub(crate) fn step(&mut self, now: Duration) -> Step {
        self.repeat_what_is_due(now);
        match self.pending.front().and_then(|(_, line)| line.front()) {
            Some(_) if now < self.not_before => Step::Wait(self.not_before - now),
            Some(notice) => Step::Tell(Box::new(notice.clone())),
            None => match self.firing.values().map(|(due, _)| *due).min().filter(|_| self.repeat.is_some()) {
                Some(due) => Step::Wait(due.saturating_sub(now)),
                None => Step::Idle,
            },
        }
    }

    fn repeat_what_is_due(&mut self, now: Duration) {
        if self.repeat.is_none() {
            return;
        }
        let due: Vec<Notice> =
            self.firing.values().filter(|(due, _)| *due <= now).map(|(_, notice)| notice.clone()).collect();
        for notice in due {
            // What is pending is newer than what is repeated.
            if !self.pending.iter().any(|(key, _)| *key == notice.dedup_key) {
                self.put(notice);
            }
        }
    }

    /// The sink took it.
    pub(crate) fn told(&mut self, notice: &Notice, now: Duration) {
        self.failures = 0;
        self.not_before = Duration::ZERO;
        match (notice.status, self.repeat) {
            (Status::Firing, Some(repeat)) => {
                self.firing.insert(notice.dedup_key.clone(), (now + repeat, notice.clone()));
            }
            _ => drop(self.firing.remove(&notice.dedup_key)),
        }
        let Some(at) = self.pending.iter().position(|(key, _)| *key == notice.dedup_key) else { return };
        let line = &mut self.pending[at].1;
        // Something newer may have taken its place meanwhile.
        if line.front() == Some(notice) {
            line.pop_front();
        }
        if line.is_empty() {
            self.pending.remove(at);
        }
    }

    /// The sink did not take it; the others have their turn first. `chance` is from 0 to 1. Says how often it
    /// failed in a row.
    pub(crate) fn failed(&mut self, notice: &Notice, now: Duration, chance: f64) -> u32 {
        let longest = PAUSE_FIRST.saturating_mul(1 << self.failures.min(16)).min(PAUSE_LONGEST);
        self.not_before = now + longest.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        self.failures = self.failures.saturating_add(1);
        if self.pending.front().is_some_and(|(key, _)| *key == notice.dedup_key) {
            self.pending.rotate_left(1);
        }
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::*;
    use crate::finding::{Kind, Severity, Subject};

    const NOW: Duration = Duration::from_secs(100);

    fn notice(keyspace: &str, status: Status, incident: u64) -> Notice {
        Notice {
            incident,
            status,
            subject: Subject::Keyspace(keyspace.to_owned()),
            kind: Kind::Low,
            severity: Severity::Critical,
            summary: String::new(),
            level: None,
            runway_seconds: None,
            since: SystemTime::UNIX_EPOCH,
            at: SystemTime::UNIX_EPOCH,
            dedup_key: keyspace.to_owned(),
        }
    }

    /// Tells all there is to tell, to a sink that is up.
    fn drain(outbox: &mut Outbox, now: Duration) -> Vec<(String, Status, u64)> {
        let mut told = Vec::new();
        while let Step::Tell(notice) = outbox.step(now) {
            outbox.told(&notice, now);
            told.push((notice.dedup_key.clone(), notice.status, notice.incident));
        }
        told
    }

    #[test]
    fn a_page_and_its_resolution_are_both_told_after_an_outage() {
        let mut outbox = Outbox::new(None);
        outbox.put(notice("links", Status::Firing, 1));
        let Step::Tell(page) = outbox.step(NOW) else { panic!("there is something to tell") };
        outbox.failed(&page, NOW, 0.5);
        outbox.put(notice("links", Status::Resolved, 1));
        assert!(matches!(outbox.step(NOW), Step::Wait(_)));
        let told = drain(&mut outbox, NOW * 2);
        assert_eq!(told, [("links".into(), Status::Firing, 1), ("links".into(), Status::Resolved, 1)]);
        assert_eq!(outbox.step(NOW * 2), Step::Idle);
    }

    #[test]
    fn what_a_dead_sink_missed_collapses() {
        let mut outbox = Outbox::new(None);
        for incident in 0..50 {
            outbox.put(notice("links", Status::Firing, incident));
            outbox.put(notice("links", Status::Resolved, incident));
        }
        assert_eq!(
            drain(&mut outbox, NOW),
            [("links".into(), Status::Firing, 49), ("links".into(), Status::Resolved, 49)]
        );
    }

    #[test]
    fn one_notice_that_is_refused_does_not_hold_up_the_others() {
        let mut outbox = Outbox::new(None);
        outbox.put(notice("links", Status::Firing, 1));
        outbox.put(notice("codes", Status::Firing, 2));
        let Step::Tell(first) = outbox.step(NOW) else { panic!("there is something to tell") };
        outbox.failed(&first, NOW, 0.5);
        let Step::Tell(second) = outbox.step(NOW * 2) else { panic!("there is something to tell") };
        assert_ne!(first.dedup_key, second.dedup_key);
    }

    #[test]
    fn pauses_grow_and_have_an_end() {
        let mut outbox = Outbox::new(None);
        outbox.put(notice("links", Status::Firing, 1));
        let mut pauses = Vec::new();
        for _ in 0..20 {
            let Step::Tell(page) = outbox.step(NOW * 1000) else { panic!("there is something to tell") };
            outbox.failed(&page, NOW, 1.0);
            pauses.push(outbox.not_before - NOW);
            outbox.not_before = Duration::ZERO;
        }
        assert_eq!((pauses[0], pauses[1], pauses[19]), (PAUSE_FIRST, PAUSE_FIRST * 2, PAUSE_LONGEST));
    }

    #[test]
    fn what_still_fires_is_repeated_where_that_is_wanted() {
        let minute = Duration::from_secs(60);
        let mut outbox = Outbox::new(Some(minute));
        outbox.put(notice("links", Status::Firing, 1));
        assert_eq!(drain(&mut outbox, NOW).len(), 1);
        assert_eq!(outbox.step(NOW), Step::Wait(minute));
        assert_eq!(drain(&mut outbox, NOW + minute).len(), 1, "and again");
        outbox.put(notice("links", Status::Resolved, 1));
        assert_eq!(drain(&mut outbox, NOW + minute).len(), 1);
        assert_eq!(outbox.step(NOW * 1000), Step::Idle, "what is resolved is over");
    }

    proptest! {
        /// Whatever fails: a sink hears of pages and resolutions in turn, ends knowing the latest state, and an
        /// incident that it hears of, it hears of once.
        #[test]
        fn a_sink_hears_the_truth_in_order(steps in prop::collection::vec((0..3u8, any::<bool>()), 1..200)) {
            let mut outbox = Outbox::new(None);
            let (mut now, mut fires, mut incident) = (NOW, false, 0);
            let mut heard: Vec<(Status, u64)> = Vec::new();
            for (what, is_up) in steps {
                now += Duration::from_secs(60);
                if what == 0 {
                    fires = !fires;
                    incident += u64::from(fires);
                    let status = if fires { Status::Firing } else { Status::Resolved };
                    prop_assert!(outbox.put(notice("links", status, incident)));
                } else if let Step::Tell(told) = outbox.step(now) {
                    if is_up {
                        outbox.told(&told, now);
                        heard.push((told.status, told.incident));
                    } else {
                        outbox.failed(&told, now, 0.5);
                    }
                }
                prop_assert!(outbox.pending.iter().all(|(_, line)| (1..=2).contains(&line.len())));
            }
            for (_, status, incident) in drain(&mut outbox, now * 2) {
                heard.push((status, incident));
            }
            let mut once = heard.clone();
            once.dedup();
            prop_assert_eq!(&once, &heard, "nothing twice");
            prop_assert!(heard.is_sorted_by_key(|(_, incident)| *incident));
            if incident > 0 {
                let status = if fires { Status::Firing } else { Status::Resolved };
                prop_assert_eq!(heard.last(), Some(&(status, incident)));
            }
        }
    }
}
