//! What nobody should send: each is refused with its status and its code, and nothing is issued.
//!
//! Proven here on the real binary, with a client that sends what no proper client would.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

mod harness;
use harness::{Answer, Connection, Home, Server};

const MINT: &str = "/v1/keyspaces/tickets/keys";
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// How much was reserved and how much of it is left: any key that is issued changes it.
#[track_caller]
fn figures(server: &Server) -> Vec<(u64, u64)> {
    server.until_stocked(&["links", "tickets"]);
    ["links", "tickets"].map(|keyspace| (server.cursor(keyspace), server.stock(keyspace))).to_vec()
}

/// A refusal is a problem, names its code twice, says something, and is kept by no cache.
#[track_caller]
fn assert_problem(what: &str, answer: &Answer, status: u16, code: &str) {
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (status, code),
        "{what}: {answer:?}\n{}",
        answer.text()
    );
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}: {answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}: {answer:?}");
    let problem = answer.json();
    assert_eq!(problem["type"], format!("urn:keymill:{code}"), "{what}: {problem}");
    assert_eq!(problem["status"], status, "{what}: {problem}");
    for field in ["title", "detail"] {
        assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{what}: {problem}");
    }
    let text = answer.text();
    for leak in ["panicked", "SELECT", ".rs:", "sqlite"] {
        assert!(!text.contains(leak), "{what} tells of our insides: {text}");
    }
    let retry = answer.header("retry-after").is_some();
    assert_eq!(retry, status == 429 || status == 503, "{what}: {answer:?}");
}

/// One request on a connection of its own; what it refuses must issue nothing.
struct Case {
    what: &'static str,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
    expected: (u16, &'static str),
}

impl Case {
    fn mint(what: &'static str, body: impl Into<Vec<u8>>, status: u16, code: &'static str) -> Self {
        Self {
            what,
            method: "POST",
            path: MINT.to_owned(),
            headers: vec![JSON],
            body: body.into(),
            expected: (status, code),
        }
    }

    fn at(
        what: &'static str,
        method: &'static str,
        path: impl Into<String>,
        status: u16,
        code: &'static str,
    ) -> Self {
        Self { method, path: path.into(), ..Self::mint(what, "", status, code) }
    }

