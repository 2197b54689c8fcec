//! Wire shapes: what requests and answers look like, and the one table of refusals.
//!
//! Servers, the command line and SDKs share this crate, so that they cannot drift apart. A refusal says
//! its HTTP status, gRPC code and RESP prefix as plain data; [`grpc`] alone needs a protocol library.

mod body;
mod decode;
pub mod grpc;
mod keys;
mod keyspace;
mod ledger;
mod names;
mod refusal;
mod status;
mod time;
mod token;

pub use body::parse;
pub use decode::{DecodeAnswer, RangeAnswer, ReadingView};
pub use keys::{IdView, KeyView, TakeAnswer, TakeRequest};
pub use keyspace::{
    ClaimsSummary, KeyspaceFields, KeyspaceList, KeyspaceSpec, KeyspaceView, tuning_names, tuning_patch,
};
pub use ledger::{
    AdvanceAnswer, AdvanceRequest, AdvancedView, ClaimList, ClaimView, GoneNode, LedgerView,
    NodeKeyspaceView, NodeList, NodeView, TrackView, WorkerList, WorkerView,
};
pub use names::{
    AliasView, BATCH_MAX, BindLink, ChangeLink, LinkList, LinkOutcome, LinkOutcomes, LinkView, NewLink,
    NewLinks, NewRef, NewRefs, NoFields, RefList, RefOutcome, RefOutcomes, RefView, RejectedKey, USED_MAX,
    UsedAnswer, UsedKeys, expiry_ms,
};
pub use refusal::{Code, FieldError, Grpc, Problem, RateLimit, Refusal};
pub use status::{Health, HealthLedger, Readiness, Reason};
pub use time::{parse_time, rfc3339};
pub use token::{CreatedToken, NewToken, Scope, TokenList, TokenView};
