//! Why something is refused: one table for three protocols, so that they cannot drift apart.

use serde::{Deserialize, Serialize};

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
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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
