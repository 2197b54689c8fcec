//! What a ledger promises. Stores keep it, the conformance suite cites it by number.

use std::{fmt, path::Path};

use async_trait::async_trait;
use keymill_id::Number;
use serde::{Deserialize, Serialize};

use crate::{
    ClaimRow, HoleKind, KeyspaceRow, LeaseRow, LedgerError, NodeRow, Store, Timestamp, TokenRow, Track,
    TrackRow,
    ops::{self, Operation},
};

/// What promise 2 is worth on a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// One durable primary without asynchronous standbys, or a quorum.
    Strict,
    /// May forget an acknowledged write on failover. Needs an explicit yes in the config.
    Lossy,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strict => "strict",
            Self::Lossy => "lossy",
        })
    }
}

/// A set of durable cursors that many nodes share.
///
///  1. No number is in two live blocks, whoever asked and whatever crashed in between.
///  2. A block is durable before it is returned.
///  3. A call that fails or is dropped may have taken effect: a retry can waste a block, never repeat one.
///  4. A block lies at or above `at_least` and below `ceiling`; the last one may be short, then the
///     track is exhausted.
///  5. A give-back lowers the cursor only if the track's revision is the one it names.
///  6. A hole is made at or above the cursor or not at all; every block that is reserved after it was
///     made names it. Holes are never removed.
///  7. A withhold says whether *this* call made the hole.
///  8. A message that comes late or twice changes nothing.
///  9. A newer process of the same name fences the older.
/// 10. A ledger that knows less than it acknowledged is halted before anything is changed, and stays
///     so, for every node, until it is advanced above all witnesses.
/// 11. A keyspace's definition is what its first creator wrote, for ever; everyone reads back the same.
/// 12. Consecutive blocks of one process extend one claim; the claim of a number is found at the same
///     cost however many there are.
/// 13. A worker has at most one live lease; a lease is renewed only by the term that holds it.
/// 14. Names and keys compare byte by byte.
#[async_trait]
pub trait Ledger: fmt::Debug + Send + Sync + 'static {
    /// `sqlite`, `postgres` …
    fn store(&self) -> &'static str;
    fn grade(&self) -> Grade;
    /// Whether the time it tells is its own, and not the caller's.
    fn keeps_time(&self) -> bool;

    async fn register(&self, op: ops::Register) -> Result<ops::Registration, LedgerError>;
    async fn heartbeat(&self, op: ops::Heartbeat) -> Result<ops::Pulse, LedgerError>;
    async fn stop(&self, op: ops::Stop) -> Result<(), LedgerError>;

    async fn reserve(&self, op: ops::Reserve) -> Result<ops::Reserved, LedgerError>;
    async fn give_back(&self, op: ops::GiveBack) -> Result<ops::GivenBack, LedgerError>;
    async fn withhold(&self, op: ops::Withhold) -> Result<ops::Withholding, LedgerError>;

    async fn create_keyspace(&self, op: ops::CreateKeyspace) -> Result<ops::CreatedKeyspace, LedgerError>;
    async fn tune_keyspace(&self, op: ops::TuneKeyspace) -> Result<KeyspaceRow, LedgerError>;
    async fn retire_keyspace(&self, op: ops::RetireKeyspace) -> Result<KeyspaceRow, LedgerError>;

    async fn lease_worker(&self, op: ops::LeaseWorker) -> Result<ops::Lease, LedgerError>;
    async fn renew_worker(&self, op: ops::RenewWorker) -> Result<ops::Lease, LedgerError>;
    async fn release_worker(&self, op: ops::ReleaseWorker) -> Result<(), LedgerError>;

    async fn put_token(&self, op: ops::PutToken) -> Result<(), LedgerError>;
    async fn revoke_token(&self, op: ops::RevokeToken) -> Result<bool, LedgerError>;

    async fn report_witness(&self, op: ops::ReportWitness) -> Result<(), LedgerError>;
    async fn advance(&self, op: ops::Advance) -> Result<Vec<ops::Advanced>, LedgerError>;
    /// Writes a stamped copy: it opens halted, and serves only after `advance`.
    async fn backup(&self, to: &Path, at: Timestamp) -> Result<(), LedgerError>;

    async fn survey(&self, op: ops::Survey) -> Result<ops::SurveyAnswer, LedgerError>;
    async fn nodes(&self) -> Result<Vec<NodeRow>, LedgerError>;
    async fn tracks(&self) -> Result<Vec<(Track, TrackRow)>, LedgerError>;
    async fn track(&self, op: ops::TrackAt) -> Result<Option<TrackRow>, LedgerError>;
    async fn hole(&self, op: ops::HoleAt) -> Result<Option<HoleKind>, LedgerError>;
    async fn holes(&self, op: ops::HolesIn) -> Result<Vec<Number>, LedgerError>;
    async fn claim(&self, op: ops::ClaimAt) -> Result<Option<ClaimRow>, LedgerError>;
    async fn claims(&self, op: ops::Claims) -> Result<Vec<ClaimRow>, LedgerError>;
    async fn keyspace(&self, op: ops::Keyspace) -> Result<Option<KeyspaceRow>, LedgerError>;
    async fn keyspaces(&self) -> Result<Vec<KeyspaceRow>, LedgerError>;
    async fn workers(&self, op: ops::Workers) -> Result<Vec<LeaseRow>, LedgerError>;
    async fn tokens(&self) -> Result<Vec<TokenRow>, LedgerError>;
}

