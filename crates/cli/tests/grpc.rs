//! gRPC on the HTTP port of the real binary: what callers get, what they are refused, and what hostile or
//! idle ones cannot do to the others.

use std::{
    collections::{BTreeMap, HashSet},
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body, Bytes, Frame};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use keymill_api::grpc::{
    KeyBatch, LeaseWorkerRequest, ReleaseWorkerRequest, RenewWorkerRequest, StreamRequest, TakeRequest,
    WorkerLease, key_batch::Keys, keymill_client::KeymillClient,
};
use prost::Message;
use serde_json::json;
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

mod harness;
use harness::{Home, PATIENCE, Server, python::Packages};

const PYTHON: &[&str] = &[
    "grpcio==1.85.1",
    "grpcio-tools==1.85.1",
    "grpcio-reflection==1.85.1",
    "grpcio-health-checking==1.85.1",
];
/// What a server may use more while it is abused: far above what it does use, far below "without bound".
const MEMORY_MORE_MAX: u64 = 64 << 20;

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(3 * PATIENCE, test).await.expect("it came to an end") })
}

async fn channel(server: &Server) -> Channel {
    Channel::from_shared(server.url()).unwrap().connect().await.expect("it listens")
}

async fn client(server: &Server) -> KeymillClient<Channel> {
    KeymillClient::new(channel(server).await).max_decoding_message_size(16 << 20)
}

async fn take(
    client: &mut KeymillClient<Channel>,
    keyspace: &str,
    count: u32,
) -> Result<Vec<String>, Status> {
    let request = TakeRequest { keyspace: keyspace.to_owned(), count };
    Ok(client.take(request).await?.into_inner().keys)
}

fn endless(keyspace: &str) -> StreamRequest {
    StreamRequest { keyspace: keyspace.to_owned(), count: 0, batch: 0 }
}

/// The code of our table that a status carries.
fn code(status: &Status) -> (Code, &str) {
    let code = status.metadata().get("keymill-code").map_or("", |code| code.to_str().unwrap());
    (status.code(), code)
}

fn texts(batch: KeyBatch) -> Vec<String> {
    match batch.keys.expect("a batch has keys") {
        Keys::Text(text) => {
            let keys = text.joined.chunks_exact(text.stride as usize);
            keys.map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
        }
        Keys::Numbers(numbers) => numbers.values.iter().map(u64::to_string).collect(),
        Keys::Run(run) => (0..run.count).map(|n| (run.first + u64::from(n) * run.step).to_string()).collect(),
    }
}

