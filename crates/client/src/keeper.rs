//! The task that keeps a worker: leases one, renews it and its window long before they end, and leases another
//! when it is lost.

use std::{future::Future, sync::Arc, time::Duration};

use keymill_wire::{
    Code,
    grpc::{LeaseWorkerRequest, ReleaseWorkerRequest, RenewWorkerRequest, WorkerLease},
};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Status;

use crate::{core::Line, error::Error, lane::Lane, snowflake::Mint};

/// Whether a lease is still ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    Held,
    Lost,
}

/// Runs until it is aborted.
pub(crate) async fn run(mint: Arc<Mint>) {
    let (mut lease, mut failures) = (Lease::Lost, 0);
    loop {
        let kept = match mint.lane().filter(|_| lease == Lease::Held) {
            None => mint.lease().await,
            Some(lane) => {
                if failures == 0 {
                    mint.rest(&lane).await;
                }
                mint.renew(&lane).await
            }
        };
        match kept {
            Ok(kept) => (lease, failures) = (kept, 0),
            Err(error) => {
                failures += 1;
                let passes = error.is_transient();
                mint.board.bad_news(error);
                if passes {
                    sleep(mint.core.pause(failures)).await;
                } else {
                    mint.nudged().await;
                }
            }
        }
    }
}

impl Mint {
    /// Leaves lease and window alone for a while, unless the window is used up and somebody waits.
    async fn rest(&self, lane: &Lane) {
        let until = Instant::now() + lane.renew_after(self.window);
        while timeout_at(until, self.nudged()).await.is_ok() {
            if lane.clock_ahead().is_some() {
                return;
            }
        }
    }

    async fn call<T, A, F>(&self, attempt: A) -> Result<T, Error>
    where
        A: Fn(Line) -> F,
        F: Future<Output = Result<T, Status>>,
    {
        self.core.call(self.core.deadline(), &|failure| self.board.note(failure), attempt).await
    }

    /// Leases a worker. One that was lost goes on until then: what is left of its window is ours.
    async fn lease(&self) -> Result<Lease, Error> {
        let request = LeaseWorkerRequest {
            keyspace: self.name.as_ref().to_owned(),
            holder: self.holder.clone(),
            window_ms: u32::try_from(self.window.as_millis()).unwrap_or(u32::MAX),
        };
        let lane = self.call(|line| lease_of(line, request.clone())).await?;
        self.core.counters.workers_leased.add(1);
        self.admit(lane);
        Ok(Lease::Held)
    }

    async fn renew(&self, lane: &Lane) -> Result<Lease, Error> {
        // A clock that is beyond what was lent just now would ask for more and more.
        let wanted = if self.is_astray() { Duration::ZERO } else { self.window };
        let request = RenewWorkerRequest {
            keyspace: self.name.as_ref().to_owned(),
            worker: lane.generator.worker(),
            lease_id: lane.lease_id.clone(),
            window_ms: lane.top_up_ms(wanted),
        };
        match self.call(|line| renewal_of(line, request.clone())).await {
            Ok(lease) if lane.extend(&lease).is_ok() => {
                self.core.counters.lease_renewals.add(1);
                self.extended(lane)
            }
            // A window that cannot be ours is as good as none.
            Ok(_) => Ok(self.lost()),
            Err(Error::Refused(failure)) if is_lost(failure.code) => Ok(self.lost()),
            Err(error) => Err(error),
        }
    }

    fn lost(&self) -> Lease {
        self.core.counters.leases_lost.add(1);
        Lease::Lost
    }

    fn extended(&self, lane: &Lane) -> Result<Lease, Error> {
        let ahead = lane.clock_ahead();
        self.set_astray(ahead.is_some());
        self.board.good_news();
        ahead.map_or(Ok(Lease::Held), |by| Err(Error::ClockAhead { by }))
    }

    /// Gives the worker back. What was lent and not used is burned.
    pub(crate) async fn release(&self, lane: &Lane) -> Result<(), Error> {
        let end = lane.generator.end();
        let request = ReleaseWorkerRequest {
            keyspace: self.name.as_ref().to_owned(),
            worker: lane.generator.worker(),
            lease_id: lane.lease_id.clone(),
            unused_from: lane.generator.stop().map_or(end, |unused| unused.start()),
        };
        match self.call(|line| release_of(line, request.clone())).await {
            // An answer that was lost: the worker was given back by an earlier attempt.
            Err(Error::Refused(failure)) if is_lost(failure.code) => Ok(()),
            released => released,
        }
    }
}

/// Whether a refusal means that the lease is not ours any more. `invalid_field` is what a server of another
/// ledger, or of one that was restored, says of it.
fn is_lost(code: Option<Code>) -> bool {
    matches!(code, Some(Code::LeaseLost | Code::InvalidField))
}

async fn lease_of(line: Line, request: LeaseWorkerRequest) -> Result<Lane, Status> {
    let lease = line.begin(line.client.clone().lease_worker(line.request(request))).await?.into_inner();
    Lane::new(&lease).map_err(|why| Status::data_loss(format!("it lent {why}; compare the versions")))
}

async fn renewal_of(line: Line, request: RenewWorkerRequest) -> Result<WorkerLease, Status> {
    Ok(line.begin(line.client.clone().renew_worker(line.request(request))).await?.into_inner())
}

async fn release_of(line: Line, request: ReleaseWorkerRequest) -> Result<(), Status> {
    line.begin(line.client.clone().release_worker(line.request(request))).await.map(drop)
}
