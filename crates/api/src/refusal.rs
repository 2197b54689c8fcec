//! Every refusal: its code, what to do next, and what it looks like in HTTP.

use std::time::Duration;

use keymill_issuer::{CreateError, IssueError, LendError, meter::Exceeded};
use keymill_ledger::LedgerError;
use keymill_wire::Code;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A refusal: its code, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    pub detail: String,
    pub errors: Vec<FieldError>,
    /// Which limit was met, where it was one of keys a second.
    pub rate_limit: Option<RateLimit>,
    /// Which of several causes it was, where programs want to know: `name_taken` has some.
    pub reason: Option<&'static str>,
}

/// A limit of keys a second, as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Keys a second.
    pub limit: u64,
    /// Keys that could be had now.
    pub remaining: u64,
    /// Seconds until as many as ever could be had.
    pub reset: u64,
    /// Seconds until the same request would be answered.
    pub retry_after: u32,
}

/// Which field of a body was wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// A JSON pointer into the body, such as `#/count`.
    pub pointer: String,
    pub detail: String,
}

/// `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    #[serde(rename = "type")]
    #[schema(example = "urn:keymill:exhausted")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// What happened and what to do next.
    pub detail: String,
    pub code: Code,
    /// Which of several causes it was: `name_taken` says `alias`, `issued`, `in_stock` or `bound`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

impl Refusal {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new(), rate_limit: None, reason: None }
    }

    /// A field that is wrong; `pointer` is its name, or a path with slashes.
    pub fn field(code: Code, pointer: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let error = FieldError { pointer: format!("#/{pointer}"), detail: detail.clone() };
        Self { errors: vec![error], ..Self::new(code, detail) }
    }

    /// Whether trying again later can help, and after how many seconds.
    pub fn retry_after(&self) -> Option<u32> {
        self.rate_limit.map(|limit| limit.retry_after).or(self.code.retry_after())
    }

    pub fn problem(&self) -> Problem {
        Problem {
            kind: format!("urn:keymill:{}", self.code.as_str()),
            title: self.code.title().to_owned(),
            status: self.code.spelled().0,
            detail: self.detail.clone(),
            code: self.code,
            reason: self.reason.map(str::to_owned),
            errors: self.errors.clone(),
        }
    }
}

impl From<Exceeded> for RateLimit {
    fn from(exceeded: Exceeded) -> Self {
        let seconds = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
        Self {
            limit: exceeded.rate,
            remaining: exceeded.left,
            reset: seconds(exceeded.whole_in),
            retry_after: u32::try_from(seconds(exceeded.wait).max(1)).unwrap_or(u32::MAX),
        }
    }
}

impl From<IssueError> for Refusal {
    fn from(error: IssueError) -> Self {
        let (code, next) = match &error {
            IssueError::KeyspaceNotFound => {
                (Code::KeyspaceNotFound, "create it with POST /v1/keyspaces, or list what there is with GET")
            }
            IssueError::Retired => (Code::Retired, "take from another keyspace"),
            IssueError::Exhausted => {
                (Code::Exhausted, "create a keyspace with longer keys, or one with `grow = true`")
            }
            IssueError::MadeFromContent => {
                (Code::WrongScheme, "POST the content to the keyspace's `links` or `refs`")
            }
            IssueError::OutOfStock => (Code::OutOfStock, "try again in a moment"),
            IssueError::NoRows(_) => (Code::OutOfStock, "try again once that is mended"),
            IssueError::LedgerUnavailable => (Code::LedgerUnavailable, "try again in a moment"),
            IssueError::Unrecorded => (Code::LedgerUnavailable, "try again in a moment"),
            IssueError::NoKeyLog => (
                Code::RegistryOff,
                "name PostgreSQL or MariaDB in registry.url and restart, or set `audit` to `claim`",
            ),
            IssueError::Overloaded => (Code::Overloaded, "try again in a moment, or ask another node"),
            IssueError::ClockBehind { .. } => (Code::ClockBehind, "try again once the clock has caught up"),
            IssueError::ClockAhead { .. } => {
                (Code::ClockAhead, "set the node's clock right; if it is right, restart the node")
            }
            IssueError::NoWorker(_) => {
                (Code::NoWorker, "stop nodes that are not needed, or wait for workers to rest")
            }
            IssueError::LedgerHalted(_) => (
                Code::LedgerHalted,
                "an operator must look at `keymill ledger show` and then run `keymill ledger advance`",
            ),
            IssueError::Starting => (Code::Starting, "try again in a moment"),
            IssueError::Draining => (Code::Draining, "ask another node"),
            IssueError::Internal => (Code::Internal, "tell whoever runs this server"),
        };
        Self::new(code, format!("{error}; {next}"))
    }
}

impl From<&LedgerError> for Refusal {
    fn from(error: &LedgerError) -> Self {
        match error {
            LedgerError::RegionConflict { .. } | LedgerError::RegionElsewhere { .. } => {
                Self::new(Code::RegionConflict, error.to_string())
            }
            LedgerError::LostKeyspace { .. } | LedgerError::RootTaken { .. } => {
                Self::new(Code::DefinitionConflict, error.to_string())
            }
            LedgerError::TooManyKeyspaces { .. }
            | LedgerError::TooManyHoles { .. }
            | LedgerError::AwaitingNodes { .. }
            | LedgerError::NotHalted
            | LedgerError::Unsupported { .. } => Self::new(Code::InvalidField, error.to_string()),
            LedgerError::NoWorker { .. } => Self::new(Code::NoWorker, error.to_string()),
            other => IssueError::from_ledger(other).into(),
        }
    }
}

impl From<CreateError> for Refusal {
    fn from(error: CreateError) -> Self {
        let detail = error.to_string();
        match error {
            CreateError::Definition(definition) => {
                Self::field(Code::InvalidField, definition.field(), detail)
            }
            CreateError::Tuning { field, .. } => Self::field(Code::InvalidField, field, detail),
            CreateError::Conflict { conflicts, .. } => {
                let errors = conflicts.into_iter().map(|conflict| FieldError {
                    pointer: format!("#/{}", conflict.field),
                    detail: format!("the ledger has {}, this says {}", conflict.stored, conflict.stated),
                });
                Self { errors: errors.collect(), ..Self::new(Code::DefinitionConflict, detail) }
            }
            CreateError::Retired { .. } => Self::new(Code::Retired, detail),
            CreateError::Ledger(error) => Self::from(&error),
            CreateError::Node(error) => error.into(),
        }
    }
}

impl From<LendError> for Refusal {
    fn from(error: LendError) -> Self {
        let detail = error.to_string();
        match error {
            LendError::NoWorkers { .. } | LendError::Recorded { .. } => Self::new(Code::WrongScheme, detail),
            LendError::Holder | LendError::HolderIsNode => Self::field(Code::InvalidField, "holder", detail),
            LendError::Window(_) => Self::field(Code::InvalidField, "window_ms", detail),
            LendError::LeaseId { .. } => Self::field(Code::InvalidField, "lease_id", detail),
            LendError::LeaseLost { .. } => {
                Self::new(Code::LeaseLost, format!("{detail}; lease a worker again with LeaseWorker"))
            }
            LendError::FarAhead { .. } => {
                Self::new(Code::OutOfStock, format!("{detail}; renew once less of them is left"))
            }
            LendError::Issue(error) => error.into(),
        }
    }
}