/// Keys the server says it issued.
fn issued(server: &Server, keyspace: &str) -> u64 {
    let metrics = server.get("/metrics").text();
    let line = format!("keymill_keys_issued_total{{keyspace=\"{keyspace}\"}} ");
    let value = metrics.lines().find_map(|text| text.strip_prefix(&line));
    value.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

/// Waits until the server has stopped issuing, and returns how many it issued.
fn until_still(server: &Server, keyspace: &str) -> u64 {
    let deadline = Instant::now() + PATIENCE;
    let (mut last, mut same) = (issued(server, keyspace), 0);
    while same < 10 {
        assert!(Instant::now() < deadline, "it goes on and on");
        std::thread::sleep(Duration::from_millis(50));
        let now = issued(server, keyspace);
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}

fn memory(server: &Server) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", server.pid())).unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn python_makes_every_call_from_the_proto_file_alone() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "uuids", "scheme": "uuid7"}));
    server.create(json!({"name": "invoices", "scheme": "sequence", "prefix": "R-", "length": 3}));
    server.create(json!({"name": "tiny", "scheme": "pool", "alphabet": "decimal", "length": 2}));
    server.create(json!({"name": "gone", "scheme": "pool"}));
    assert_eq!(server.ask("DELETE", "/v1/keyspaces/gone", None).status, 200);
    let python = Packages::installed("grpc", PYTHON);
    let protos = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/proto");
    let address = server.address.to_string();
    let script = "clients_grpc/every_call.py";
    let said = python.run(script, &[&address, protos], 3 * PATIENCE).ok();
    assert_eq!(said.trim(), "every call was answered");
    server.terminate();
}

#[test]
fn no_key_comes_twice_over_http_and_grpc_at_once() {
    let home = Home::new();
    let server = home.start();
    let keyspaces = ["links", "tickets", "events"];
    let mut seen: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    std::thread::scope(|scope| {
        let over_http = scope.spawn(|| {
            let taken = (0..60).flat_map(|n| keyspaces.map(|name| (name, server.take(name, 1 + n % 300))));
            taken.collect::<Vec<_>>()
        });
        let over_grpc = run(async {
            let mut taken = Vec::new();
            let mut client = client(&server).await;
            for n in 0..60 {
                for name in keyspaces {
                    taken.push((name, take(&mut client, name, n % 300).await.unwrap()));
                    let request = StreamRequest { count: 700, batch: 90, ..endless(name) };
                    let mut batches = client.stream(request).await.unwrap().into_inner();
                    while let Some(batch) = batches.message().await.unwrap() {
                        taken.push((name, texts(batch)));
                    }
                }
            }
            taken
        });
        for (name, keys) in over_http.join().unwrap().into_iter().chain(over_grpc) {
            seen.entry(name).or_default().extend(keys);
        }
    });
    for (name, keys) in seen {
        let distinct: HashSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{name}");
        assert!(keys.len() > 60 * 700, "{name}: {}", keys.len());
    }
    server.terminate();
}

#[test]
fn keys_of_a_stream_come_in_their_cheapest_form_and_exactly_as_many() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "odd", "scheme": "sequence", "step": 2}));
    server.create(json!({"name": "padded", "scheme": "sequence", "length": 3}));
    server.create(json!({"name": "hex", "scheme": "sequence", "alphabet": "custom:0123456789abcdef"}));
    run(async {
        let mut client = client(&server).await;
        let mut all = async |keyspace: &str, count: u64| {
            let request = StreamRequest { keyspace: keyspace.to_owned(), count, batch: 64 };
            let batches: Vec<_> = client.stream(request).await.unwrap().into_inner().collect().await;
            batches.into_iter().map(|batch| batch.unwrap()).collect::<Vec<_>>()
        };
        let odd = all("odd", 129).await;
        assert!(
            odd.iter().all(|batch| matches!(&batch.keys, Some(Keys::Run(run)) if run.step == 2)),
            "{odd:?}"
        );
        let tickets: Vec<String> = odd.into_iter().flat_map(texts).collect();
        assert_eq!(tickets, (0..129).map(|n| (1 + 2 * n).to_string()).collect::<Vec<_>>());

        // 3 digits and 4: a message has keys of one width.
        let padded = all("padded", 1100).await;
        assert!(padded.iter().all(|batch| matches!(&batch.keys, Some(Keys::Text(_)))), "{padded:?}");
        let padded: Vec<String> = padded.into_iter().flat_map(texts).collect();
        assert_eq!(padded, (1..=1100).map(|n| format!("{n:03}")).collect::<Vec<_>>());

        let hex: Vec<String> = all("hex", 300).await.into_iter().flat_map(texts).collect();
        assert_eq!(hex, (1..=300).map(|n| format!("{n:x}")).collect::<Vec<_>>());

        let events = all("events", 130).await;
        let sizes: Vec<usize> = events
            .iter()
            .map(|batch| match &batch.keys {
                Some(Keys::Numbers(numbers)) => numbers.values.len(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sizes, [64, 64, 2]);
    });
    server.terminate();
}

#[test]
fn a_reader_that_stops_reading_stops_the_taking_and_one_that_cancels_ends_it() {
    let home = Home::new();
    let server = home.start();
    let before = memory(&server);
    run(async {
        let mut readers = Vec::new();
        for _ in 0..8 {
            // On a connection of its own: those of one connection share what it lets the server send ahead.
            let mut reader = client(&server).await.stream(endless("links")).await.unwrap().into_inner();
            assert!(reader.message().await.unwrap().is_some());
            readers.push(reader);
        }
        let still = until_still(&server, "links");
        assert!(memory(&server) < before + MEMORY_MORE_MAX, "from {before} to {}", memory(&server));
        // Others are served meanwhile.
        let mut client = client(&server).await;
        assert_eq!(take(&mut client, "tickets", 10).await.unwrap().len(), 10);
        assert_eq!(server.take("links", 10).len(), 10);
        // And it goes on where it stopped.
        let mut read = 0;
        while read < 2_000_000 && issued(&server, "links") <= still + 10 {
            for reader in &mut readers {
                read += texts(reader.message().await.unwrap().unwrap()).len();
            }
        }
        assert!(issued(&server, "links") > still + 10, "it went on after {read} keys were read");
        drop(readers);
        let ended = until_still(&server, "links");
        assert_eq!(take(&mut client, "links", 1).await.unwrap().len(), 1);
        assert_eq!(issued(&server, "links"), ended + 1, "nobody else takes any more");
    });
    server.terminate();
}

/// A call as bytes on an HTTP/2 connection, so that a test can send what no client would.
async fn raw<B>(server: &Server, path: &str, headers: &[(&str, &str)], body: B) -> hyper::Response<Bytes>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<B>();
    let mut request = hyper::Request::post(format!("{}{path}", server.url()));
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")].iter().chain(headers) {
        request = request.header(*name, *value);
    }
    let (parts, body) = client.request(request.body(body).unwrap()).await.unwrap().into_parts();
    hyper::Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

