//! Requests that are followed, at a collector that speaks OTLP: whose spans arrive, what they belong to, what they
//! do not say; and that nothing depends on the collector.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use keymill_api::grpc::{StreamRequest, TakeRequest, keymill_client::KeymillClient};
use keymill_engines::certificates::Certificates;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value,
    trace::v1::{Span, span::SpanKind},
};
use serde_json::json;
use tonic::{
    Request, Response, Status,
    transport::{Identity, ServerTlsConfig},
};

mod harness;
#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "clients/raw.rs"]
mod raw;
use harness::{Answer, Home, Launch, PATIENCE, Server};
use raw::Raw;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn followed() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}

/// Keeps every span that it is sent, and what was said of who sent it.
#[derive(Debug)]
struct Collector {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<Span>>>,
    resources: Arc<Mutex<String>>,
    _runtime: tokio::runtime::Runtime,
}

#[derive(Debug)]
struct Ears {
    heard: Arc<Mutex<Vec<Span>>>,
    resources: Arc<Mutex<String>>,
}

#[tonic::async_trait]
impl TraceService for Ears {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for sent in request.into_inner().resource_spans {
            self.resources.lock().unwrap().push_str(&format!("{:?}", sent.resource));
            let spans = sent.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.heard.lock().unwrap().extend(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn start() -> Self {
        Self::behind(tonic::transport::Server::builder())
    }

    fn behind(mut server: tonic::transport::Server) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, resources) = (Arc::default(), Arc::default());
        let ears = Ears { heard: Arc::clone(&heard), resources: Arc::clone(&resources) };
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let service = TraceServiceServer::new(ears);
        runtime.spawn(async move { server.add_service(service).serve_with_incoming(incoming).await });
        Self { address, heard, resources, _runtime: runtime }
    }

    fn spans(&self) -> Vec<Span> {
        self.heard.lock().unwrap().clone()
    }

