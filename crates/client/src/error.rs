//! What callers are told: what happened, on which endpoint, and what to do.

use std::{fmt, time::Duration};

use keymill_wire::Code;

use crate::failure::Failure;

/// Variants differ in what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Change the setting or the argument; nothing was sent.
    #[error("`{setting}` {detail}")]
    Settings { setting: &'static str, detail: String },
    /// Do what the detail says: the server answered, and would answer the same again.
    #[error("{0}")]
    Refused(Failure),
    /// Try again later, or allow more time: no endpoint gave an answer that holds.
    #[error("gave up: {why}{}", Last(last))]
    Unanswered { why: GaveUp, last: Option<Failure> },
    /// Use `take` for this keyspace: its keys are text.
    #[error("the keys of `{keyspace}` are text and not numbers; use `take`")]
    NotNumbers { keyspace: String },
    /// Wait, or set this machine's clock right: IDs that were made, or what was lent to us, are ahead of it.
    #[error("this machine's clock is {by:?} behind the server's or its own past; set it right")]
    ClockBehind { by: Duration },
    /// Set this machine's clock right: the server lends no window that it would be in.
    #[error("this machine's clock is {by:?} ahead of what the server lends; set it right")]
    ClockAhead { by: Duration },
    /// Ask the client for another handle: this one was closed.
    #[error("the handle is closed; ask the client for another")]
    Closed,
}

/// Why no further attempt was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GaveUp {
    /// The deadline was over, or would have been before the next attempt.
    Deadline(Duration),
    /// Too many calls failed lately: more retries would only add to the load.
    RetryBudget,
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline(after) => write!(f, "no answer within the deadline of {after:?}"),
            Self::RetryBudget => f.write_str("the retry budget is spent; let calls succeed or a second pass"),
        }
    }
}

/// The failure before we gave up, for the end of a sentence.
struct Last<'e>(&'e Option<Failure>);

impl fmt::Display for Last<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |failure| write!(f, "; last: {failure}"))
    }
}

impl Error {
    /// The attempt that failed, if one was made.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Refused(failure) => Some(failure),
            Self::Unanswered { last, .. } => last.as_ref(),
            _ => None,
        }
    }

    /// The server's code, as in its table of refusals.
    pub fn code(&self) -> Option<Code> {
        self.failure()?.code
    }

    /// Whether the same call may well succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unanswered { .. } | Self::ClockBehind { .. } | Self::ClockAhead { .. })
    }
}