/// A message behind its five bytes.
fn framed(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend_from_slice(&message);
    framed.into()
}

fn header<'r>(response: &'r hyper::Response<Bytes>, name: &str) -> &'r str {
    response.headers().get(name).unwrap_or_else(|| panic!("no {name}: {response:?}")).to_str().unwrap()
}

const TAKE: &str = "/keymill.v1.Keymill/Take";

#[test]
fn a_take_waits_no_longer_than_its_caller_does() {
    let home = Home::new();
    // Without the caller's deadline it would wait for an hour.
    let server = home.server().environment("KEYMILL_LIMITS__TAKE_TIMEOUT", "1h").start();
    // Two IDs a millisecond: ten thousand take five seconds.
    server.create(json!({"name": "slow", "scheme": "snowflake", "layout": "time:41 worker:4 sequence:1"}));
    run(async {
        let request = framed(&TakeRequest { keyspace: "slow".to_owned(), count: 10_000 });
        let answer = raw(&server, TAKE, &[("grpc-timeout", "300m")], Full::new(request)).await;
        assert_eq!((header(&answer, "grpc-status"), header(&answer, "keymill-code")), ("14", "out_of_stock"));
        assert_eq!(header(&answer, "retry-after"), "1");
    });
    server.terminate();
}

#[test]
fn a_request_that_never_arrives_whole_is_given_up() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LIMITS__REQUEST_TIMEOUT", "500ms").start();
    run(async {
        let begun =
            stream::iter([Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(&[0, 0])))]);
        let body = StreamBody::new(begun.chain(stream::pending()).boxed());
        let answer = raw(&server, TAKE, &[], body).await;
        assert_eq!(
            (header(&answer, "grpc-status"), header(&answer, "keymill-code")),
            ("3", "request_timeout")
        );
        // A deadline that cannot be read is none; a type that is nearly gRPC is none either.
        let request = || Full::new(framed(&TakeRequest { keyspace: "links".to_owned(), count: 1 }));
        let answer = raw(&server, TAKE, &[("grpc-timeout", "soon")], request()).await;
        assert!(answer.headers().get("keymill-code").is_none() && answer.body().len() > 5, "{answer:?}");
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let web = hyper::Request::post(format!("{}{TAKE}", server.url()));
        let web = web.header("content-type", "application/grpc-web").body(request()).unwrap();
        assert_eq!(client.request(web).await.unwrap().status(), 404);
    });
    // Neither do connections that begin nothing, or a preface and not the rest, stay for ever.
    for beginning in ["", "PRI * HTTP/2", "POST /v1"] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(beginning.as_bytes()).unwrap();
        let ended = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        // Reset, where it had sent what nobody read.
        assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "it was not closed: {ended:?}");
    }
    server.terminate();
}

fn lease_of(lease: &WorkerLease) -> RenewWorkerRequest {
    RenewWorkerRequest {
        keyspace: "ids".to_owned(),
        worker: lease.worker,
        lease_id: lease.lease_id.clone(),
        window_ms: 50,
    }
}

fn ask_lease(holder: &str, window_ms: u32) -> LeaseWorkerRequest {
    LeaseWorkerRequest { keyspace: "ids".to_owned(), holder: holder.to_owned(), window_ms }
}