    /// The span of that name, once it has come.
    #[track_caller]
    fn span(&self, name: &str) -> Span {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let spans = self.spans();
            if let Some(span) = spans.iter().find(|span| span.name == name) {
                return span.clone();
            }
            let names: Vec<_> = spans.iter().map(|span| &span.name).collect();
            assert!(Instant::now() < deadline, "no `{name}` among {names:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.clone()?.value? {
        any_value::Value::StringValue(text) => Some(text),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{other:?}"),
    }
}

/// A server that sends its spans at once.
fn sending(home: &Home, endpoint: &str, ratio: &str) -> Launch {
    home.server()
        .environment("KEYMILL_TRACE__OTLP_ENDPOINT", endpoint)
        .environment("KEYMILL_TRACE__SAMPLE_RATIO", ratio)
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50")
}

#[track_caller]
fn ask(server: &Server, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    server.connect().send(method, path, headers, body.as_bytes()).expect("it answers")
}

#[track_caller]
fn take(server: &Server, traceparent: &str) -> Answer {
    let answer = ask(server, "POST", "/v1/keyspaces/links/keys", &[("traceparent", traceparent)], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// What the answer's `traceparent` names: a trace and a span.
#[track_caller]
fn named(answer: &Answer) -> (String, String) {
    split(answer.header("traceparent").unwrap_or_else(|| panic!("{answer:?}")))
}

fn split(traceparent: &str) -> (String, String) {
    let parts: Vec<&str> = traceparent.split('-').collect();
    assert_eq!((parts[0], parts[3]), ("00", "01"), "{traceparent}");
    (parts[1].to_owned(), parts[2].to_owned())
}

#[test]
fn a_followed_request_is_a_span_of_its_caller_s_trace() {
    let (home, collector) = (Home::new(), Collector::start());
    let server = sending(&home, &format!("http://{}", collector.address), "0").start();
    let key = take(&server, &followed()).keys().remove(0);
    let answer = take(&server, &followed());
    let (trace, span_id) = named(&answer);
    assert_eq!(trace, TRACE);

    let deadline = Instant::now() + PATIENCE;
    let span = loop {
        let found = collector.spans().into_iter().find(|span| hex(&span.span_id) == span_id);
        if let Some(span) = found {
            break span;
        }
        assert!(Instant::now() < deadline, "it never came");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    assert_eq!(span.name, "POST /v1/keyspaces/{ks}/keys");
    assert_eq!(span.kind, SpanKind::Server as i32);
    assert_eq!(attribute(&span, "keymill.keyspace").as_deref(), Some("links"));
    assert_eq!(attribute(&span, "http.response.status_code").as_deref(), Some("200"));
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    let resource = collector.resources.lock().unwrap().clone();
    assert!(resource.contains("\"keymill\"") && resource.contains(&home.node()), "{resource}");

    // A name is claimed in the ledger, and the claim belongs to the request.
    let headers = [("traceparent", followed())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let claimed = ask(&server, "PUT", "/v1/keyspaces/links/keys/spring6", &headers, "");
    assert_eq!(claimed.status, 201, "{claimed:?}");
    let (_, request_id) = named(&claimed);
    let withhold = collector.span("ledger withhold");
    assert_eq!(hex(&withhold.parent_span_id), request_id);
    assert_eq!(attribute(&withhold, "keymill.track").as_deref(), Some("links"));
    assert_eq!(attribute(&withhold, "db.system.name").as_deref(), Some("sqlite"));

    // Bound, followed and refused: whatever is named stays here.
    let target = "https://example.com/where-it-leads";
    let bound = ask(
        &server,
        "PUT",
        &format!("/v1/keyspaces/links/links/{key}"),
        &[headers[0], ("content-type", "application/json"), ("authorization", "Bearer km_s3cret")],
        &json!({"url": target}).to_string(),
    );
    assert_eq!(bound.status, 201, "{bound:?}");
    assert_eq!(ask(&server, "GET", &format!("/{key}"), &headers, "").status, 302);
    assert_eq!(ask(&server, "GET", "/v1/keyspaces/nowhere", &headers, "").code(), "keyspace_not_found");
    collector.span("GET /{key}");
    let refused = collector.span("GET /v1/keyspaces/{ks}");
    assert_eq!(attribute(&refused, "error.type").as_deref(), Some("keyspace_not_found"));
    server.terminate();
    let all = format!("{:?}", collector.spans());
    for secret in [key.as_str(), "spring6", "where-it-leads", "s3cret"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
}

#[test]
fn a_request_that_nobody_follows_leaves_no_trace() {
    let (home, collector) = (Home::new(), Collector::start());
    let server = sending(&home, &format!("http://{}", collector.address), "0").start();
    for unfollowed in [format!("00-{TRACE}-{PARENT}-00"), "nonsense".to_owned(), followed().to_uppercase()] {
        let answer = take(&server, &unfollowed);
        assert_eq!(answer.header("traceparent"), None, "{unfollowed}: {answer:?}");
    }
    server.terminate();
    assert_eq!(collector.spans(), []);
}

#[test]
fn a_traceparent_that_cannot_be_read_begins_a_new_trace() {
    let (home, collector) = (Home::new(), Collector::start());
    let server = sending(&home, &format!("http://{}", collector.address), "1").start();
    let (trace, _) = named(&take(&server, "nonsense"));
    assert_ne!(trace, TRACE);
    let unfollowed = take(&server, &format!("00-{TRACE}-{PARENT}-00"));
    assert_eq!(unfollowed.header("traceparent"), None, "its caller decided: {unfollowed:?}");
    // The Redis protocol has no headers: a batch of commands is followed by chance, which is certain here.
    let mut redis = Raw::open(server.resp.unwrap());
    redis.send(b"LPOP links\r\nLPOP links\r\nLPOP links\r\n").unwrap();
    (0..3).for_each(|_| drop(redis.reply().unwrap().key()));
    let batch = collector.span("redis commands");
    assert_eq!(attribute(&batch, "keymill.received_bytes").as_deref(), Some("36"));
    // Nobody asked for the first numbers.
    let reserve = collector.span("ledger reserve");
    assert_eq!(reserve.parent_span_id, [0_u8; 0]);
    server.terminate();
    let spans = collector.spans();
    assert!(spans.iter().any(|span| hex(&span.trace_id) == trace));
    assert!(!spans.iter().any(|span| span.name.contains("heartbeat")), "{spans:?}");
}

#[test]
fn grpc_calls_are_followed_too() {
    let (home, collector) = (Home::new(), Collector::start());
    let server = sending(&home, &format!("http://{}", collector.address), "0").start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = KeymillClient::connect(server.url()).await.unwrap();
        fn from_caller<T>(message: T) -> Request<T> {
            let mut request = Request::new(message);
            request.metadata_mut().insert("traceparent", followed().parse().unwrap());
            request
        }
        let take = TakeRequest { keyspace: "links".to_owned(), count: 1 };
        let answer = client.take(from_caller(take.clone())).await.unwrap();
        let (trace, span_id) = split(answer.metadata().get("traceparent").unwrap().to_str().unwrap());
        assert_eq!(trace, TRACE);
        assert!(client.take(take).await.unwrap().metadata().get("traceparent").is_none());
        let span = collector.span("keymill.v1.Keymill/Take");
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
        assert_eq!(hex(&span.span_id), span_id);
        assert_eq!(attribute(&span, "rpc.grpc.status_code").as_deref(), Some("0"));

        let nowhere = StreamRequest { keyspace: "nowhere".to_owned(), count: 1, batch: 0 };
        let refused = client.stream(from_caller(nowhere)).await.unwrap_err();
        assert!(refused.metadata().contains_key("traceparent"), "{refused:?}");
        let span = collector.span("keymill.v1.Keymill/Stream");
        assert_eq!(attribute(&span, "rpc.grpc.status_code").as_deref(), Some("5"));
        assert_eq!(attribute(&span, "error.type").as_deref(), Some("keyspace_not_found"));
    });
    server.terminate();
    assert_eq!(collector.spans().len(), 2 + ledger_calls(&collector), "one for each call, and what it asked");
}

fn ledger_calls(collector: &Collector) -> usize {
    collector.spans().iter().filter(|span| span.name.starts_with("ledger ")).count()
}

#[test]
fn nothing_depends_on_the_collector() {
    let home = Home::new();
    // Someone listens there and never answers.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = Collector::start().address;
    for (endpoint, complains) in [(nobody, true), (deaf.local_addr().unwrap(), false)] {
        let server = sending(&home, &format!("http://{endpoint}"), "1")
            .environment("KEYMILL_LIMITS__DRAIN_TIMEOUT", "4s")
            .start();
        for _ in 0..50 {
            take(&server, &followed());
        }
        if complains {
            let log = server.logged("traces do not reach");
            assert_eq!(log.matches("traces do not reach").count(), 1, "once: {log}");
        }
        take(&server, &followed());
        // `terminate` fails if it takes longer than a stop may.
        server.terminate();
    }
}

#[test]
fn a_collector_that_speaks_tls_is_trusted_as_the_machine_trusts_it() {
    let (home, certificates) = (Home::new(), Certificates::make().unwrap());
    let read = |name: &str| std::fs::read(certificates.file(name)).unwrap();
    let identity = Identity::from_pem(read("server.pem"), read("server.key"));
    let tls = ServerTlsConfig::new().identity(identity);
    let collector = Collector::behind(tonic::transport::Server::builder().tls_config(tls).unwrap());
    let sending = || sending(&home, &format!("https://{}", collector.address), "0");
    let server = sending().start();
    take(&server, &followed());
    server.logged("traces do not reach");
    server.terminate();
    assert_eq!(collector.spans(), [], "nobody vouches for it");
    let authority = certificates.file("ca.pem");
    let server = sending().environment("SSL_CERT_FILE", authority.to_str().unwrap()).start();
    take(&server, &followed());
    collector.span("POST /v1/keyspaces/{ks}/keys");
    server.terminate();
}

#[test]
fn bad_settings_are_named() {
    let home = Home::new();
    for (endpoint, ratio, complaint) in [
        ("127.0.0.1:4317", "0.1", "trace.otlp_endpoint is not http://HOST:PORT"),
        ("", "2", "trace.sample_ratio is 2, and must be from 0 (none) to 1"),
        ("", "often", "trace.sample_ratio (environment KEYMILL_TRACE__SAMPLE_RATIO)"),
    ] {
        let refused = sending(&home, endpoint, ratio).run();
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains(complaint), "{refused:?}");
    }
}
