//! One keyspace under watch: what its looks add up to.

use std::time::Duration;

use crate::{
    checks::{self, Facts},
    finding::{Finding, Kind, Severity},
    forecast::spoken,
    history::{History, Standing},
    incident::Episode,
    marks::{Height, Marks, height},
    moment::Moment,
    restarts::{Next, Restarts},
    sample::{GroundState, Reading},
};

/// How many intervals the first restart gets before the next.
const SETTLE_INTERVALS: u32 = 3;
/// Looks in a row that find a halted ledger before a human is told: a lossy one goes on by itself.
const HALTED_LOOKS: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct Case {
    history: History,
    unmeasured: Unmeasured,
    below_restart: u32,
    below_page: u32,
    dry: u32,
    restarts: Restarts,
    pub(crate) episode: Episode,
}

#[derive(Debug, Default)]
struct Unmeasured {
    looks: u32,
    since: Duration,
    why: String,
}

impl Unmeasured {
    fn missed(&mut self, why: &str, now: Duration) {
        if self.looks == 0 {
            self.since = now;
        }
        self.looks += 1;
        why.clone_into(&mut self.why);
    }

    fn seconds(&self, now: Duration) -> f64 {
        now.saturating_sub(self.since).as_secs_f64()
    }
}

/// What one look means.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    pub finding: Option<Finding>,
    /// The filler is to be started anew, for the so-manieth time.
    pub restart: Option<usize>,
    /// Measured, without a finding, and well above its marks.
    pub is_well: bool,
    /// Measured, and not below a mark.
    pub is_healthy: bool,
    pub standing: Option<Standing>,
}

impl Case {
    pub(crate) fn look(
        &mut self,
        keyspace: &str,
        marks: Marks,
        reading: &Reading,
        now: Moment,
        interval: Duration,
    ) -> Verdict {
        let lowest = self.note(marks, reading, now.elapsed);
        let wants_restart = self.facts(keyspace, marks, now).wants_restart();
        let next = wants_restart.then(|| self.restarts.next(now.elapsed, interval * SETTLE_INTERVALS));
        let facts = Facts { restarts_spent: next == Some(Next::Spent), ..self.facts(keyspace, marks, now) };
        let finding = checks::gravest(&facts);
        let is_measured = facts.unmeasured.is_none();
        let standing = facts.standing.filter(|_| is_measured);
        let is_well = is_measured && finding.is_none() && lowest == Height::Above && self.dry == 0;
        if is_well {
            self.restarts.helped();
        }
        Verdict {
            restart: match next {
                Some(Next::Now(attempt)) => Some(attempt),
                _ => None,
            },
            is_well,
            is_healthy: is_measured && finding.is_none() && lowest > Height::Below,
            standing,
            finding,
        }
    }

    /// What a single look finds, without patience.
    pub(crate) fn glance(&mut self, keyspace: &str, marks: Marks, reading: &Reading, now: Moment) -> Verdict {
        let mut verdict = self.look(keyspace, marks, reading, now, Duration::ZERO);
        let facts = self.facts(keyspace, marks, now);
        verdict.finding = checks::at_a_glance(&facts);
        verdict
    }

    /// Counts what the reading shows, and says how near it is to its nearest mark.
    fn note(&mut self, marks: Marks, reading: &Reading, now: Duration) -> Height {
        let sample = match reading {
            Reading::Measured(sample) => *sample,
            Reading::Unmeasured { why } => {
                self.unmeasured.missed(why, now);
                return Height::Below;
            }
        };
        self.unmeasured = Unmeasured::default();
        self.history.push(now, sample);
        let Some(Standing { level, runway, supply, .. }) = self.history.standing() else {
            return Height::Below;
        };
        // What nobody can fill has nothing to start anew.
        let restart_below = marks.restart_below.filter(|_| supply.has_filler());
        let restart = height(restart_below, level, runway);
        let page = height(marks.page_below, level, runway);
        let count = |run: u32, counts: bool| if counts { run.saturating_add(1) } else { 0 };
        self.below_restart = count(self.below_restart, restart == Height::Below);
        self.below_page = count(self.below_page, page == Height::Below);
        self.dry = count(self.dry, self.history.is_dry());
        restart.min(page)
    }

    fn facts<'a>(&'a self, keyspace: &'a str, marks: Marks, now: Moment) -> Facts<'a> {
        let Unmeasured { looks, why, .. } = &self.unmeasured;
        let unmeasured = (*looks > 0).then(|| (*looks, self.unmeasured.seconds(now.elapsed), why.as_str()));
        Facts {
            keyspace,
            marks,
            now: now.wall,
            standing: self.history.standing(),
            unmeasured,
            below_restart: self.below_restart,
            below_page: self.below_page,
            dry: self.dry,
            is_rising: self.history.is_rising(),
            restarts: self.restarts.tried(),
            restarts_spent: false,
        }
    }
}

/// What everything rests on.
#[derive(Debug, Default)]
pub(crate) struct GroundCase {
    halted: u32,
    unmeasured: Unmeasured,
    pub(crate) episode: Episode,
}

impl GroundCase {
    pub(crate) fn look(&mut self, name: &str, state: &GroundState, now: Moment) -> Verdict {
        let finding = match state {
            GroundState::Fine => {
                (self.halted, self.unmeasured) = (0, Unmeasured::default());
                None
            }
            GroundState::Halted { reason } => {
                self.unmeasured = Unmeasured::default();
                self.halted += 1;
                self.is_halted(reason)
            }
            GroundState::Unmeasured { why } => {
                self.unmeasured.missed(why, now.elapsed);
                self.is_blind(name, now)
            }
        };
        let is_well = *state == GroundState::Fine;
        Verdict { finding, restart: None, is_well, is_healthy: is_well, standing: None }
    }

    /// What a single look finds, without patience.
    pub(crate) fn glance(&mut self, name: &str, state: &GroundState, now: Moment) -> Verdict {
        self.halted = HALTED_LOOKS;
        self.unmeasured.looks = checks::BLIND_LOOKS;
        self.look(name, state, now)
    }

    fn is_halted(&self, reason: &str) -> Option<Finding> {
        let summary = format!(
            "the ledger is halted and no keys are issued: {reason}; see `keymill ledger show`, then \
             `keymill ledger advance`"
        );
        let finding = Finding { kind: Kind::LedgerHalted, severity: Severity::Critical, summary };
        (self.halted >= HALTED_LOOKS).then_some(finding)
    }

    fn is_blind(&self, name: &str, now: Moment) -> Option<Finding> {
        let Unmeasured { looks, why, .. } = &self.unmeasured;
        let seconds = spoken(self.unmeasured.seconds(now.elapsed));
        let summary = format!("the {name} was not heard from for {seconds}, and no level is known: {why}");
        let finding = Finding { kind: Kind::Blind, severity: Severity::Critical, summary };
        (*looks >= checks::BLIND_LOOKS).then_some(finding)
    }
}