#[test]
fn windows_that_are_lent_never_overlap_whoever_borrows() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "ids", "scheme": "snowflake"}));
    let lent = run(async {
        let client = client(&server).await;
        let borrowers = (0..6).map(|n| {
            let mut client = client.clone();
            tokio::spawn(async move {
                let mut windows = Vec::new();
                for round in 0..4 {
                    let request = ask_lease(&format!("sdk-{n}"), 40);
                    let mut lease = client.lease_worker(request).await.unwrap().into_inner();
                    for _ in 0..4 {
                        windows.push((lease.worker, lease.window_start..lease.window_end));
                        lease = client.renew_worker(lease_of(&lease)).await.unwrap().into_inner();
                    }
                    windows.push((lease.worker, lease.window_start..lease.window_end));
                    let WorkerLease { worker, lease_id, .. } = lease;
                    if round % 2 == 0 {
                        let keyspace = "ids".to_owned();
                        let request = ReleaseWorkerRequest { keyspace, worker, lease_id, unused_from: 0 };
                        client.release_worker(request).await.unwrap();
                    }
                }
                windows
            })
        });
        let mut lent: BTreeMap<u32, Vec<std::ops::Range<u64>>> = BTreeMap::new();
        for borrower in borrowers.collect::<Vec<_>>() {
            for (worker, window) in borrower.await.unwrap() {
                lent.entry(worker).or_default().push(window);
            }
        }
        lent
    });
    for (worker, mut windows) in lent.clone() {
        windows.sort_by_key(|window| window.start);
        for pair in windows.windows(2) {
            assert!(pair[0].end <= pair[1].start, "worker {worker}: {pair:?}");
        }
    }
    // Nor does the server's own worker use what was lent.
    for id in server.take("ids", 2000) {
        let id: u64 = id.parse().unwrap();
        let (tick, worker) = (id >> 22, u32::try_from(id >> 12 & 0x3ff).unwrap());
        let theirs =
            lent.get(&worker).is_some_and(|windows| windows.iter().any(|window| window.contains(&tick)));
        assert!(!theirs, "{id} was lent");
    }
    server.terminate();
}

#[test]
fn a_loan_outlives_restarts_and_what_was_lent_never_comes_back() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "ids", "scheme": "snowflake"}));
    let lend = |server: &Server| {
        run(async {
            client(server).await.lease_worker(ask_lease("sdk", 300_000)).await.unwrap().into_inner()
        })
    };
    let renew = |server: &Server, lease: &WorkerLease| {
        run(async {
            client(server).await.renew_worker(lease_of(lease)).await.map(|lease| lease.into_inner())
        })
    };
    let first = lend(&server);
    server.kill();
    let server = home.start();
    let second = renew(&server, &first).unwrap();
    assert!(second.window_start >= first.window_end, "{first:?}, then {second:?}");
    // A clean stop gives back what the node itself did not use, and nothing that it lent.
    server.terminate();
    let server = home.start();
    let third = renew(&server, &second).unwrap();
    assert!(third.window_start >= second.window_end, "{second:?}, then {third:?}");
    // Whoever renews again and again does not burn the worker's years.
    let mut lease = third;
    let refused = run(async {
        let mut client = client(&server).await;
        loop {
            let request = RenewWorkerRequest { window_ms: 600_000, ..lease_of(&lease) };
            match client.renew_worker(request).await {
                Ok(renewed) => {
                    let renewed = renewed.into_inner();
                    assert!(renewed.window_start >= lease.window_end);
                    lease = renewed;
                }
                Err(refused) => break refused,
            }
        }
    });
    assert_eq!(code(&refused), (Code::Unavailable, "out_of_stock"), "{refused:?}");
    assert!(refused.message().contains("ahead of the clock"), "{refused:?}");
    server.terminate();
}

