//! `keymill.v1.Keymill`: each call is parsed, asked of the node, and answered.

use std::sync::Arc;

use keymill_api::{
    Code, KeyView, Refusal, Scope,
    grpc::{
        InspectRequest, InspectResponse, LeaseWorkerRequest, ReleaseWorkerRequest, ReleaseWorkerResponse,
        RenewWorkerRequest, StreamRequest, TakeRequest, TakeResponse, WorkerLease, keymill_server::Keymill,
    },
};
use keymill_issuer::{IssueError, Loan, Served};
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::{Request, Response, Status};

use super::{
    deadline::Deadline,
    refuse::{refused, repeated, status},
    stream::{self, KeyStream, Order},
};
use crate::{auth::Caller, config::Limits, http::State};

/// Keys taken at a time for a stream, unless it says otherwise.
const BATCH: u32 = 1000;
/// Streams open at a time: each may hold a batch for a reader that does not read.
const STREAMS_MAX: usize = 1024;
/// Loans under way at a time: each waits for the node's one pen, which refills need as well.
const LOANS_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Service {
    state: Arc<State>,
    streams: Arc<Semaphore>,
    loans: Semaphore,
}

impl Service {
    pub(super) fn new(state: Arc<State>) -> Self {
        Self { state, streams: Arc::new(Semaphore::new(STREAMS_MAX)), loans: Semaphore::new(LOANS_MAX) }
    }

    /// The keyspace, if the caller may do that in it.
    async fn keyspace(&self, caller: &Caller, scope: Scope, name: &str) -> Result<Arc<Served>, Status> {
        caller.refuse_unless(scope).map_err(|refusal| status(&refusal))?;
        caller.refuse_unless_seen(name).map_err(refused)?;
        match self.state.node.known(name) {
            Some(served) => Ok(served),
            None => self.state.node.keyspace(name).await.map_err(refused),
        }
    }

    fn limits(&self) -> &Limits {
        &self.state.config.limits
    }

    /// A place among those who borrow workers.
    fn at_the_pen(&self) -> Result<SemaphorePermit<'_>, Status> {
        self.loans.try_acquire().map_err(|_| overloaded(&format!("{LOANS_MAX} loans are under way")))
    }
}

/// Whoever was let in by [`super::Grpc::call`].
fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    request.extensions().get::<Caller>().cloned().ok_or_else(|| refused(IssueError::Internal))
}

fn overloaded(by: &str) -> Status {
    status(&Refusal::new(Code::Overloaded, format!("{by}; try again in a moment")))
}

/// A count of keys within `limits.count_max`; 0 stands for `unless_said`.
fn bounded(field: &str, stated: u32, unless_said: u32, limits: &Limits) -> Result<u32, Status> {
    match stated {
        0 => Ok(unless_said.min(limits.count_max)),
        stated if stated <= limits.count_max => Ok(stated),
        stated => {
            let detail = format!(
                "`{field}` must be at most limits.count_max ({}), and is {stated}; use Stream for more",
                limits.count_max
            );
            Err(status(&Refusal::field(Code::CountOutOfRange, field, detail)))
        }
    }
}

#[tonic::async_trait]
impl Keymill for Service {
    async fn take(&self, request: Request<TakeRequest>) -> Result<Response<TakeResponse>, Status> {
        let (deadline, caller) = (Deadline::of(request.metadata()), caller(&request)?);
        let TakeRequest { keyspace, count } = request.into_inner();
        let count = bounded("count", count, 1, self.limits())?;
        let served = self.keyspace(&caller, Scope::Take, &keyspace).await?;
        let now = || self.state.node.elapsed();
        caller.charge(&served, count, now).map_err(refused)?;
        if count == 1
            && let Some(key) = served.with_one(text)
        {
            return Ok(Response::new(TakeResponse { keys: vec![key] }));
        }
        let patience = deadline.patience(self.limits().take_timeout.duration());
        let taken = served.take(count, patience).await;
        let haul = taken.inspect_err(|_| caller.refund(&served, count)).map_err(refused)?;
        Ok(Response::new(TakeResponse { keys: haul.keys().map(text).collect() }))
    }

    type StreamStream = KeyStream;