    fn headers(mut self, headers: &[(&'static str, &'static str)]) -> Self {
        self.headers = headers.to_vec();
        self
    }
}

fn refuse_all(server: &Server, cases: &[Case]) {
    let before = figures(server);
    for Case { what, method, path, headers, body, expected: (status, code) } in cases {
        let answer = match server.connect().send(method, path, headers, body) {
            Ok(answer) => answer,
            Err(error) => panic!("{what} was not answered: {error}"),
        };
        if *method == "HEAD" {
            assert_eq!(answer.status, *status, "{what}: {answer:?}");
        } else {
            assert_problem(what, &answer, *status, code);
        }
        if *status == 405 {
            assert!(answer.header("allow").is_some(), "{what}: {answer:?}");
        }
        assert_eq!(figures(server), before, "{what} issued or reserved something");
    }
}

#[test]
fn wrong_counts_are_refused_and_issue_nothing() {
    let home = Home::new();
    let server = home.start();
    let first = server.take("tickets", 1);
    let counts: [(&'static str, &'static str, &'static str); 18] = [
        ("zero", "0", "count_out_of_range"),
        ("minus one", "-1", "count_out_of_range"),
        ("a fraction", "1.5", "invalid_field"),
        ("a whole fraction", "1.0", "invalid_field"),
        ("one above the limit", "10001", "count_out_of_range"),
        ("ten to the twelve", "1000000000000", "count_out_of_range"),
        ("2^32 + 1, which is 1 to who forgets the rest", "4294967297", "count_out_of_range"),
        ("2^64 - 1", "18446744073709551615", "count_out_of_range"),
        ("2^64 + 1", "18446744073709551617", "invalid_field"),
        ("a power", "1e3", "invalid_field"),
        ("minus zero", "-0", "invalid_field"),
        ("a string", "\"5\"", "invalid_field"),
        ("an empty string", "\"\"", "invalid_field"),
        ("true", "true", "invalid_field"),
        ("a list", "[1]", "invalid_field"),
        ("an object", "{\"count\":1}", "invalid_field"),
        ("serde's own trick", "{\"$serde_json::private::Number\":\"1\"}", "invalid_field"),
        ("an empty list", "[]", "invalid_field"),
    ];
    let mut cases: Vec<Case> = counts
        .into_iter()
        .map(|(what, count, code)| Case::mint(what, format!("{{\"count\":{count}}}"), 422, code))
        .collect();
    for (what, count) in
        [("one above the stream's limit", "1000001"), ("ten to the twelve as text", "1000000000000")]
    {
        let case = Case::mint(what, format!("{{\"count\":{count}}}"), 422, "count_out_of_range");
        cases.push(case.headers(&[JSON, ("Accept", "text/plain")]));
    }
    refuse_all(&server, &cases);
    let detail = server.post(MINT, r#"{"count":10001}"#).json();
    assert_eq!(detail["errors"][0]["pointer"], "#/count", "{detail}");
    assert!(detail["detail"].as_str().unwrap().contains("text/plain"), "it says how to get more: {detail}");
    // `null` is a field left out, as is no body at all.
    for body in ["{\"count\":null}", "{}", " ", ""] {
        assert_eq!(server.post(MINT, body).keys().len(), 1, "{body:?}");
    }
    let next: u64 = first[0].parse::<u64>().unwrap() + 5;
    assert_eq!(server.take("tickets", 1), [next.to_string()], "nothing went out but what was seen");
}

#[test]
fn bodies_that_cannot_be_read_are_refused_and_issue_nothing() {
    let home = Home::new();
    let server = home.start();
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let mut cases = vec![
        Case::mint("an unknown field", r#"{"count":1,"owner":"me"}"#, 422, "invalid_field"),
        Case::mint("a field twice", r#"{"count":1,"count":2}"#, 422, "invalid_field"),
        Case::mint("half an object", r#"{"count":1"#, 400, "invalid_request"),
        Case::mint("not JSON", "count=1", 400, "invalid_request"),
        Case::mint("two objects", "{} {}", 400, "invalid_request"),
        Case::mint("a list", "[]", 422, "invalid_field"),
        Case::mint("a number", "5", 422, "invalid_field"),
        Case::mint("null", "null", 422, "invalid_field"),
        Case::mint("bad UTF-8", vec![b'{', b'"', 0xff, 0xfe, b'"', b':', b'1', b'}'], 400, "invalid_request"),
        Case::mint(
            "an overlong NUL",
            vec![b'{', b'"', 0xc0, 0x80, b'"', b':', b'1', b'}'],
            400,
            "invalid_request",
        ),
        Case::mint("a NUL in JSON", "{\"count\":1\0}", 400, "invalid_request"),
        Case::mint("a byte order mark", "\u{feff}{\"count\":1}", 400, "invalid_request"),
        Case::mint("a lone surrogate", r#"{"\ud800":1}"#, 400, "invalid_request"),
        Case::mint("very deep JSON", deep, 422, "invalid_field"),
        Case::mint("one byte above the limit", " ".repeat((64 << 10) + 1), 413, "body_too_large"),
        Case::mint("a megabyte", vec![b' '; 1 << 20], 413, "body_too_large"),
        Case::at("a megabyte to create", "POST", "/v1/keyspaces", 413, "body_too_large"),
        Case::at("a megabyte to tune", "PATCH", "/v1/keyspaces/links", 413, "body_too_large"),
        Case::at("a megabyte to advance", "POST", "/v1/ledger/advance", 413, "body_too_large"),
    ];
    for case in cases.iter_mut().filter(|case| case.what.starts_with("a megabyte to")) {
        case.body = vec![b' '; 1 << 20];
    }
    for kind in
        ["text/plain", "application/xml", "multipart/form-data; boundary=x", "application/jsonx", "", "json"]
    {
        let case = Case::mint("another content type", r#"{"count":1}"#, 415, "unsupported_media_type");
        cases.push(case.headers(&[("Content-Type", kind)]));
    }
    refuse_all(&server, &cases);
    for kind in
        ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json"]
    {
        let answer =
            server.connect().send("POST", MINT, &[("Content-Type", kind)], b"{\"count\":2}").unwrap();
        assert_eq!(answer.keys().len(), 2, "{kind}: {answer:?}");
    }
    let limit = server.connect().send("POST", MINT, &[JSON], " ".repeat(64 << 10).as_bytes()).unwrap();
    assert_eq!(limit.keys().len(), 1, "the limit itself is allowed");
}

#[test]
fn wrong_names_routes_and_methods_are_refused_and_issue_nothing() {
    let home = Home::new();
    let server = home.start();
    let mint = |name: &str| format!("/v1/keyspaces/{name}/keys");
    let mut cases = Vec::new();
    for name in [
        "nothing",
        "..",
        ".",
        "%2e%2e",
        "links%2F..%2Ftickets",
        "%2F",
        "links%00",
        "%00",
        "%0a",
        "links%0d%0aX:y",
        "%1b[31m",
        "LINKS",
        "Links",
        "links ",
        "links%20",
        "-links",
        "l%C3%ADnks",
        "links;tickets",
        "links,tickets",
        "v1",
        "*",
        "%24%7Bjndi:x%7D",
        "'%20or%201=1--",
        "~root",
        "links%252e",
    ] {
        let name = name.replace(' ', "%20");
        cases.push(Case::at("a name", "POST", mint(&name), 404, "keyspace_not_found"));
    }
    cases.push(Case::at("a name that is not UTF-8", "POST", mint("%ff"), 400, "invalid_request"));
    cases.push(Case::at("a name that is not UTF-8", "GET", "/v1/keyspaces/%ff", 400, "invalid_request"));
    cases.push(Case::at("a file that is not UTF-8", "GET", "/docs/%ff", 400, "invalid_request"));
    cases.push(Case::at("a name of 10 KB", "POST", mint(&"a".repeat(10 << 10)), 404, "keyspace_not_found"));
    cases.push(Case::at("no name", "POST", mint(""), 404, "keyspace_not_found"));
    for path in ["/v1/keyspaces/links/tickets/keys", "/v1/keyspaces/../keyspaces/links/keys"] {
        cases.push(Case::at("a name with a slash", "POST", path, 404, "route_not_found"));
    }
    for path in [
        "/v1",
        "/v1/",
        "/v1/keys",
        "/v2/keyspaces/links/keys",
        "/v1/keyspaces/links/keys/",
        "/v1/keyspaces/links/",
        "/V1/keyspaces",
        "/aZ3k9Qp/x",
        "/docs/../healthz",
        "/.well-known/x",
    ] {
        cases.push(Case::at("an unknown route", "GET", path, 404, "route_not_found"));
    }
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "BREW"] {
        cases.push(Case::at("another method on the mint", method, MINT, 405, "method_not_allowed"));
    }
    for (method, path) in [
        ("POST", "/healthz"),
        ("DELETE", "/v1/keyspaces"),
        ("POST", "/v1/keyspaces/links"),
        ("POST", "/v1/ledger"),
        ("GET", "/v1/ledger/advance"),
        ("GET", "/v1/ledger/backup"),
        ("DELETE", "/v1/nodes"),
        ("POST", "/v1/keyspaces/links/keys/abc"),
    ] {
        cases.push(Case::at("another method", method, path, 405, "method_not_allowed"));
    }
    for key in [
        "abc",
        "12345678",
        "!!!!!!!",
        "%00%00%00%00%00%00%00",
        "aaaaaa%2F",
        "%ff%ff%ff%ff%ff%ff%ff",
        "..%2f..%2f.",
    ] {
        let path = format!("/v1/keyspaces/links/keys/{key}");
        let (status, code) =
            if key.contains("%ff") { (400, "invalid_request") } else { (404, "key_not_found") };
        cases.push(Case::at("a text that is no key", "GET", path, status, code));
    }
    let path = format!("/v1/keyspaces/links/keys/{}", "a".repeat(10 << 10));
    cases.push(Case::at("a key of 10 KB", "GET", path, 404, "key_not_found"));
    for query in ["limit=0", "limit=-1", "limit=1001", "limit=x", "nothing=1", "limit=1&limit=2"] {
        cases.push(Case::at("a wrong query", "GET", format!("/v1/keyspaces?{query}"), 422, "invalid_field"));
    }
    cases.push(Case::at("no keyspace", "GET", "/v1/claims", 422, "invalid_field"));
    cases.push(Case::at("an unknown one", "GET", "/v1/claims?keyspace=nothing..", 404, "keyspace_not_found"));
    cases.push(Case::at("a wrong cursor", "GET", "/v1/claims?keyspace=links&cursor=x", 422, "invalid_field"));
    cases.push(Case::at("no such field", "GET", "/v1/claims?keyspace=links&curser=1", 422, "invalid_field"));
    cases.push(Case::at(
        "a worker of none",
        "GET",
        "/v1/claims?keyspace=links&worker=1",
        422,
        "invalid_field",
    ));
    refuse_all(&server, &cases);
}

#[test]
fn every_answer_of_the_api_is_kept_by_no_cache() {
    let home = Home::new();
    let server = home.start();
    let key = &server.take("links", 1)[0];
    let inspect = format!("/v1/keyspaces/links/keys/{key}");
    for path in [
        "/v1/keyspaces",
        "/v1/keyspaces/links",
        &inspect,
        "/v1/ledger",
        "/v1/nodes",
        "/v1/claims?keyspace=links",
    ] {
        let answer = server.get(path);
        assert_eq!(
            (answer.status, answer.header("cache-control")),
            (200, Some("no-store")),
            "{path}: {answer:?}"
        );
    }
    for (method, path, accept) in [
        ("POST", MINT, "application/json"),
        ("POST", MINT, "text/plain"),
        ("POST", "/v1/ledger/backup", "*/*"),
        ("PATCH", "/v1/keyspaces/links", "*/*"),
    ] {
        let answer = server.connect().send(method, path, &[("Accept", accept)], b"").unwrap();
        assert_eq!(
            (answer.status, answer.header("cache-control")),
            (200, Some("no-store")),
            "{path}: {answer:?}"
        );
    }
    let streamed =
        server.connect().send("POST", MINT, &[("Accept", "text/plain")], b"{\"count\":20000}").unwrap();
    assert_eq!((streamed.lines().len(), streamed.header("cache-control")), (20_000, Some("no-store")));
}

#[test]
fn requests_that_are_no_requests_are_refused_or_cut_off() {
    let home = Home::new();
    let server = home.start();
    let before = figures(&server);
    let raw: [(&str, &[u8], u16); 6] = [
        (
            "a control character in the path",
            b"POST /v1/keyspaces/li\x01nks/keys HTTP/1.1\r\nHost: t\r\n\r\n",
            400,
        ),
        ("a blank in the path", b"POST /v1/keyspaces/li nks/keys HTTP/1.1\r\nHost: t\r\n\r\n", 400),
        ("no method", b" /v1 HTTP/1.1\r\n\r\n", 400),
        ("a header without a name", b"POST /v1/keyspaces/links/keys HTTP/1.1\r\n: x\r\n\r\n", 400),
        ("a NUL in a header", b"POST /v1/keyspaces/links/keys HTTP/1.1\r\nHost: a\0b\r\n\r\n", 400),
        (
            "two lengths",
            b"POST /v1/keyspaces/links/keys HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
            400,
        ),
    ];
    for (what, bytes, status) in raw {
        let mut connection = server.connect();
        connection.write(bytes).unwrap();
        let answer = connection.answer(false).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert_eq!(figures(&server), before, "{what}");
    }
    // One big header, and many small ones.
    let big = "a".repeat(200 << 10);
    let many: String = (0..5000).map(|n| format!("X-{n}: 1\r\n")).collect();
    for head in [format!("X-Big: {big}\r\n"), many] {
        let mut connection = server.connect();
        let request = format!("POST {MINT} HTTP/1.1\r\nHost: t\r\n{head}\r\n");
        // It may hang up before it has read everything.
        let _ = connection.write(request.as_bytes());
        match connection.answer(false) {
            Ok(answer) => assert_eq!(answer.status, 431, "{answer:?}"),
            Err(error) => panic!("no answer to a large head: {error}"),
        }
        assert_eq!(figures(&server), before);
    }
    // Not HTTP at all: it is cut off, or told that it is not.
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01"[..],
        b"*1\r\n$4\r\nPING\r\n",
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    ] {
        let mut connection = server.connect();
        connection.write(bytes).unwrap();
        connection.finish_writing().unwrap();
        if let Ok(answer) = connection.answer(false) {
            assert_eq!(answer.status, 400, "{answer:?}");
        }
    }
    assert_eq!(figures(&server), before);
    // A length that lies: the rest never comes.
    let mut connection = server.connect();
    connection
        .write(format!("POST {MINT} HTTP/1.1\r\nHost: t\r\nContent-Length: 50\r\n\r\n{{}}").as_bytes())
        .unwrap();
    connection.finish_writing().unwrap();
    if let Ok(answer) = connection.answer(false) {
        assert_problem("half a body", &answer, 400, "invalid_request");
    }
    assert_eq!(figures(&server), before);
    assert_eq!(server.take("links", 1).len(), 1, "and it is none the worse for it");
}

#[test]
fn what_comes_too_slowly_is_refused_and_holds_nobody_up() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LIMITS__REQUEST_TIMEOUT", "300ms").start();
    let before = figures(&server);
    let begun = Instant::now();
    // A body that never comes, one that drips, and a head that never ends.
    let mut silent = server.connect();
    silent
        .write(format!("POST {MINT} HTTP/1.1\r\nHost: t\r\nContent-Length: 50\r\n\r\n{{").as_bytes())
        .unwrap();
    let mut headless = server.connect();
    headless.write(format!("POST {MINT} HTTP/1.1\r\nHost: t\r\nX-Sl").as_bytes()).unwrap();
    let address = server.address;
    let dripping = thread::spawn(move || {
        let mut connection = Connection::open(address).unwrap();
        connection
            .write(format!("POST {MINT} HTTP/1.1\r\nHost: t\r\nContent-Length: 500\r\n\r\n").as_bytes())
            .unwrap();
        for _ in 0..100 {
            if connection.write(b" ").is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        connection.answer(false)
    });
    assert_problem("a body that never comes", &silent.answer(false).unwrap(), 408, "request_timeout");
    if let Ok(answer) = dripping.join().unwrap() {
        assert_problem("a body that drips", &answer, 408, "request_timeout");
    }
    if let Ok(answer) = headless.answer(false) {
        assert_eq!(answer.status, 408, "{answer:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(figures(&server), before);
    assert_eq!(server.take("tickets", 1).len(), 1);
}

#[test]
fn one_connection_too_many_is_told_so_and_the_others_are_served() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LIMITS__CONNECTIONS", "5").start();
    let mut open: Vec<Connection> = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while open.len() < 5 {
        assert!(Instant::now() < deadline, "the seats of earlier connections were not freed");
        let mut connection = server.connect();
        match connection.ask("POST", MINT, Some("{}")) {
            Ok(answer) if answer.status == 200 => open.push(connection),
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
    let mut one_more = server.connect();
    let answer = one_more.answer(false).expect("it is told before it asks");
    assert_eq!((answer.status, answer.code().as_str()), (503, "overloaded"), "{answer:?}");
    assert!(answer.header("retry-after").is_some());
    for connection in &mut open {
        assert_eq!(connection.ask("POST", MINT, Some("{}")).unwrap().status, 200);
    }
    drop(open.pop());
    let freed = (0..500).any(|_| {
        thread::sleep(Duration::from_millis(5));
        server.connect().ask("POST", MINT, Some("{}")).is_ok_and(|answer| answer.status == 200)
    });
    assert!(freed, "a seat that was left can be taken");
}

#[test]
fn many_requests_on_one_connection_are_answered_in_order() {
    let home = Home::new();
    let server = home.start();
    let mut connection = server.connect();
    let one = format!("POST {MINT} HTTP/1.1\r\nHost: t\r\n\r\n");
    connection.write(one.repeat(200).as_bytes()).unwrap();
    let keys: Vec<String> = (0..200).flat_map(|_| connection.answer(false).unwrap().keys()).collect();
    assert_eq!(keys, (1..=200).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn definitions_that_make_no_sense_are_refused_by_field() {
    let home = Home::new();
    let server = home.start();
    let pool = |more: Value| with(json!({"name": "x", "scheme": "pool"}), more);
    let sequence = |more: Value| with(json!({"name": "x", "scheme": "sequence"}), more);
    let mut wrong: Vec<(Value, &str)> = vec![
        (pool(json!({"length": 11})), "length"),
        (pool(json!({"length": 0})), "length"),
        (pool(json!({"length": -1})), "length"),
        (pool(json!({"length": 7.5})), "length"),
        (pool(json!({"length": "7"})), "length"),
        (pool(json!({"alphabet": "base63"})), "alphabet"),
        (pool(json!({"alphabet": "custom:aa"})), "alphabet"),
        (pool(json!({"alphabet": "custom:a"})), "alphabet"),
        (pool(json!({"alphabet": "custom:a/b"})), "alphabet"),
        (pool(json!({"alphabet": "custom:abc", "check": true})), "check"),
        (pool(json!({"order": "random"})), "order"),
        (pool(json!({"prefix": "a".repeat(17)})), "prefix"),
        (pool(json!({"prefix": "a/b"})), "prefix"),
        (pool(json!({"prefix": "../"})), "prefix"),
        (pool(json!({"blocklist": ["ab"]})), "blocklist"),
        (pool(json!({"blocklist": "none"})), "blocklist"),
        (pool(json!({"check": "yes"})), "check"),
        (pool(json!({"grow": 1})), "grow"),
        (pool(json!({"offset": 1})), "offset"),
        (pool(json!({"layout": "default"})), "layout"),
        (pool(json!({"store": "shelf"})), "store"),
        (pool(json!({"redis_key": "codes"})), "redis_key"),
        (pool(json!({"store": "table", "table_prefix": "a;b"})), "table_prefix"),
        (pool(json!({"stock_min": 0})), "stock_min"),
        (pool(json!({"restart_below": "10M", "page_below": "20M"})), "page_below"),
        (pool(json!({"restart_below": "1h", "page_below": "2h"})), "page_below"),
        (pool(json!({"store": "table", "capacity": 1000, "restart_below": 2000})), "restart_below"),
        (pool(json!({"store": "table", "capacity": 1000, "page_below": "2K"})), "page_below"),
        (pool(json!({"stock_min": 100, "stock_max": 10})), "stock_min"),
        (pool(json!({"stock_max": "20m"})), "stock_max"),
        (pool(json!({"outage_budget": "20M"})), "outage_budget"),
        (pool(json!({"outage_budget": 60})), "outage_budget"),
        (pool(json!({"audit": 5})), "audit"),
        (pool(json!({"lenght": 8})), "lenght"),
        (pool(json!({"secret": "00"})), "secret"),
        (sequence(json!({"step": 0})), "step"),
        (sequence(json!({"offset": "9223372036854775808"})), "offset"),
        (sequence(json!({"offset": -1})), "offset"),
        (sequence(json!({"offset": "1e3"})), "offset"),
        (sequence(json!({"check": true, "alphabet": "custom:abc"})), "check"),
        (sequence(json!({"root": true})), "root"),
        (sequence(json!({"blocklist": ["abc"]})), "blocklist"),
        (json!({"name": "x"}), "scheme"),
        (json!({"scheme": "pool"}), "name"),
        (json!({"name": 5, "scheme": "pool"}), "name"),
        (json!({"name": "x", "scheme": "Pool"}), "scheme"),
    ];
    // Not part of this version yet.
    wrong.push((json!({"name": "x", "scheme": "digest", "hash": "crc32"}), "hash"));
    let long = "a".repeat(10 << 10);
    for name in [
        "",
        "..",
        ".",
        "a/b",
        "A",
        "-a",
        "_a",
        "a b",
        "a\0b",
        "a\nb",
        "é",
        "v1",
        "healthz",
        "robots.txt",
        &"a".repeat(64),
        &long,
    ] {
        wrong.push((json!({"name": name, "scheme": "pool"}), "name"));
    }
    let keyspaces =
        |server: &Server| server.get("/v1/keyspaces").json()["keyspaces"].as_array().unwrap().len();
    let before = keyspaces(&server);
    for (body, field) in &wrong {
        let what = body.to_string();
        let answer = server.post("/v1/keyspaces", &what);
        assert_problem(&what, &answer, 422, "invalid_field");
        let pointer = answer.json()["errors"][0]["pointer"].as_str().unwrap_or_default().to_owned();
        assert_eq!(pointer, format!("#/{field}"), "{what}: {}", answer.text());
        assert!(answer.body.len() < 2000, "{what} is not repeated at length: {}", answer.text());
        assert!(!answer.text().contains("\\u0000\\u0000"), "{what}");
        assert_eq!(keyspaces(&server), before, "{what}");
    }
}

fn with(mut object: Value, more: Value) -> Value {
    for (field, value) in more.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

#[test]
fn a_keyspace_is_created_once_and_its_frozen_fields_stay() {
    let home = Home::new();
    let server = home.start();
    let promo =
        json!({"name": "promo", "scheme": "pool", "alphabet": "base36", "length": 8, "stock_max": "5K"});
    let created = server.post("/v1/keyspaces", &promo.to_string());
    assert_eq!(
        (created.status, created.header("location")),
        (201, Some("/v1/keyspaces/promo")),
        "{created:?}"
    );
    assert!(!created.text().contains("secret"), "the shuffle's secret is never shown: {}", created.text());
    let again = server.post("/v1/keyspaces", &promo.to_string());
    assert_eq!(
        (again.status, again.json()["fingerprint"].clone()),
        (200, created.json()["fingerprint"].clone())
    );
    let less = server.post("/v1/keyspaces", r#"{"name":"promo","scheme":"pool"}"#);
    assert_eq!(less.status, 200, "only what is stated is compared: {less:?}");

    for (field, value, stored, stated) in [
        ("length", json!(9), "8", "9"),
        ("alphabet", json!("base62"), "base36", "base62"),
        ("order", json!("sequential"), "shuffled", "sequential"),
        ("scheme", json!("sequence"), "pool", "sequence"),
        ("grow", json!(true), "false", "true"),
    ] {
        let mut other = json!({"name": "promo", "scheme": "pool"});
        other[field] = value;
        let refused = server.post("/v1/keyspaces", &other.to_string());
        assert_problem(field, &refused, 409, "definition_conflict");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(stored) && detail.contains(stated) && detail.contains(field), "{detail}");
    }
    let second_root = server.post("/v1/keyspaces", r#"{"name":"other","scheme":"pool","root":true}"#);
    assert_problem("a second root", &second_root, 409, "definition_conflict");
    assert!(second_root.text().contains("links"), "it names the first: {}", second_root.text());
    assert_eq!(server.get("/v1/keyspaces/other").code(), "keyspace_not_found");

    for (patch, field) in [
        (json!({"length": 9}), "length"),
        (json!({"scheme": "pool"}), "scheme"),
        (json!({"alphabet": "base36"}), "alphabet"),
        (json!({"name": "promo"}), "name"),
        (json!({"nothing": 1}), "nothing"),
        (json!({"stock_min": "10K", "stock_max": "1K"}), "stock_min"),
        (json!({"outage_budget": "soon"}), "outage_budget"),
    ] {
        let refused = server.ask("PATCH", "/v1/keyspaces/promo", Some(&patch.to_string()));
        assert_problem(&patch.to_string(), &refused, 422, "invalid_field");
        assert!(refused.text().contains(field), "{}", refused.text());
    }
    let tuned = server.ask("PATCH", "/v1/keyspaces/promo", Some(r#"{"outage_budget":"5s"}"#));
    assert_eq!(tuned.json()["tuning"]["outage_budget"], "5s", "{tuned:?}");
    assert_eq!(server.ask("PATCH", "/v1/keyspaces/nothing", Some("{}")).code(), "keyspace_not_found");
    assert_eq!(server.ask("DELETE", "/v1/keyspaces/nothing", None).code(), "keyspace_not_found");
    assert_eq!(server.ask("DELETE", "/v1/keyspaces/promo", None).json()["state"], "retired");
    assert_problem("retired", &server.try_take("promo", 1), 410, "retired");
    assert_problem("made again", &server.post("/v1/keyspaces", &promo.to_string()), 410, "retired");
}
