//! The watch: looks in, orders out. It decides and never does; no clock and no network live here.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use crate::{
    case::{Case, GroundCase, Verdict},
    finding::{Finding, Severity, Subject},
    forecast::left,
    history::{History, Standing},
    incident::{Change, Incident, Log},
    moment::Moment,
    notice::{Notice, Status},
    sample::{GroundState, Look, Reading, Seen},
};

#[derive(Debug)]
pub struct Watch {
    interval: Duration,
    ground: GroundCase,
    cases: BTreeMap<String, Case>,
    /// What the last look measured, of all that it saw.
    levels: Vec<(String, Standing)>,
    log: Log,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Start the keyspace's filler anew, for the so-manieth time.
    Restart { keyspace: String, attempt: usize },
    /// Every sink is to tell this.
    Tell(Notice),
}

/// What one look led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    pub orders: Vec<Order>,
    /// Everything was measured, and nothing is wrong: only then may a heartbeat leave.
    pub is_healthy: bool,
}

/// What a single look shows, for whoever looks only once.
#[derive(Debug, Clone)]
pub struct Glance {
    pub subject: Subject,
    pub standing: Option<Standing>,
    /// Why there is none, if there is none.
    pub unmeasured: Option<String>,
    pub finding: Option<Finding>,
}

impl Watch {
    /// `interval`: how often it will be given a look.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            ground: GroundCase::default(),
            cases: BTreeMap::new(),
            levels: Vec::new(),
            log: Log::default(),
        }
    }

    pub fn judge(&mut self, look: &Look, now: Moment) -> Judgement {
        let subject = Subject::Ground(look.ground.name);
        let verdict = self.ground.look(look.ground.name, &look.ground.state, now);
        let change = self.ground.episode.judge(severity(&verdict), verdict.is_well);
        let mut orders: Vec<Order> =
            self.record(&subject, &look.scope, &verdict, change, now.wall).into_iter().collect();
        let mut is_healthy = verdict.is_healthy && !self.ground.episode.is_open();
        self.levels = look.seen.iter().filter_map(standing).collect();
        // Nothing can be said of what stands on it.
        if look.ground.state != GroundState::Fine {
            return Judgement { orders, is_healthy };
        }
        for seen in look.seen.iter().filter(|seen| seen.marks.is_set()) {
            let case = self.cases.entry(seen.keyspace.clone()).or_default();
            let verdict = case.look(&seen.keyspace, seen.marks, &seen.reading, now, self.interval);
            let change = case.episode.judge(severity(&verdict), verdict.is_well);
            is_healthy &= verdict.is_healthy && !case.episode.is_open();
            if let Some(attempt) = verdict.restart {
                orders.push(Order::Restart { keyspace: seen.keyspace.clone(), attempt });
            }
            let subject = Subject::Keyspace(seen.keyspace.clone());
            orders.extend(self.record(&subject, &look.scope, &verdict, change, now.wall));
        }
        orders.extend(self.let_go(look, now.wall));
        Judgement { orders, is_healthy }
    }

    /// What is no longer watched – retired, or its marks were taken away – has no incident.
    fn let_go(&mut self, look: &Look, now: SystemTime) -> Vec<Order> {
        let watched = look.seen.iter().filter(|seen| seen.marks.is_set());
        let seen: BTreeSet<&str> = watched.map(|seen| seen.keyspace.as_str()).collect();
        let gone: Vec<String> =
            self.cases.keys().filter(|name| !seen.contains(name.as_str())).cloned().collect();
        let mut orders = Vec::new();
        for keyspace in gone {
            let change = self.cases.remove(&keyspace).map_or(Change::Nothing, |mut case| case.episode.end());
            let subject = Subject::Keyspace(keyspace);
            let verdict =
                Verdict { finding: None, restart: None, is_well: false, is_healthy: false, standing: None };
            orders.extend(self.record(&subject, &look.scope, &verdict, change, now));
        }
        orders
    }

    /// Keeps the books of a change, and says whom to tell.
    fn record(
        &mut self,
        subject: &Subject,
        scope: &str,
        verdict: &Verdict,
        change: Change,
        now: SystemTime,
    ) -> Option<Order> {
        let finding = verdict.finding.as_ref();
        let (incident, status) = match change {
            Change::Nothing => return None,
            Change::Opened(_) => (Some(self.log.open(subject, finding?, now, scope)), Some(Status::Firing)),
            Change::Escalated => (self.log.lasts(subject, finding), Some(Status::Firing)),
            Change::Lasts => (self.log.lasts(subject, finding), None),
            Change::Resolved(_) => (self.log.close(subject, now), Some(Status::Resolved)),
        };
        // What is taken care of wakes nobody.
        let incident = incident.filter(|incident| incident.severity == Severity::Critical)?;
        Some(Order::Tell(notice(incident, status?, verdict, now)))
    }

    /// Judges a single look, without patience.
    pub fn glance(&mut self, look: &Look, now: Moment) -> Vec<Glance> {
        let ground = self.ground.glance(look.ground.name, &look.ground.state, now);
        let why = match &look.ground.state {
            GroundState::Fine => None,
            GroundState::Halted { reason } => Some(reason.clone()),
            GroundState::Unmeasured { why } => Some(why.clone()),
        };
        if why.is_some() {
            let subject = Subject::Ground(look.ground.name);
            return vec![Glance { subject, standing: None, unmeasured: why, finding: ground.finding }];
        }
        let glance = |seen: &Seen| {
            let case = self.cases.entry(seen.keyspace.clone()).or_default();
            let verdict = case.glance(&seen.keyspace, seen.marks, &seen.reading, now);
            let unmeasured = match &seen.reading {
                Reading::Measured(_) => None,
                Reading::Unmeasured { why } => Some(why.clone()),
            };
            let subject = Subject::Keyspace(seen.keyspace.clone());
            Glance { subject, standing: verdict.standing, unmeasured, finding: verdict.finding }
        };
        look.seen.iter().filter(|seen| seen.marks.is_set()).map(glance).collect()
    }

    /// A sink took the page of this incident.
    pub fn notified(&mut self, incident: u64, at: SystemTime) {
        self.log.notified(incident, at);
    }

    /// Where each level stood at the last look, of those that it measured.
    pub fn levels(&self) -> &[(String, Standing)] {
        &self.levels
    }

    /// Open ones first, then the newest of those that are over.
    pub fn incidents(&self) -> Vec<Incident> {
        self.log.list().cloned().collect()
    }
}