    async fn stream(&self, request: Request<StreamRequest>) -> Result<Response<KeyStream>, Status> {
        let (deadline, caller) = (Deadline::of(request.metadata()), caller(&request)?);
        let StreamRequest { keyspace, count, batch } = request.into_inner();
        let batch = bounded("batch", batch, BATCH, self.limits())?;
        let served = self.keyspace(&caller, Scope::Take, &keyspace).await?;
        let seat = self.streams.clone().try_acquire_owned();
        let seat = seat.map_err(|_| overloaded(&format!("{STREAMS_MAX} streams are open")))?;
        let order = Order {
            served,
            count: (count > 0).then_some(count),
            batch,
            patience: self.limits().take_timeout.duration(),
            deadline,
            caller,
        };
        Ok(Response::new(stream::keys(&self.state, order, seat)))
    }

    async fn inspect(&self, request: Request<InspectRequest>) -> Result<Response<InspectResponse>, Status> {
        let caller = caller(&request)?;
        let InspectRequest { keyspace, key } = request.into_inner();
        let served = self.keyspace(&caller, Scope::Inspect, &keyspace).await?;
        let found = self.state.node.inspect(&served, &key).await;
        let Some(found) = found.map_err(|error| refused(&error))? else {
            let detail = format!("keyspace `{keyspace}` cannot spell `{}`", repeated(&key));
            return Err(status(&Refusal::new(Code::KeyNotFound, detail)));
        };
        Ok(Response::new(inspected(KeyView::new(&keyspace, &key, &found))))
    }

    async fn lease_worker(
        &self,
        request: Request<LeaseWorkerRequest>,
    ) -> Result<Response<WorkerLease>, Status> {
        let caller = caller(&request)?;
        let LeaseWorkerRequest { keyspace, holder, window_ms } = request.into_inner();
        let served = self.keyspace(&caller, Scope::Take, &keyspace).await?;
        let _place = self.at_the_pen()?;
        let loan = self.state.node.lend_worker(&served, &holder, window_ms).await.map_err(refused)?;
        Ok(Response::new(lease(&loan)?))
    }

    async fn renew_worker(
        &self,
        request: Request<RenewWorkerRequest>,
    ) -> Result<Response<WorkerLease>, Status> {
        let caller = caller(&request)?;
        let RenewWorkerRequest { keyspace, worker, lease_id, window_ms } = request.into_inner();
        let served = self.keyspace(&caller, Scope::Take, &keyspace).await?;
        let _place = self.at_the_pen()?;
        let renewed = self.state.node.renew_loan(&served, worker, &lease_id, window_ms).await;
        Ok(Response::new(lease(&renewed.map_err(refused)?)?))
    }

    /// `unused_from` is not acted on: what was lent counts as issued.
    async fn release_worker(
        &self,
        request: Request<ReleaseWorkerRequest>,
    ) -> Result<Response<ReleaseWorkerResponse>, Status> {
        let caller = caller(&request)?;
        let ReleaseWorkerRequest { keyspace, worker, lease_id, unused_from: _ } = request.into_inner();
        let served = self.keyspace(&caller, Scope::Take, &keyspace).await?;
        let _place = self.at_the_pen()?;
        self.state.node.release_loan(&served, worker, &lease_id).await.map_err(refused)?;
        Ok(Response::new(ReleaseWorkerResponse {}))
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8(key.to_vec()).expect("alphabets are ASCII")
}

fn inspected(view: KeyView) -> InspectResponse {
    let state = serde_json::to_value(view.state).ok();
    InspectResponse {
        keyspace: view.keyspace,
        key: view.key,
        number: view.number.unwrap_or_default(),
        state: state.and_then(|state| Some(state.as_str()?.to_owned())).unwrap_or_default(),
        node: view.node.unwrap_or_default(),
        reserved_at: view.reserved_at.unwrap_or_default(),
        issued_after: view.issued_after.unwrap_or_default(),
        issued_before: view.issued_before.unwrap_or_default(),
    }
}

fn lease(loan: &Loan) -> Result<WorkerLease, Status> {
    let Loan { lease, region, layout, window, ttl_ms } = loan;
    let too_large = |_| refused(IssueError::Internal);
    Ok(WorkerLease {
        lease_id: lease.to_string(),
        worker: lease.worker.0.into(),
        region: *region,
        layout: layout.to_string(),
        epoch_ms: i64::try_from(layout.epoch_ms()).map_err(too_large)?,
        tick_ms: layout.tick_ms(),
        window_start: window.start(),
        window_end: window.end(),
        // A lease may be long; that it should be renewed by then is true all the same.
        ttl_ms: u32::try_from(*ttl_ms).unwrap_or(u32::MAX),
    })
}
