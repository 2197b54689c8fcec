//! Keys over gRPC, next to a bare tonic server that answers from an atomic counter.
//!
//! The client is a plain tonic one, in this process; what is measured is the server's CPU.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use futures_util::{Stream, stream};
use keymill_api::grpc::{
    InspectRequest, InspectResponse, KeyBatch, LeaseWorkerRequest, Numbers, ReleaseWorkerRequest,
    ReleaseWorkerResponse, RenewWorkerRequest, StreamRequest, TakeRequest, TakeResponse, WorkerLease,
    key_batch::Keys,
    keymill_client::KeymillClient,
    keymill_server::{Keymill, KeymillServer},
};
use tonic::{Request, Response, Status, transport::Channel};

use crate::{
    compare,
    process::{Server, free_port},
};

/// How long each load lasts.
const LOAD: Duration = Duration::from_secs(3);
/// Interleaved, so that a slow minute of the machine hits both.
const ROUNDS: usize = 3;
/// Calls under way at a time on the one connection.
const CALLS: usize = 50;
/// Wide enough that a stream is not held up by the next millisecond: 2^20 IDs each.
const WIDE: &str = r#"{"name":"wide","scheme":"snowflake","layout":"time:41 worker:2 sequence:20"}"#;

pub(crate) fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let dir = tempfile::tempdir()?;
    let port = free_port()?;
    let bare = Server::start(
        Command::new(std::env::current_exe()?).args(["bare-tonic", &port.to_string()]),
        format!("127.0.0.1:{port}"),
    )?;
    let keymill = Server::keymill(&dir.path().join("data"))?;
    keymill.post("/v1/keyspaces", "Content-Type: application/json\r\n", WIDE)?;
    let figure = |server: &Server, keyspace| runtime.block_on(unary(server, keyspace));
    let (floor, ours) = interleaved(|| figure(&bare, "links"), || figure(&keymill, "links"))?;
    compare("bare tonic, unary, CPU a call", floor * 1e6, "us", "", 1.0, "-");
    compare("keymill Take, one key, CPU a call", ours * 1e6, "us", "of bare tonic", floor / ours, "near 1x");

    let figure = |server: &Server, keyspace| runtime.block_on(streamed(server, keyspace));
    let (floor, ours) = interleaved(|| figure(&bare, "wide"), || figure(&keymill, "wide"))?;
    compare("bare tonic, stream of fixed64, CPU a number", floor * 1e9, "ns", "", 1.0, "-");
    let millions = |cost: f64| format!("({:.1} M a CPU second)", 1e-6 / cost);
    compare("keymill Stream, numbers, CPU an ID", ours * 1e9, "ns", &millions(ours), floor / ours, ">= 20 M");
    for (what, keyspace, goal) in [
        ("keymill Stream, runs, CPU a ticket", "tickets", ">= 20 M"),
        ("keymill Stream, text, CPU a key", "links", ">= 5 M"),
    ] {
        let mut costs = (0..ROUNDS).map(|_| figure(&keymill, keyspace)).collect::<Result<Vec<_>, _>>()?;
        let cost = median(&mut costs);
        compare(what, cost * 1e9, "ns", &millions(cost), floor / cost, goal);
    }
    Ok(())
}

fn interleaved(
    mut one: impl FnMut() -> anyhow::Result<f64>,
    mut other: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<(f64, f64)> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ones.push(one()?);
        others.push(other()?);
    }
    Ok((median(&mut ones), median(&mut others)))
}

fn median(costs: &mut [f64]) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

async fn client(server: &Server) -> anyhow::Result<KeymillClient<Channel>> {
    let channel = Channel::from_shared(format!("http://{}", server.address))?.connect().await?;
    Ok(KeymillClient::new(channel))
}

/// Server CPU seconds for one call.
#[expect(clippy::cast_precision_loss, reason = "a figure")]
async fn unary(server: &Server, keyspace: &'static str) -> anyhow::Result<f64> {
    let client = client(server).await?;
    let (before, until) = (server.cpu_seconds()?, Instant::now() + LOAD);
    let callers = (0..CALLS).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let mut calls = 0u64;
            while Instant::now() < until {
                let taken = client.take(TakeRequest { keyspace: keyspace.to_owned(), count: 1 }).await?;
                calls += taken.get_ref().keys.len() as u64;
            }
            Ok::<u64, Status>(calls)
        })
    });
    let mut calls = 0;
    for caller in callers.collect::<Vec<_>>() {
        calls += caller.await??;
    }
    Ok((server.cpu_seconds()? - before) / calls as f64)
}

/// Server CPU seconds for one key of a stream.
#[expect(clippy::cast_precision_loss, reason = "a figure")]
async fn streamed(server: &Server, keyspace: &str) -> anyhow::Result<f64> {
    let request = StreamRequest { keyspace: keyspace.to_owned(), count: 0, batch: 1000 };
    let mut batches = client(server).await?.stream(request).await?.into_inner();
    let (before, until) = (server.cpu_seconds()?, Instant::now() + LOAD);
    let mut keys = 0u64;
    while Instant::now() < until {
        let batch = batches.message().await?.and_then(|batch| batch.keys);
        keys += match batch.context("an endless stream")? {
            Keys::Text(text) => (text.joined.len() / text.stride as usize) as u64,
            Keys::Numbers(numbers) => numbers.values.len() as u64,
            Keys::Run(run) => run.count.into(),
        };
    }
    if keys == 0 {
        bail!("no keys came");
    }
    Ok((server.cpu_seconds()? - before) / keys as f64)
}

/// What this stack costs when there is nothing to do but count.
#[derive(Debug, Default)]
struct Bare {
    next: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl Keymill for Bare {
    async fn take(&self, _: Request<TakeRequest>) -> Result<Response<TakeResponse>, Status> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(TakeResponse { keys: vec![format!("{key:07}")] }))
    }

    type StreamStream = std::pin::Pin<Box<dyn Stream<Item = Result<KeyBatch, Status>> + Send>>;

    async fn stream(&self, request: Request<StreamRequest>) -> Result<Response<Self::StreamStream>, Status> {
        let (next, count) = (self.next.clone(), u64::from(request.get_ref().batch));
        let batches = stream::repeat_with(move || {
            let first = next.fetch_add(count, Ordering::Relaxed);
            let values = (first..first + count).collect();
            Ok(KeyBatch { keys: Some(Keys::Numbers(Numbers { values })) })
        });
        Ok(Response::new(Box::pin(batches)))
    }

    async fn inspect(&self, _: Request<InspectRequest>) -> Result<Response<InspectResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn lease_worker(&self, _: Request<LeaseWorkerRequest>) -> Result<Response<WorkerLease>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn renew_worker(&self, _: Request<RenewWorkerRequest>) -> Result<Response<WorkerLease>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn release_worker(
        &self,
        _: Request<ReleaseWorkerRequest>,
    ) -> Result<Response<ReleaseWorkerResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}

pub(crate) fn bare_tonic() -> anyhow::Result<()> {
    let port = std::env::args().nth(2).context("a port")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let service = KeymillServer::new(Bare::default());
        let address = format!("127.0.0.1:{port}").parse()?;
        tonic::transport::Server::builder().add_service(service).serve(address).await?;
        Ok(())
    })
}