#[test]
fn a_lease_that_ran_out_is_lost_once_another_has_the_worker() {
    let home = Home::new();
    let server = home.start();
    // Two workers, one of which the server has. They rest for no time at all.
    server.create(json!({
        "name": "ids", "scheme": "snowflake", "layout": "time:41 worker:1 sequence:12",
        "lease_ttl": "1s", "recycle_delay": "1ms",
    }));
    server.take("ids", 1);
    run(async {
        let mut client = client(&server).await;
        let first = client.lease_worker(ask_lease("first", 1)).await.unwrap().into_inner();
        let refused = client.lease_worker(ask_lease("second", 1)).await.unwrap_err();
        assert_eq!(code(&refused), (Code::Unavailable, "no_worker"), "{refused:?}");
        let deadline = Instant::now() + PATIENCE;
        let second = loop {
            match client.lease_worker(ask_lease("second", 1)).await {
                Ok(lease) => break lease.into_inner(),
                Err(refused) => assert_eq!(code(&refused), (Code::Unavailable, "no_worker"), "{refused:?}"),
            }
            assert!(Instant::now() < deadline, "the worker did not become free");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(second.worker, first.worker);
        assert!(second.window_start >= first.window_end, "{first:?}, then {second:?}");
        let lost = client.renew_worker(lease_of(&first)).await.unwrap_err();
        assert_eq!(code(&lost), (Code::FailedPrecondition, "lease_lost"), "{lost:?}");
        assert!(lost.message().contains("LeaseWorker"), "it says the next step: {lost:?}");
        client.renew_worker(lease_of(&second)).await.unwrap();
        // A node's name would end the lease with the node.
        let node = client.lease_worker(ask_lease(&home.node(), 1)).await.unwrap_err();
        assert_eq!(code(&node), (Code::InvalidArgument, "invalid_field"), "{node:?}");
    });
    let workers = server.get("/v1/workers?keyspace=ids").json();
    let holders: Vec<_> = workers["workers"].as_array().unwrap().iter().map(|row| &row["holder"]).collect();
    assert!(holders.contains(&&json!("second")), "{workers}");
    server.terminate();
}

#[test]
fn a_halted_ledger_refuses_and_is_not_healthy() {
    let home = Home::new();
    let server = home.start();
    server.take("links", 10);
    server.terminate();
    let copied = home.copy_database();
    let server = home.start();
    server.take("links", 5000);
    server.kill();
    home.restore_database(&copied);
    let server = home.server().start_unready();
    server.until_unready("ledger_halted");
    run(async {
        let mut client = client(&server).await;
        let refused = take(&mut client, "links", 1).await.unwrap_err();
        assert_eq!(code(&refused), (Code::Unavailable, "ledger_halted"), "{refused:?}");
        assert_eq!(refused.metadata().get("retry-after").unwrap(), "30");
        let refused = client.stream(endless("tickets")).await.unwrap_err();
        assert_eq!(code(&refused), (Code::Unavailable, "ledger_halted"), "{refused:?}");
        let lease = LeaseWorkerRequest { keyspace: "events".to_owned(), ..ask_lease("sdk", 0) };
        let refused = client.lease_worker(lease).await.unwrap_err();
        assert_eq!(code(&refused), (Code::Unavailable, "ledger_halted"), "{refused:?}");
        let mut health = HealthClient::new(channel(&server).await);
        let status = health.check(HealthCheckRequest::default()).await.unwrap().into_inner().status();
        assert_eq!(status, ServingStatus::NotServing);
    });
    server.terminate();
}

#[test]
fn whoever_watches_or_reads_on_is_told_that_the_server_stops() {
    let home = Home::new();
    let server = home.start();
    run(async {
        let mut health = HealthClient::new(channel(&server).await);
        let watch = HealthCheckRequest { service: "keymill.v1.Keymill".to_owned() };
        let mut watched = health.watch(watch).await.unwrap().into_inner();
        assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        let mut client = client(&server).await;
        let mut keys = client.stream(endless("links")).await.unwrap().into_inner();
        assert!(keys.message().await.unwrap().is_some());
        server.signal(rustix::process::Signal::TERM);
        assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        assert!(watched.message().await.unwrap().is_none(), "the watch ends, so that the stop need not wait");
        let refused = loop {
            match keys.message().await {
                Ok(batch) => assert!(batch.is_some(), "an endless stream has no end"),
                Err(refused) => break refused,
            }
        };
        assert_eq!(code(&refused), (Code::Unavailable, "draining"), "{refused:?}");
    });
    server.until_gone(Some(0));
}

#[test]
fn reflection_lists_the_service_in_both_versions() {
    let home = Home::new();
    let server = home.start();
    macro_rules! services {
        ($version:ident, $channel:expr) => {{
            use tonic_reflection::pb::$version::{
                ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
            };
            let list = Some(MessageRequest::ListServices(String::new()));
            let request = ServerReflectionRequest { host: String::new(), message_request: list };
            let mut answers = ServerReflectionClient::new($channel)
                .server_reflection_info(stream::iter([request]))
                .await
                .unwrap()
                .into_inner();
            match answers.message().await.unwrap().unwrap().message_response.unwrap() {
                MessageResponse::ListServicesResponse(list) => {
                    list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            }
        }};
    }
    run(async {
        let channel = channel(&server).await;
        for services in [services!(v1, channel.clone()), services!(v1alpha, channel.clone())] {
            for name in ["keymill.v1.Keymill", "grpc.health.v1.Health"] {
                assert!(services.iter().any(|service| service == name), "{services:?}");
            }
        }
    });
    server.terminate();
}

/// HTTP/2 frames, written by hand.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The head of a take, as HPACK spells it without a table of its own.
fn take_head() -> Vec<u8> {
    let mut head = vec![0x83, 0x86, 0x04, u8::try_from(TAKE.len()).unwrap()];
    head.extend_from_slice(TAKE.as_bytes());
    head.extend_from_slice(b"\x01\x04test");
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
        head.push(0);
        for text in [name, value] {
            head.push(u8::try_from(text.len()).unwrap());
            head.extend_from_slice(text.as_bytes());
        }
    }
    head
}

/// Sends until the server has had enough; whether it had.
fn flood(server: &Server, frames: impl Fn(u32) -> Vec<u8>, rounds: u32) -> bool {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).unwrap();
    let mut reader = stream.try_clone().unwrap();
    // Read along, or a full socket would be what stops us.
    let reading = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    let sent = (0..rounds).try_for_each(|round| stream.write_all(&frames(round)));
    let _ = stream.shutdown(std::net::Shutdown::Both);
    let _ = reading.join();
    sent.is_err()
}

