//! Every refusal, spelled once for three protocols.

use std::time::Duration;

use keymill_issuer::{CreateError, IssueError, LendError, meter::Exceeded};
use keymill_ledger::LedgerError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// gRPC's status codes, as far as refusals use them, with their numbers on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Grpc {
    InvalidArgument = 3,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    OutOfRange = 11,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

macro_rules! codes {
    ($($variant:ident = $code:literal, $http:literal, $grpc:ident, $resp:literal, $title:literal;)*) => {
        /// A stable name for why something was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Code { $($variant),* }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }

            /// HTTP status, gRPC code, RESP prefix.
            pub fn spelled(self) -> (u16, Grpc, &'static str) {
                match self { $(Self::$variant => ($http, Grpc::$grpc, $resp)),* }
            }

            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),* }
            }
        }
    };
}

codes! {
    InvalidRequest = "invalid_request", 400, InvalidArgument, "ERR", "The request cannot be read";
    MethodNotAllowed = "method_not_allowed", 405, InvalidArgument, "ERR", "That method does not apply here";
    RequestTimeout = "request_timeout", 408, InvalidArgument, "ERR", "The request took too long to arrive";
    BodyTooLarge = "body_too_large", 413, InvalidArgument, "ERR", "The body is too large";
    UnsupportedMediaType = "unsupported_media_type", 415, InvalidArgument, "ERR", "The body is not JSON";
    HeadersTooLarge = "headers_too_large", 431, InvalidArgument, "ERR", "The headers are too large";

    InvalidField = "invalid_field", 422, InvalidArgument, "ERR", "A field is wrong";
    CountOutOfRange = "count_out_of_range", 422, InvalidArgument, "ERR", "The count is out of range";
    InvalidAlias = "invalid_alias", 422, InvalidArgument, "ERR", "The alias is not allowed";
    ReservedWord = "reserved_word", 422, InvalidArgument, "ERR", "The word is reserved";
    InvalidTarget = "invalid_target", 422, InvalidArgument, "ERR", "The target is not allowed";
    RedirectLoop = "redirect_loop", 422, InvalidArgument, "ERR", "The target leads back here";
    IdempotencyMismatch = "idempotency_mismatch", 422, InvalidArgument, "ERR", "The idempotency key was used for another request";
    RegistryOff = "registry_off", 422, InvalidArgument, "ERR", "There is no registry";
    WrongScheme = "wrong_scheme", 422, FailedPrecondition, "WRONGTYPE", "The keyspace's scheme cannot do that";

    Unauthenticated = "unauthenticated", 401, Unauthenticated, "NOAUTH", "A token is needed";
    Forbidden = "forbidden", 403, PermissionDenied, "NOPERM", "The token does not allow that";

    RouteNotFound = "route_not_found", 404, NotFound, "NOTFOUND", "There is nothing at that address";
    KeyspaceNotFound = "keyspace_not_found", 404, NotFound, "NOTFOUND", "There is no such keyspace";
    KeyNotFound = "key_not_found", 404, NotFound, "NOTFOUND", "There is no such key";

    NameTaken = "name_taken", 409, AlreadyExists, "CONFLICT", "The name is taken";
    AlreadyBound = "already_bound", 409, AlreadyExists, "CONFLICT", "The key is bound already";
    DefinitionConflict = "definition_conflict", 409, AlreadyExists, "CONFLICT", "The keyspace is defined otherwise";
    RegionConflict = "region_conflict", 409, AlreadyExists, "CONFLICT", "The ledger belongs to another region";
    IdempotencyInProgress = "idempotency_in_progress", 409, AlreadyExists, "CONFLICT", "The same request is under way";

    LeaseLost = "lease_lost", 409, FailedPrecondition, "CONFLICT", "The lease on the worker is lost";

    Exhausted = "exhausted", 410, OutOfRange, "EXHAUSTED", "The keyspace is used up";
    Retired = "retired", 410, OutOfRange, "RETIRED", "The keyspace is retired";
    LinkGone = "link_gone", 410, OutOfRange, "", "The link is gone";

    RateLimited = "rate_limited", 429, ResourceExhausted, "LIMIT", "Too many keys at once";

    OutOfStock = "out_of_stock", 503, Unavailable, "TRYAGAIN", "The stock is empty for the moment";
    ClockBehind = "clock_behind", 503, Unavailable, "TRYAGAIN", "The clock is behind";
    ClockAhead = "clock_ahead", 503, Unavailable, "TRYAGAIN", "The clock is ahead";
    NoWorker = "no_worker", 503, Unavailable, "TRYAGAIN", "No worker id is free";
    LedgerUnavailable = "ledger_unavailable", 503, Unavailable, "TRYAGAIN", "The ledger cannot be reached";
    Overloaded = "overloaded", 503, Unavailable, "TRYAGAIN", "The server is overloaded";
    Starting = "starting", 503, Unavailable, "LOADING", "The server is starting";
    Draining = "draining", 503, Unavailable, "LOADING", "The server is stopping";
    LedgerHalted = "ledger_halted", 503, Unavailable, "HALTED", "The ledger is halted";

    Internal = "internal", 500, Internal, "ERR", "Something went wrong here";
}

impl Code {
    /// Whether trying again later can help, and after how many seconds.
    pub fn retry_after(self) -> Option<u32> {
        match self.spelled().0 {
            429 | 503 => Some(if self == Self::LedgerHalted { 30 } else { 1 }),
            _ => None,
        }
    }
}

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
            LendError::NoWorkers { .. } => Self::new(Code::WrongScheme, detail),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_spelled_as_its_serde_name_and_once() {
        let mut seen = std::collections::HashSet::new();
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert!(seen.insert(code.as_str()));
        }
        assert_eq!(seen.len(), 40);
    }

    #[test]
    fn what_may_be_retried_says_when() {
        for code in Code::ALL {
            let status = code.spelled().0;
            assert_eq!(code.retry_after().is_some(), status == 429 || status == 503, "{code:?}");
        }
    }
}
