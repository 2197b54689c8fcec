//! Incidents: a finding that lasts is one incident, told once and resolved once.

use std::{
    collections::{BTreeMap, VecDeque},
    time::SystemTime,
};

use crate::finding::{Finding, Kind, Severity, Subject};

/// Looks in a row that must be well before an incident is over.
const WELL_LOOKS: u32 = 3;
/// Incidents that are listed, and those that are remembered once they are over.
const REMEMBERED: usize = 1000;

/// From the first finding of a subject to its last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Episode {
    open: Option<Open>,
}

#[derive(Debug, Clone)]
struct Open {
    severity: Severity,
    well: u32,
}

/// What a look changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    /// It begins.
    Opened(Severity),
    /// What was being taken care of needs a human after all.
    Escalated,
    /// It goes on.
    Lasts,
    /// It is over; with the gravest it ever was.
    Resolved(Severity),
}

impl Episode {
    /// `is_well`: measured, without a finding, and well above the marks.
    pub(crate) fn judge(&mut self, finding: Option<Severity>, is_well: bool) -> Change {
        match (&mut self.open, finding) {
            (None, None) => Change::Nothing,
            (None, Some(severity)) => {
                self.open = Some(Open { severity, well: 0 });
                Change::Opened(severity)
            }
            (Some(open), Some(severity)) => {
                open.well = 0;
                if severity <= open.severity {
                    return Change::Lasts;
                }
                open.severity = severity;
                Change::Escalated
            }
            (Some(open), None) => {
                open.well = if is_well { open.well + 1 } else { 0 };
                if open.well < WELL_LOOKS { Change::Lasts } else { self.end() }
            }
        }
    }

    /// Ends it, as nobody watches any longer.
    pub(crate) fn end(&mut self) -> Change {
        self.open.take().map_or(Change::Nothing, |open| Change::Resolved(open.severity))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    pub id: u64,
    pub subject: Subject,
    pub kind: Kind,
    pub severity: Severity,
    pub summary: String,
    pub since: SystemTime,
    pub resolved_at: Option<SystemTime>,
    /// When the first sink took the page.
    pub notified_at: Option<SystemTime>,
    pub dedup_key: String,
}

/// Open incidents, one a subject, and the newest of those that are over.
#[derive(Debug, Default)]
pub(crate) struct Log {
    open: BTreeMap<Subject, Incident>,
    over: VecDeque<Incident>,
    next: u64,
}

impl Log {
    pub(crate) fn open(
        &mut self,
        subject: &Subject,
        finding: &Finding,
        since: SystemTime,
        scope: &str,
    ) -> &Incident {
        self.next += 1;
        let incident = Incident {
            id: self.next,
            subject: subject.clone(),
            kind: finding.kind,
            severity: finding.severity,
            summary: finding.summary.clone(),
            since,
            resolved_at: None,
            notified_at: None,
            dedup_key: subject.dedup_key(scope),
        };
        self.open.entry(subject.clone()).insert_entry(incident).into_mut()
    }

    /// What is found of it now, unless it was graver before.
    pub(crate) fn lasts(&mut self, subject: &Subject, finding: Option<&Finding>) -> Option<&Incident> {
        let incident = self.open.get_mut(subject)?;
        if let Some(finding) = finding.filter(|finding| finding.severity >= incident.severity) {
            (incident.kind, incident.severity) = (finding.kind, finding.severity);
            finding.summary.clone_into(&mut incident.summary);
        }
        Some(incident)
    }

    pub(crate) fn close(&mut self, subject: &Subject, at: SystemTime) -> Option<&Incident> {
        let incident = Incident { resolved_at: Some(at), ..self.open.remove(subject)? };
        if self.over.len() == REMEMBERED {
            self.over.pop_front();
        }
        self.over.push_back(incident);
        self.over.back()
    }

    /// A sink took the page.
    pub(crate) fn notified(&mut self, id: u64, at: SystemTime) {
        let mut incidents = self.open.values_mut().chain(self.over.iter_mut());
        if let Some(incident) = incidents.find(|incident| incident.id == id) {
            incident.notified_at.get_or_insert(at);
        }
    }

    /// Open ones first, then the newest; [`REMEMBERED`] at most.
    pub(crate) fn list(&self) -> impl Iterator<Item = &Incident> {
        self.open.values().chain(self.over.iter().rev()).take(REMEMBERED)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn memory_is_bounded_and_open_incidents_stay() {
        let mut log = Log::default();
        let finding =
            Finding { kind: Kind::Low, severity: Severity::Warning, summary: "it is low".to_owned() };
        let (ledger, links) = (Subject::Ground("ledger"), Subject::Keyspace("links".to_owned()));
        let at = SystemTime::UNIX_EPOCH;
        let first = log.open(&ledger, &finding, at, "x").id;
        for _ in 0..2 * REMEMBERED {
            log.open(&links, &finding, at, "x");
            log.close(&links, at);
        }
        assert_eq!(log.list().count(), REMEMBERED);
        assert_eq!(log.list().next().unwrap().id, first);
    }

    #[test]
    fn an_incident_is_as_grave_as_it_ever_was() {
        let mut log = Log::default();
        let finding =
            |severity, summary: &str| Finding { kind: Kind::Low, severity, summary: summary.to_owned() };
        let links = Subject::Keyspace("links".to_owned());
        log.open(&links, &finding(Severity::Warning, "low"), SystemTime::UNIX_EPOCH, "x");
        log.lasts(&links, Some(&finding(Severity::Critical, "stuck")));
        let incident = log.lasts(&links, Some(&finding(Severity::Warning, "low"))).unwrap();
        assert_eq!((incident.severity, incident.summary.as_str()), (Severity::Critical, "stuck"));
    }

    proptest! {
        #[test]
        fn pages_and_resolutions_alternate_whatever_is_found(
            looks in prop::collection::vec((0..3u8, any::<bool>()), 0..200)
        ) {
            let (mut episode, mut told, mut well) = (Episode::default(), false, 0);
            for (found, is_well) in looks {
                let finding = [None, Some(Severity::Warning), Some(Severity::Critical)][usize::from(found)];
                let was_open = episode.is_open();
                let change = episode.judge(finding, is_well && finding.is_none());
                well = if is_well && finding.is_none() && was_open { well + 1 } else { 0 };
                match change {
                    Change::Opened(Severity::Critical) | Change::Escalated => {
                        prop_assert!(!told, "one page an incident");
                        told = true;
                    }
                    Change::Resolved(severity) => {
                        prop_assert_eq!(severity == Severity::Critical, told, "who was told is told of the end");
                        prop_assert!(well >= WELL_LOOKS);
                        (told, well) = (false, 0);
                    }
                    Change::Opened(Severity::Warning) | Change::Nothing | Change::Lasts => {}
                }
                prop_assert!(finding != Some(Severity::Critical) || told, "what is critical is told");
            }
        }
    }
}