fn standing(seen: &Seen) -> Option<(String, Standing)> {
    let Reading::Measured(sample) = seen.reading else { return None };
    let mut history = History::default();
    history.push(Duration::ZERO, sample);
    Some((seen.keyspace.clone(), history.standing()?))
}

fn severity(verdict: &Verdict) -> Option<Severity> {
    verdict.finding.as_ref().map(|finding| finding.severity)
}

fn notice(incident: &Incident, status: Status, verdict: &Verdict, now: SystemTime) -> Notice {
    let standing = verdict.standing.as_ref();
    let summary = match (status, standing, &incident.subject) {
        (Status::Firing, ..) => incident.summary.clone(),
        (Status::Resolved, Some(standing), subject) => {
            format!("`{subject}` is well again: it {}", left(standing))
        }
        (Status::Resolved, None, Subject::Keyspace(name)) => format!("`{name}` is no longer watched"),
        (Status::Resolved, None, Subject::Ground(name)) => format!("the {name} is well again"),
    };
    Notice {
        incident: incident.id,
        status,
        subject: incident.subject.clone(),
        kind: incident.kind,
        severity: incident.severity,
        summary,
        level: standing.map(|standing| standing.level),
        runway_seconds: standing.and_then(|standing| standing.runway),
        since: incident.since,
        at: now,
        dedup_key: incident.dedup_key.clone(),
    }
}
