//! The checks: facts in, a finding out. Each is a function that knows neither the clock nor whom to tell.

use std::time::SystemTime;

use keymill_issuer::quantity::Mark;

use crate::{
    finding::{Finding, Kind, Severity},
    forecast::{left, outlook, spoken},
    history::Standing,
    marks::Marks,
    restarts::CAP,
};

/// Looks in a row that may fail before not knowing is a finding.
pub(crate) const BLIND_LOOKS: u32 = 6;
/// Looks in a row below the page mark, without rising, before a human is told.
const PAGE_LOOKS: u32 = 2;
/// As many, even if it rises.
const PAGE_LOOKS_RISING: u32 = 12;
/// Looks in a row below the restart mark before it counts: a burst is no failure.
const LOW_LOOKS: u32 = 3;
/// Looks in a row with nothing at hand.
const DRY_LOOKS: u32 = 3;

/// What is known of a keyspace at one look.
#[derive(Debug, Clone)]
pub(crate) struct Facts<'a> {
    pub keyspace: &'a str,
    pub marks: Marks,
    pub now: SystemTime,
    /// Where it stands; as of its last measured look, if this one was not.
    pub standing: Option<Standing>,
    /// Looks in a row that did not measure it, the seconds since one did, and why.
    pub unmeasured: Option<(u32, f64, &'a str)>,
    /// Looks in a row below each mark.
    pub below_restart: u32,
    pub below_page: u32,
    /// Looks in a row with nothing at hand.
    pub dry: u32,
    pub is_rising: bool,
    /// Restarts so far, and whether no more are due.
    pub restarts: usize,
    pub restarts_spent: bool,
}

impl Facts<'_> {
    fn measured(&self) -> Option<&Standing> {
        self.standing.as_ref().filter(|_| self.unmeasured.is_none())
    }

    /// The level is below the restart mark and does not recover.
    fn is_low(&self) -> bool {
        let has_filler = self.measured().is_some_and(|standing| standing.supply.has_filler());
        has_filler && self.below_restart >= LOW_LOOKS && !self.is_rising
    }

    fn is_dry(&self) -> bool {
        self.measured().is_some() && self.dry >= DRY_LOOKS
    }

    /// Whether whoever fills it ought to be started anew.
    pub(crate) fn wants_restart(&self) -> bool {
        self.is_low() || self.is_dry()
    }
}

type Check = fn(&Facts<'_>) -> Option<Finding>;

/// In the order of what one would want to hear first.
const CHECKS: [Check; 5] = [blind, below_page_mark, filler_stuck, low, dry];

/// The gravest of what the checks find.
pub(crate) fn gravest(facts: &Facts<'_>) -> Option<Finding> {
    let findings: Vec<Finding> = CHECKS.iter().filter_map(|check| check(facts)).collect();
    let gravest = findings.iter().map(|finding| finding.severity).max()?;
    findings.into_iter().find(|finding| finding.severity == gravest)
}

/// What is below its marks by a single look, for whoever looks only once.
pub(crate) fn at_a_glance(facts: &Facts<'_>) -> Option<Finding> {
    let patient = Facts {
        below_page: facts.below_page * PAGE_LOOKS_RISING,
        below_restart: facts.below_restart * LOW_LOOKS,
        unmeasured: facts.unmeasured.map(|(looks, seconds, why)| (looks * BLIND_LOOKS, seconds, why)),
        ..facts.clone()
    };
    gravest(&patient)
}

fn finding(kind: Kind, severity: Severity, summary: String) -> Option<Finding> {
    Some(Finding { kind, severity, summary })
}

fn blind(facts: &Facts<'_>) -> Option<Finding> {
    let (_, seconds, why) = facts.unmeasured.filter(|(looks, ..)| *looks >= BLIND_LOOKS)?;
    let summary =
        format!("the level of `{}` was not measured for {}: {why}", facts.keyspace, spoken(seconds));
    finding(Kind::Blind, Severity::Critical, summary)
}

fn below_page_mark(facts: &Facts<'_>) -> Option<Finding> {
    let (standing, mark) = facts.measured().zip(facts.marks.page_below)?;
    let looks = if facts.is_rising { PAGE_LOOKS_RISING } else { PAGE_LOOKS };
    (facts.below_page >= looks).then_some(())?;
    finding(Kind::BelowPageMark, Severity::Critical, below(facts, standing, "page_below", mark))
}

fn filler_stuck(facts: &Facts<'_>) -> Option<Finding> {
    let standing = facts.measured().filter(|_| facts.restarts_spent && facts.wants_restart())?;
    let summary = format!(
        "`{}` {} and is not recovering: {} restarts of its filler did not help{}",
        facts.keyspace,
        left(standing),
        facts.restarts,
        outlook(standing, facts.now)
    );
    finding(Kind::FillerStuck, Severity::Critical, summary)
}

fn low(facts: &Facts<'_>) -> Option<Finding> {
    let (standing, mark) = facts.measured().filter(|_| facts.is_low()).zip(facts.marks.restart_below)?;
    let below = below(facts, standing, "restart_below", mark);
    let summary =
        format!("{below}, and is not recovering (restarts of its filler: {} of {CAP})", facts.restarts);
    finding(Kind::Low, Severity::Warning, summary)
}

fn dry(facts: &Facts<'_>) -> Option<Finding> {
    let standing = facts.measured().filter(|_| facts.is_dry())?;
    let summary =
        format!("`{}` {}, but none at hand: its stock is not refilled", facts.keyspace, left(standing));
    finding(Kind::Dry, Severity::Warning, summary)
}

fn below(facts: &Facts<'_>, standing: &Standing, name: &str, mark: Mark) -> String {
    format!("`{}` {}, below {name} ({mark}){}", facts.keyspace, left(standing), outlook(standing, facts.now))
}
