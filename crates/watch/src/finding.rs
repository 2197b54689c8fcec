//! What is wrong, as a check found it. A finding knows no sink.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something is being done about it.
    Warning,
    /// A human has to.
    Critical,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Below the restart mark, and not recovering.
    Low,
    /// Keys are left, but none is at hand.
    Dry,
    /// Restarts of the filler did not help.
    FillerStuck,
    BelowPageMark,
    /// Nobody knows.
    Blind,
    LedgerHalted,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Dry => "dry",
            Self::FillerStuck => "filler_stuck",
            Self::BelowPageMark => "below_page_mark",
            Self::Blind => "blind",
            Self::LedgerHalted => "ledger_halted",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kind: Kind,
    pub severity: Severity,
    /// A sentence that can be read alone.
    pub summary: String,
}

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    Keyspace(String),
    /// What everything rests on: `ledger`, `server`.
    Ground(&'static str),
}

impl Subject {
    /// The same for as long as the subject exists, and for every node that watches it, so that whoever is told
    /// twice can tell.
    pub(crate) fn dedup_key(&self, scope: &str) -> String {
        match self {
            Self::Keyspace(name) => format!("keymill/{scope}/keyspace/{name}"),
            Self::Ground(name) => format!("keymill/{scope}/{name}"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyspace(name) => f.write_str(name),
            Self::Ground(name) => f.write_str(name),
        }
    }
}