/// Shorthand for what an operation answers.
type Answer<O> = Result<<O as Operation>::Answer, LedgerError>;

/// A store that can run any operation in a transaction is a ledger.
#[async_trait]
impl<S: Store> Ledger for S {
    fn store(&self) -> &'static str {
        Store::name(self)
    }
    fn grade(&self) -> Grade {
        Store::grade(self)
    }
    fn keeps_time(&self) -> bool {
        Store::keeps_time(self)
    }

    async fn register(&self, op: ops::Register) -> Answer<ops::Register> {
        self.transact(op).await
    }
    async fn heartbeat(&self, op: ops::Heartbeat) -> Answer<ops::Heartbeat> {
        self.transact(op).await
    }
    async fn stop(&self, op: ops::Stop) -> Answer<ops::Stop> {
        self.transact(op).await
    }
    async fn reserve(&self, op: ops::Reserve) -> Answer<ops::Reserve> {
        self.transact(op).await
    }
    async fn give_back(&self, op: ops::GiveBack) -> Answer<ops::GiveBack> {
        self.transact(op).await
    }
    async fn withhold(&self, op: ops::Withhold) -> Answer<ops::Withhold> {
        self.transact(op).await
    }
    async fn create_keyspace(&self, op: ops::CreateKeyspace) -> Answer<ops::CreateKeyspace> {
        self.transact(op).await
    }
    async fn tune_keyspace(&self, op: ops::TuneKeyspace) -> Answer<ops::TuneKeyspace> {
        self.transact(op).await
    }
    async fn retire_keyspace(&self, op: ops::RetireKeyspace) -> Answer<ops::RetireKeyspace> {
        self.transact(op).await
    }
    async fn lease_worker(&self, op: ops::LeaseWorker) -> Answer<ops::LeaseWorker> {
        self.transact(op).await
    }
    async fn renew_worker(&self, op: ops::RenewWorker) -> Answer<ops::RenewWorker> {
        self.transact(op).await
    }
    async fn release_worker(&self, op: ops::ReleaseWorker) -> Answer<ops::ReleaseWorker> {
        self.transact(op).await
    }
    async fn put_token(&self, op: ops::PutToken) -> Answer<ops::PutToken> {
        self.transact(op).await
    }
    async fn revoke_token(&self, op: ops::RevokeToken) -> Answer<ops::RevokeToken> {
        self.transact(op).await
    }
    async fn report_witness(&self, op: ops::ReportWitness) -> Answer<ops::ReportWitness> {
        self.transact(op).await
    }
    async fn advance(&self, op: ops::Advance) -> Answer<ops::Advance> {
        self.transact(op).await
    }
    async fn backup(&self, to: &Path, at: Timestamp) -> Result<(), LedgerError> {
        Store::backup(self, to, at).await
    }
    async fn survey(&self, op: ops::Survey) -> Answer<ops::Survey> {
        self.transact(op).await
    }
    async fn nodes(&self) -> Answer<ops::Nodes> {
        self.transact(ops::Nodes {}).await
    }
    async fn tracks(&self) -> Answer<ops::Tracks> {
        self.transact(ops::Tracks {}).await
    }
    async fn track(&self, op: ops::TrackAt) -> Answer<ops::TrackAt> {
        self.transact(op).await
    }
    async fn hole(&self, op: ops::HoleAt) -> Answer<ops::HoleAt> {
        self.transact(op).await
    }
    async fn holes(&self, op: ops::HolesIn) -> Answer<ops::HolesIn> {
        self.transact(op).await
    }
    async fn claim(&self, op: ops::ClaimAt) -> Answer<ops::ClaimAt> {
        self.transact(op).await
    }
    async fn claims(&self, op: ops::Claims) -> Answer<ops::Claims> {
        self.transact(op).await
    }
    async fn keyspace(&self, op: ops::Keyspace) -> Answer<ops::Keyspace> {
        self.transact(op).await
    }
    async fn keyspaces(&self) -> Answer<ops::Keyspaces> {
        self.transact(ops::Keyspaces {}).await
    }
    async fn workers(&self, op: ops::Workers) -> Answer<ops::Workers> {
        self.transact(op).await
    }
    async fn tokens(&self) -> Answer<ops::Tokens> {
        self.transact(ops::Tokens {}).await
    }
}
