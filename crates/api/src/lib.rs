//! Wire shapes: what requests and answers look like, and how every error becomes a refusal.
//!
//! Servers and the command line share this crate, so that they cannot drift apart. What SDKs need of it – the
//! codes and [`grpc`] – is in `keymill-wire`, which knows no store.

mod body;
mod decode;
mod history;
mod incident;
mod keys;
mod keyspace;
mod ledger;
mod names;
mod refusal;
mod rows;
mod snapshot;
mod status;
mod time;
mod token;

pub use body::parse;
pub use decode::{DecodeAnswer, RangeAnswer, ReadingView};
pub use history::{LevelHistory, LevelPoint};
pub use incident::{IncidentList, IncidentView};
pub use keymill_wire::{Code, Grpc, grpc};
pub use keys::{IdView, KeyView, TakeAnswer, TakeRequest};
pub use keyspace::{
    ClaimsSummary, KeyspaceFields, KeyspaceList, KeyspaceSpec, KeyspaceView, tuning_names, tuning_patch,
};
pub use ledger::{
    AdvanceAnswer, AdvanceRequest, AdvancedView, ClaimList, ClaimView, GoneNode, IssuedList, IssuedView,
    LedgerView, NodeKeyspaceView, NodeList, NodeView, TrackView, WorkerList, WorkerView,
};
pub use names::{
    AliasView, BATCH_MAX, BindLink, ChangeLink, LinkList, LinkOutcome, LinkOutcomes, LinkView, NewLink,
    NewLinks, NewRef, NewRefs, NoFields, RefList, RefOutcome, RefOutcomes, RefView, RejectedKey, USED_MAX,
    UsedAnswer, UsedKeys, expiry_ms,
};
pub use refusal::{FieldError, Problem, RateLimit, Refusal};
pub use rows::{
    FillAnswer, FillRequest, IMPORT_KEYS_MAX, ImportAnswer, ImportOutcome, ImportRequest, RandomView,
    RowsView,
};
pub use snapshot::{KeyspaceGlance, NodeGlance, Snapshot, WorkerMap};
pub use status::{Check, CheckState, Health, HealthLedger, Readiness, Reason};
pub use time::{parse_time, rfc3339};
pub use token::{CreatedToken, NewToken, Scope, TokenList, TokenView};