#[test]
fn floods_of_one_connection_leave_the_others_alone() {
    let home = Home::new();
    let server = home.start();
    let before = memory(&server);
    let head = take_head();
    let reset = |round: u32| {
        let mut burst = Vec::new();
        for n in 0..100 {
            let stream = 1 + 2 * (round * 100 + n);
            burst.extend(frame(1, 0x4, stream, &head));
            burst.extend(frame(3, 0, stream, &8u32.to_be_bytes()));
        }
        burst
    };
    let pings = |_: u32| frame(6, 0, 0, &[7; 8]).repeat(1000);
    let settings = |_: u32| frame(4, 0, 0, &[]).repeat(1000);
    let headers_without_end = |round: u32| {
        if round == 0 { frame(1, 0, 1, &head) } else { frame(9, 0, 1, &[0; 16_000]) }
    };
    std::thread::scope(|scope| {
        let floods: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    assert!(flood(&server, reset, 2000), "requests taken back without end were put up with");
                    flood(&server, pings, 300);
                    flood(&server, settings, 300);
                    assert!(flood(&server, headers_without_end, 2000), "a head without end was put up with");
                })
            })
            .collect();
        run(async {
            let mut client = client(&server).await;
            let mut seen = HashSet::new();
            while !floods.iter().all(|flood| flood.is_finished()) || seen.len() < 1000 {
                for key in take(&mut client, "links", 1).await.expect("others are served") {
                    assert!(seen.insert(key));
                }
            }
        });
        floods.into_iter().for_each(|flood| flood.join().unwrap());
    });
    assert!(memory(&server) < before + MEMORY_MORE_MAX, "from {before} to {}", memory(&server));
    assert_eq!(server.take("links", 10).len(), 10);
    server.terminate();
}

/// `audit = "key"`: whatever way an ID leaves it is written down, and none is made where that cannot be.
#[test]
fn ids_that_are_written_down_are_taken_and_streamed_and_no_worker_is_lent_for_them() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "ids", "scheme": "snowflake", "audit": "key"}));
    let mut taken: Vec<String> = run(async {
        let mut client = client(&server).await;
        let mut taken = take(&mut client, "ids", 1).await.unwrap();
        taken.extend(take(&mut client, "ids", 20).await.unwrap());
        let request = StreamRequest { count: 300, ..endless("ids") };
        let mut stream = client.stream(request).await.unwrap().into_inner();
        while let Some(batch) = stream.message().await.unwrap() {
            taken.extend(texts(batch));
        }
        let refused = client.lease_worker(ask_lease("sdk", 100)).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
        assert!(refused.message().contains("audit"), "{refused:?}");
        taken
    });
    let issued = server.get("/v1/keyspaces/ids/issued?limit=1000").json();
    let key = |row: &serde_json::Value| row["key"].as_str().unwrap().to_owned();
    let written: Vec<String> = issued["issued"].as_array().unwrap().iter().map(key).collect();
    taken.sort();
    assert_eq!((taken.len(), &written), (321, &taken));
    server.terminate();
}
