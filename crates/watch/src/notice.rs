//! What sinks are given to tell.

use std::time::SystemTime;

use crate::finding::{Kind, Severity, Subject};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Firing,
    Resolved,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }

    /// As PagerDuty's Events API v2 calls it.
    pub fn event_action(self) -> &'static str {
        match self {
            Self::Firing => "trigger",
            Self::Resolved => "resolve",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    pub incident: u64,
    pub status: Status,
    pub subject: Subject,
    pub kind: Kind,
    pub severity: Severity,
    pub summary: String,
    /// Keys left, where that was measured.
    pub level: Option<u64>,
    pub runway_seconds: Option<f64>,
    pub since: SystemTime,
    pub at: SystemTime,
    pub dedup_key: String,
}
