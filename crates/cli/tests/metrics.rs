//! `/metrics` on the real binary: what the documents list is there and nothing else, each protocol is timed and its
//! refusals are counted, and callers cannot make it grow.

use std::collections::{BTreeMap, BTreeSet};

use keymill_api::grpc::{StreamRequest, TakeRequest, keymill_client::KeymillClient};
use serde_json::json;

mod harness;
use harness::{Home, Server};

const DOCUMENT: &str = include_str!("../../../docs/metrics.md");
const LABELS: [&str; 8] = ["keyspace", "protocol", "code", "worker", "le", "store", "grade", "version"];

/// What `/metrics` says, sample by sample, without the prefix.
struct Told {
    kinds: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

impl Server {
    fn told(&self) -> Told {
        let text = self.get("/metrics").text();
        let name = |name: &str| name.strip_prefix("keymill_").unwrap_or(name).to_owned();
        let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        Told {
            kinds: kinds.map(|(family, kind)| (name(family), kind.to_owned())).collect(),
            samples: samples
                .map(|line| line.rsplit_once(' ').unwrap())
                .map(|(sample, value)| (name(sample), value.parse().unwrap()))
                .collect(),
        }
    }
}

impl Told {
    fn of(&self, sample: &str) -> f64 {
        self.samples.get(sample).copied().unwrap_or_default()
    }

    fn requests(&self, protocol: &str) -> f64 {
        self.of(&format!("request_duration_seconds_count{{protocol=\"{protocol}\"}}"))
    }

    fn refusals(&self, protocol: &str, code: &str) -> f64 {
        self.of(&format!("refusals_total{{protocol=\"{protocol}\",code=\"{code}\"}}"))
    }
}

/// Rows of the tables in docs/metrics.md: name, kind, labels.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        (cells[1].trim_matches('`').to_owned(), (cells[2].to_owned(), labels))
    })
    .collect()
}

#[test]
fn what_is_told_is_what_is_documented() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "vouchers", "scheme": "pool", "store": "table", "capacity": 1000}));
    server.until_stocked(&["links"]);
    server.take("links", 10);
    server.take("events", 10);
    let documented = documented();
    let told = server.told();
    let of_every_process = |name: &str| name.starts_with("process_") || name == "build_info";
    let ours: BTreeMap<_, _> = told.kinds.iter().filter(|(name, _)| !of_every_process(name)).collect();
    assert_eq!(
        ours.keys().map(|name| name.as_str()).collect::<BTreeSet<_>>(),
        documented.keys().map(String::as_str).collect()
    );
    for (name, kind) in &ours {
        assert_eq!(**kind, documented[*name].0, "{name}");
    }
    for name in told.kinds.keys().filter(|name| of_every_process(name)) {
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name}");
    }
    for sample in told.samples.keys() {
        let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
        let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0));
        let labels: BTreeSet<_> = labels.map(str::to_owned).collect();
        assert!(labels.iter().all(|label| LABELS.contains(&label.as_str())), "{sample}");
        if let Some((_, stated)) = documented.get(name) {
            assert_eq!(&labels, stated, "{sample}");
        }
    }
}

#[test]
fn every_protocol_is_timed_and_its_refusals_are_counted() {
    let home = Home::new();
    let server = home.start();
    server.until_stocked(&["links"]);
    let before = server.told();

    server.take("links", 1);
    assert_eq!(server.post("/v1/keyspaces/none/keys", "").status, 404);

    let redis = redis::Client::open(format!("redis://{}", server.resp.unwrap())).unwrap();
    let mut redis = redis.get_connection().unwrap();
    let mut pops = redis::pipe();
    for _ in 0..100 {
        pops.lpop("links", None);
    }
    let popped: Vec<String> = pops.query(&mut redis).unwrap();
    assert_eq!(popped.len(), 100);
    redis::cmd("LPOP").arg("none").query::<()>(&mut redis).unwrap_err();
    redis::cmd("ZADD").arg("links").query::<()>(&mut redis).unwrap_err();

    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut client = KeymillClient::connect(server.url()).await.unwrap();
        let take = |keyspace: &str| TakeRequest { keyspace: keyspace.to_owned(), count: 1 };
        client.take(take("links")).await.unwrap();
        client.take(take("none")).await.unwrap_err();
        let stream = StreamRequest { keyspace: "none".to_owned(), count: 1, batch: 1 };
        client.stream(stream).await.unwrap_err();
    });

    let after = server.told();
    // The look before is one of them.
    assert_eq!(after.requests("http") - before.requests("http"), 3.0);
    assert!(after.requests("resp") - before.requests("resp") >= 102.0, "a client may say hello too");
    assert_eq!(after.requests("grpc") - before.requests("grpc"), 3.0);
    assert_eq!(after.refusals("http", "keyspace_not_found"), 1.0);
    assert_eq!(after.refusals("resp", "keyspace_not_found"), 1.0);
    assert_eq!(after.refusals("resp", "invalid_request"), 1.0);
    assert_eq!(after.refusals("grpc", "keyspace_not_found"), 2.0);
    for protocol in ["http", "resp", "grpc"] {
        let bucket = |le: &str| {
            after.of(&format!("request_duration_seconds_bucket{{protocol=\"{protocol}\",le=\"{le}\"}}"))
        };
        assert_eq!(bucket("+Inf"), after.requests(protocol));
        assert!(bucket("10") >= bucket("0.01") && bucket("0.01") >= bucket("0.00001"));
        assert!(after.of(&format!("request_duration_seconds_sum{{protocol=\"{protocol}\"}}")) > 0.0);
    }
    assert!(after.of("reserve_duration_seconds_count") > 0.0);
    assert_eq!(after.of("connections_open{protocol=\"resp\"}"), 1.0);
    assert!(after.of("threads_busy_seconds_total{protocol=\"http\"}") > 0.0);
    assert!(after.of("process_open_fds") > 0.0 && after.of("process_start_time_seconds") > 1.7e9);
}

#[test]
fn names_that_are_not_there_make_no_series() {
    let home = Home::new();
    let server = home.start();
    server.until_stocked(&["links"]);
    for name in 0..50 {
        assert_eq!(server.post(&format!("/v1/keyspaces/none{name}/keys"), "").status, 404);
    }
    let told = server.told();
    assert_eq!(told.refusals("http", "keyspace_not_found"), 50.0);
    assert!(!told.samples.keys().any(|sample| sample.contains("none")));
}

#[test]
fn requests_need_not_be_timed() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_METRICS__DURATIONS", "false").start();
    server.until_stocked(&["links"]);
    server.take("links", 1);
    let told = server.told();
    assert!(told.kinds.contains_key("request_duration_seconds"));
    assert!(!told.samples.keys().any(|sample| sample.starts_with("request_duration_seconds")));
}
