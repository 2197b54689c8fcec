//! A ledger whose calls are followed. A call of a followed request is a child of its span; of the others, those
//! that grant and take back numbers are followed by chance, and the rest – heartbeats, looks – never.

use std::{fmt, future::Future, path::Path, sync::Arc};

use async_trait::async_trait;
use keymill_id::Number;
use keymill_ledger::{
    ClaimRow, Grade, HoleKind, KeyspaceRow, LeaseRow, Ledger, LedgerError, NodeRow, Timestamp, TokenRow,
    Track, TrackRow, ops,
};
use opentelemetry::{
    KeyValue,
    trace::{Span as _, SpanKind, Status},
};

use super::Traces;

pub(super) struct Followed {
    pub inner: Arc<dyn Ledger>,
    pub traces: Arc<Traces>,
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Followed {
    /// Followed if a followed request makes it; one that is about `numbers` also by chance.
    async fn follow<A>(
        &self,
        operation: &'static str,
        numbers: Option<&Track>,
        call: impl Future<Output = Result<A, LedgerError>>,
    ) -> Result<A, LedgerError> {
        let by_chance = || numbers.and_then(|_| self.traces.by_chance());
        let Some(parent) = super::followed().or_else(by_chance) else { return call.await };
        let mut attributes = vec![
            KeyValue::new("db.system.name", self.inner.store()),
            KeyValue::new("db.operation.name", operation),
        ];
        attributes.extend(numbers.map(|track| KeyValue::new("keymill.track", track.to_string())));
        let mut span = self.traces.span(format!("ledger {operation}"), SpanKind::Client, attributes, &parent);
        let answer = call.await;
        if let Err(error) = &answer {
            span.set_status(Status::error(error.to_string()));
        }
        answer
    }
}

#[async_trait]
impl Ledger for Followed {
    fn store(&self) -> &'static str {
        self.inner.store()
    }
    fn grade(&self) -> Grade {
        self.inner.grade()
    }
    fn keeps_time(&self) -> bool {
        self.inner.keeps_time()
    }

    async fn register(&self, op: ops::Register) -> Result<ops::Registration, LedgerError> {
        self.follow("register", None, self.inner.register(op)).await
    }
    async fn heartbeat(&self, op: ops::Heartbeat) -> Result<ops::Pulse, LedgerError> {
        self.follow("heartbeat", None, self.inner.heartbeat(op)).await
    }
    async fn stop(&self, op: ops::Stop) -> Result<(), LedgerError> {
        self.follow("stop", None, self.inner.stop(op)).await
    }
    async fn reserve(&self, op: ops::Reserve) -> Result<ops::Reserved, LedgerError> {
        let track = op.track.clone();
        self.follow("reserve", Some(&track), self.inner.reserve(op)).await
    }
    async fn give_back(&self, op: ops::GiveBack) -> Result<ops::GivenBack, LedgerError> {
        let track = op.track.clone();
        self.follow("give_back", Some(&track), self.inner.give_back(op)).await
    }
    async fn withhold(&self, op: ops::Withhold) -> Result<ops::Withholding, LedgerError> {
        let track = op.track.clone();
        self.follow("withhold", Some(&track), self.inner.withhold(op)).await
    }
    async fn create_keyspace(&self, op: ops::CreateKeyspace) -> Result<ops::CreatedKeyspace, LedgerError> {
        self.follow("create_keyspace", None, self.inner.create_keyspace(op)).await
    }
    async fn tune_keyspace(&self, op: ops::TuneKeyspace) -> Result<KeyspaceRow, LedgerError> {
        self.follow("tune_keyspace", None, self.inner.tune_keyspace(op)).await
    }
    async fn retire_keyspace(&self, op: ops::RetireKeyspace) -> Result<KeyspaceRow, LedgerError> {
        self.follow("retire_keyspace", None, self.inner.retire_keyspace(op)).await
    }
    async fn lease_worker(&self, op: ops::LeaseWorker) -> Result<ops::Lease, LedgerError> {
        self.follow("lease_worker", None, self.inner.lease_worker(op)).await
    }
    async fn renew_worker(&self, op: ops::RenewWorker) -> Result<ops::Lease, LedgerError> {
        self.follow("renew_worker", None, self.inner.renew_worker(op)).await
    }
    async fn release_worker(&self, op: ops::ReleaseWorker) -> Result<(), LedgerError> {
        self.follow("release_worker", None, self.inner.release_worker(op)).await
    }
    async fn put_token(&self, op: ops::PutToken) -> Result<(), LedgerError> {
        self.follow("put_token", None, self.inner.put_token(op)).await
    }
    async fn revoke_token(&self, op: ops::RevokeToken) -> Result<bool, LedgerError> {
        self.follow("revoke_token", None, self.inner.revoke_token(op)).await
    }
    async fn report_witness(&self, op: ops::ReportWitness) -> Result<(), LedgerError> {
        self.follow("report_witness", None, self.inner.report_witness(op)).await
    }
    async fn advance(&self, op: ops::Advance) -> Result<Vec<ops::Advanced>, LedgerError> {
        self.follow("advance", None, self.inner.advance(op)).await
    }
    async fn backup(&self, to: &Path, at: Timestamp) -> Result<(), LedgerError> {
        self.follow("backup", None, self.inner.backup(to, at)).await
    }
    async fn survey(&self, op: ops::Survey) -> Result<ops::SurveyAnswer, LedgerError> {
        self.follow("survey", None, self.inner.survey(op)).await
    }
    async fn nodes(&self) -> Result<Vec<NodeRow>, LedgerError> {
        self.follow("nodes", None, self.inner.nodes()).await
    }
    async fn tracks(&self) -> Result<Vec<(Track, TrackRow)>, LedgerError> {
        self.follow("tracks", None, self.inner.tracks()).await
    }
    async fn track(&self, op: ops::TrackAt) -> Result<Option<TrackRow>, LedgerError> {
        self.follow("track", None, self.inner.track(op)).await
    }
    async fn hole(&self, op: ops::HoleAt) -> Result<Option<HoleKind>, LedgerError> {
        self.follow("hole", None, self.inner.hole(op)).await
    }
    async fn holes(&self, op: ops::HolesIn) -> Result<Vec<Number>, LedgerError> {
        self.follow("holes", None, self.inner.holes(op)).await
    }
    async fn claim(&self, op: ops::ClaimAt) -> Result<Option<ClaimRow>, LedgerError> {
        self.follow("claim", None, self.inner.claim(op)).await
    }
    async fn claims(&self, op: ops::Claims) -> Result<Vec<ClaimRow>, LedgerError> {
        self.follow("claims", None, self.inner.claims(op)).await
    }
    async fn keyspace(&self, op: ops::Keyspace) -> Result<Option<KeyspaceRow>, LedgerError> {
        self.follow("keyspace", None, self.inner.keyspace(op)).await
    }
    async fn keyspaces(&self) -> Result<Vec<KeyspaceRow>, LedgerError> {
        self.follow("keyspaces", None, self.inner.keyspaces()).await
    }
    async fn workers(&self, op: ops::Workers) -> Result<Vec<LeaseRow>, LedgerError> {
        self.follow("workers", None, self.inner.workers(op)).await
    }
    async fn tokens(&self) -> Result<Vec<TokenRow>, LedgerError> {
        self.follow("tokens", None, self.inner.tokens()).await
    }
}
