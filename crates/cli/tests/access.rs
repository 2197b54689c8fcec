//! Who may do what, on the real binary and all three protocols: each address and command with each scope, inside
//! and outside the token's keyspaces; limits of keys a second; tokens that are revoked while they are in use.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use keymill_api::grpc::{
    InspectRequest, LeaseWorkerRequest, StreamRequest, TakeRequest, keymill_client::KeymillClient,
};
use serde_json::{Value, json};
use tonic::{Code, Request, Status, transport::Channel};

mod harness;
#[allow(dead_code, reason = "the whole client, of which this needs a part")]
#[path = "clients/raw.rs"]
mod raw;
use harness::{Answer, Home, Launch, PATIENCE, Server};
use raw::{Raw, Reply};

const SCOPES: [&str; 4] = ["take", "inspect", "name", "admin"];
const PATTERNS: [&str; 2] = ["*", "promo*"];
const KEYSPACES: &str = "[keyspaces.links]\nscheme = \"pool\"\n[keyspaces.promo-1]\nscheme = \"pool\"\n\
                         [keyspaces.tickets]\nscheme = \"sequence\"\n[keyspaces.promo-tickets]\nscheme = \"sequence\"\n\
                         [keyspaces.events]\nscheme = \"snowflake\"\n[keyspaces.promo-events]\nscheme = \"snowflake\"\n";

/// Every address that names a keyspace, with a body that suits it, and the scope it wants. `KS` stands for a
/// keyspace outside and inside the token's patterns, `%KS` for its name escaped. What destroys comes last.
const OF_KEYSPACES: &[(&str, &str, &str, &str)] = &[
    ("POST", "/v1/keyspaces/KS/keys", "", "take"),
    ("POST", "/v1/keyspaces/%KS/keys", "", "take"),
    ("GET", "/v1/keyspaces/KS/keys/abc", "", "inspect"),
    ("GET", "/v1/keyspaces/%KS/keys/abc", "", "inspect"),
    ("GET", "/v1/keyspaces/KS/range?from=1&to=2", "", "inspect"),
    ("GET", "/v1/keyspaces/KS/history", "", "inspect"),
    ("GET", "/v1/keyspaces/KS/issued", "", "inspect"),
    ("GET", "/v1/keyspaces/KS", "", "inspect"),
    ("GET", "/v1/claims?keyspace=KS", "", "inspect"),
    ("GET", "/v1/workers?keyspace=KS", "", "inspect"),
    ("GET", "/v1/keyspaces/KS/links", "", "inspect"),
    ("GET", "/v1/keyspaces/KS/links/abc", "", "inspect"),
    ("GET", "/v1/keyspaces/KS/refs?ref=a", "", "inspect"),
    ("GET", "/v1/keyspaces/KS/refs/a", "", "inspect"),
    ("PUT", "/v1/keyspaces/KS/keys/abc", "", "name"),
    ("POST", "/v1/keyspaces/KS/links", "{\"url\":\"http://example.com\"}", "name"),
    ("POST", "/v1/keyspaces/KS/links/batch", "{\"links\":[{\"url\":\"http://example.com\"}]}", "name"),
    ("PUT", "/v1/keyspaces/KS/links/abc", "{\"url\":\"http://example.com\"}", "name"),
    ("PATCH", "/v1/keyspaces/KS/links/abc", "{\"url\":\"http://example.com\"}", "name"),
    ("DELETE", "/v1/keyspaces/KS/links/abc", "", "name"),
    ("POST", "/v1/keyspaces/KS/refs", "{\"ref\":\"a\"}", "name"),
    ("POST", "/v1/keyspaces/KS/refs/batch", "{\"refs\":[{\"ref\":\"a\"}]}", "name"),
    ("POST", "/v1/keyspaces/KS/used", "", "admin"),
    ("POST", "/v1/keyspaces/KS/import", "", "admin"),
    ("POST", "/v1/keyspaces/KS/fill", "", "admin"),
    ("PATCH", "/v1/keyspaces/KS", "{\"stock_min\":512}", "admin"),
    ("POST", "/v1/keyspaces", "{\"name\":\"KS\",\"scheme\":\"pool\"}", "admin"),
    ("DELETE", "/v1/keyspaces/KS", "", "admin"),
];

/// Every other address, the scope it wants, and whether that has to be for all keyspaces.
const OF_ALL: &[(&str, &str, &str, &str, bool)] = &[
    ("GET", "/v1/keyspaces", "", "inspect", false),
    ("GET", "/v1/decode/1541815603606036480", "", "inspect", false),
    ("GET", "/v1/decode?at=1767225600000&layout=default", "", "inspect", false),
    ("GET", "/v1/ledger", "", "inspect", false),
    ("GET", "/v1/nodes", "", "inspect", false),
    ("GET", "/v1/workers", "", "inspect", false),
    ("GET", "/v1/incidents", "", "inspect", false),
    ("GET", "/v1/stream", "", "inspect", false),
    ("GET", "/metrics", "", "inspect", false),
    ("GET", "/v1/tokens", "", "admin", true),
    ("POST", "/v1/tokens", "{\"name\":\"x\",\"scopes\":[\"take\"]}", "admin", true),
    ("DELETE", "/v1/tokens/aaaaaaaa", "", "admin", true),
    ("POST", "/v1/ledger/advance", "{\"dry_run\":true}", "admin", true),
    ("POST", "/v1/ledger/backup", "", "admin", true),
];

/// Open to all.
const OPEN: &[&str] = &["/healthz", "/readyz", "/docs", "/openapi.json"];

/// Whether an address is one of those that a document's `template` stands for.
fn is_of(path: &str, template: &str) -> bool {
    let path: Vec<_> = path.split('?').next().unwrap().split('/').collect();
    let template: Vec<_> = template.split('/').collect();
    path.len() == template.len()
        && path.iter().zip(template).all(|(there, wanted)| *there == wanted || wanted.starts_with('{'))
}

#[derive(Debug, Clone)]
struct Token {
    scope: &'static str,
    pattern: &'static str,
    text: String,
}

impl Token {
    fn id(&self) -> &str {
        &self.text[3..11]
    }

    fn sees(&self, keyspace: &str) -> bool {
        self.pattern == "*" || keyspace.starts_with("promo")
    }
}

/// Makes a token in the store itself, as the first one must be.
#[track_caller]
fn make(home: &Home, scope: &'static str, pattern: &'static str, more: &[&str]) -> Token {
    let data = home.data();
    let mut arguments = vec!["token", "create", "--name", scope, "--scope", scope, "--keyspace", pattern];
    arguments.extend(["--data-dir", data.to_str().unwrap()]);
    arguments.extend(more);
    let text = home.run(&arguments).ok().trim().to_owned();
    assert!(text.starts_with("km_") && text.len() == 55, "{text}");
    Token { scope, pattern, text }
}

fn guarded(home: &Home) -> Launch {
    let config = home.write("guarded.toml", KEYSPACES);
    home.server().arguments(&["--config", config.to_str().unwrap()]).environment("KEYMILL_AUTH__MODE", "on")
}

#[track_caller]
fn ask(server: &Server, token: Option<&str>, method: &str, path: &str, body: &str) -> Answer {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    server.connect().send(method, path, &headers, body.as_bytes()).expect("an answer")
}

/// Asks, and reads no further than the status: some answers never end.
#[track_caller]
fn begin(
    server: &Server,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect_timeout(&server.address, PATIENCE).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: test\r\nAccept: text/plain, text/event-stream\r\n{bearer}"
    );
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let (mut stream, mut line) = (BufReader::new(stream), String::new());
    stream.read_line(&mut line).unwrap();
    (line["HTTP/1.1 ".len()..][..3].parse().unwrap_or_else(|_| panic!("{line}")), stream)
}

/// What a row of a table comes to for one token and one keyspace.
fn expected(token: &Token, scope: &str, keyspace: &str) -> &'static str {
    match () {
        () if token.scope != scope => "forbidden",
        () if !token.sees(keyspace) => "keyspace_not_found",
        () => "",
    }
}

/// Whatever else a request comes to is not for this test to judge.
fn verdict(code: &str) -> &str {
    let judged = ["unauthenticated", "forbidden", "keyspace_not_found"];
    if judged.contains(&code) { code } else { "" }
}

#[test]
fn every_address_wants_its_scope_and_its_keyspace() {
    let home = Home::new();
    let tokens: Vec<Token> = SCOPES
        .iter()
        .flat_map(|scope| PATTERNS.iter().map(|pattern| make(&home, scope, pattern, &[])))
        .collect();
    let server = guarded(&home).start();
    for (method, path, body, scope) in OF_KEYSPACES {
        for keyspace in ["links", "promo-1"] {
            // A name may come escaped, and is the same name.
            let escaped = format!("%{:02x}{}", keyspace.as_bytes()[0], &keyspace[1..]);
            let path = path.replace("%KS", &escaped).replace("KS", keyspace);
            let body = body.replace("KS", keyspace);
            for token in &tokens {
                let answer = ask(&server, Some(&token.text), method, &path, &body);
                let expected = expected(token, scope, keyspace);
                assert_eq!(verdict(&answer.code()), expected, "{method} {path} {token:?} {answer:?}");
                if expected.is_empty() && *scope == "take" {
                    assert_eq!(answer.status, 200, "{answer:?}");
                }
            }
            for token in [None, Some("km_aaaaaaaa_"), Some("nonsense"), Some("")] {
                let answer = ask(&server, token, method, &path, &body);
                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (401, "unauthenticated"),
                    "{path} {answer:?}"
                );
                assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"keymill\""), "{answer:?}");
            }
        }
    }
    for (method, path, body, scope, over_all) in OF_ALL {
        for token in &tokens {
            let (status, _) = begin(&server, Some(&token.text), method, path, body);
            let may = token.scope == *scope && (!over_all || token.pattern == "*");
            assert_eq!(status != 403, may, "{method} {path} {token:?} {status}");
        }
        assert_eq!(begin(&server, None, method, path, body).0, 401, "{path}");
    }
    for path in OPEN {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert!(!server.log().contains("km_"), "no token is ever logged");
}

#[test]
fn no_address_of_the_document_is_left_out_of_these_tables() {
    let home = Home::new();
    let document = home.start().get("/openapi.json").json();
    let of_keyspaces = OF_KEYSPACES.iter().map(|(method, path, ..)| (*method, *path));
    let of_all = OF_ALL.iter().map(|(method, path, ..)| (*method, *path));
    let rows: Vec<_> = of_keyspaces.chain(of_all).collect();
    for (template, methods) in document["paths"].as_object().unwrap() {
        if OPEN.contains(&template.as_str()) || !template.starts_with("/v1/") {
            continue;
        }
        for method in methods.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
            let there = rows.iter().any(|(of, path)| *of == method && is_of(path, template));
            assert!(there, "{method} {template}: add a row that says which scope it wants");
        }
    }
}

#[test]
fn what_is_no_token_is_told_so_and_never_breaks_anything() {
    let home = Home::new();
    let good = make(&home, "take", "*", &[]);
    let server = guarded(&home).start();
    let status = |headers: &[(&str, &str)]| {
        let answer = server.connect().send("POST", "/v1/keyspaces/links/keys", headers, b"");
        answer.unwrap_or_else(|error| panic!("{headers:?}: {error}")).status
    };
    let text = good.text.as_str();
    let flipped = |at: usize| {
        let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
        format!("{}{other}{}", &text[..at], &text[at + 1..])
    };
    let accepted = [
        format!("Bearer {text}"),
        format!("bearer {text}"),
        format!("BEARER {text}"),
        format!("Bearer   {text}  "),
    ];
    for shown in &accepted {
        assert_eq!(status(&[("Authorization", shown)]), 200, "{shown}");
    }
    let refused = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        text.to_owned(),
        format!("Bearer\t{text}"),
        format!("Bearer{text}"),
        format!("Basic {text}"),
        format!("Token {text}"),
        format!("Bearer {text},{text}"),
        format!("Bearer {text} {text}"),
        format!("Bearer \"{text}\""),
        format!("Bearer {}", text.to_uppercase()),
        format!("Bearer {}", text.to_lowercase()),
        format!("Bearer {}", &text[..54]),
        format!("Bearer {text}="),
        format!("Bearer {}", flipped(4)),
        format!("Bearer {}", flipped(11)),
        format!("Bearer {}", flipped(12)),
        format!("Bearer {}", flipped(54)),
        format!("Bearer km_{}", "ü".repeat(26)),
        format!("Bearer {}", "k".repeat(10_000)),
        format!("Bearer {text}{}", "x".repeat(10_000)),
    ];
    for shown in &refused {
        assert_eq!(status(&[("Authorization", shown)]), 401, "{shown}");
    }
    // The first one counts, as with proxies that add their own.
    let (good, bad) = (accepted[0].as_str(), "Bearer nonsense");
    assert_eq!(status(&[("Authorization", bad), ("Authorization", good)]), 401);

    let mut redis = Raw::open(server.resp.unwrap());
    for shown in refused.iter().filter_map(|shown| shown.strip_prefix("Bearer ")) {
        if shown.is_empty() || shown.contains([' ', '"']) {
            continue;
        }
        assert_eq!(redis.ask(&format!("AUTH {shown}")).error().0, "WRONGPASS", "{shown}");
        assert_eq!(redis.ask(&format!("HELLO 3 AUTH any {shown}")).error().0, "WRONGPASS", "{shown}");
    }
    assert!(matches!(redis.ask("AUTH"), Reply::Error(_)));
    assert_eq!(redis.ask("LPOP links").error().0, "NOAUTH");
    assert_eq!(redis.ask(&format!("AUTH {text}")), Reply::Simple("OK".into()));
    redis.ask("LPOP links").key();
    assert!(!server.log().contains(&text[12..]), "no token is ever logged");
}

#[test]
fn keyspaces_outside_a_token_are_in_no_list() {
    let home = Home::new();
    let few = make(&home, "inspect", "promo*", &[]);
    let all = make(&home, "inspect", "*", &[]);
    let server = guarded(&home).start();
    for path in ["/v1/keyspaces", "/v1/ledger", "/v1/nodes", "/v1/workers", "/metrics"] {
        let shown = ask(&server, Some(&few.text), "GET", path, "");
        assert_eq!(shown.status, 200, "{shown:?}");
        for hidden in ["\"links", "\"tickets", "\"events"] {
            assert!(!shown.text().contains(hidden), "{path}: {}", shown.text());
        }
        let deadline = Instant::now() + PATIENCE;
        // A node tells of its keyspaces with its first heartbeat, and leases workers in its own time.
        while ["\"links", "\"events"]
            .iter()
            .all(|name| !ask(&server, Some(&all.text), "GET", path, "").text().contains(name))
        {
            assert!(Instant::now() < deadline, "{path} shows nothing to anyone");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn every_redis_command_wants_its_scope_and_its_keyspace() {
    let home = Home::new();
    let tokens: Vec<Token> = SCOPES
        .iter()
        .flat_map(|scope| PATTERNS.iter().map(|pattern| make(&home, scope, pattern, &[])))
        .collect();
    let server = guarded(&home).start();
    let rows = [
        ("LPOP KS", "take"),
        ("RPOP KS 3", "take"),
        ("SPOP KS 3", "take"),
        ("LPOP KS 0", "take"),
        ("INCR KStickets", "take"),
        ("INCRBY KStickets 5", "take"),
        ("LLEN KS", "inspect"),
        ("SCARD KS", "inspect"),
        ("SET KS:hello http://example.com/2 NX", "name"),
    ];
    let mut naming = Raw::open(server.resp.unwrap());
    let name = tokens.iter().find(|token| token.scope == "name").unwrap();
    naming.ask(&format!("AUTH {}", name.text));
    for keyspace in ["links", "promo-1"] {
        let bound = naming.ask(&format!("SET {keyspace}:hello http://example.com/{keyspace} NX"));
        assert_eq!(bound, Reply::Simple("OK".into()));
    }
    let prefix = |reply: Reply| match reply {
        Reply::Error(_) => reply.error().0,
        _ => String::new(),
    };
    for token in &tokens {
        let mut connection = Raw::open(server.resp.unwrap());
        assert_eq!(prefix(connection.ask("LPOP links")), "NOAUTH");
        assert_eq!(prefix(connection.ask("PING")), "NOAUTH");
        assert_eq!(prefix(connection.ask("HELLO 3")), "NOAUTH");
        assert_eq!(prefix(connection.ask("AUTH nonsense")), "WRONGPASS");
        let show = match token.scope {
            "take" => format!("AUTH {}", token.text),
            "inspect" => format!("AUTH any {}", token.text),
            _ => format!("HELLO 3 AUTH any {}", token.text),
        };
        assert!(!matches!(connection.ask(&show), Reply::Error(_)), "{show}");
        assert_eq!(connection.ask("PING"), Reply::Simple("PONG".into()));
        for (command, scope) in rows {
            for (keyspace, tickets) in [("links", ""), ("promo-1", "promo-")] {
                let command =
                    command.replace("KStickets", &format!("{tickets}tickets")).replace("KS", keyspace);
                let expected = match expected(token, scope, keyspace) {
                    "forbidden" => "NOPERM",
                    "keyspace_not_found" => "NOTFOUND",
                    _ => "",
                };
                // Twice: the second time the connection remembers the keyspace.
                for _ in 0..2 {
                    assert_eq!(prefix(connection.ask(&command)), expected, "{command} {token:?}");
                }
            }
        }
        if token.scope == "inspect" {
            let seen = i64::from(token.sees("links"));
            assert_eq!(connection.ask("EXISTS links promo-1 nothing").integer(), 1 + seen);
            // Where a link leads is nobody's business outside the patterns; redirects are, and are for all.
            let target = Reply::Bulk("http://example.com/links".into());
            let expected = if token.sees("links") { target } else { Reply::Null };
            assert_eq!(connection.ask("GET links:hello"), expected);
            assert_eq!(connection.ask("GET promo-1:hello"), Reply::Bulk("http://example.com/promo-1".into()));
            assert_eq!(connection.ask("EXISTS links:hello promo-1:hello").integer(), 1 + seen);
            let kind = if token.sees("links") { "list" } else { "none" };
            assert_eq!(connection.ask("TYPE links"), Reply::Simple(kind.into()));
        } else {
            for command in ["GET promo-1:hello", "EXISTS promo-1", "TYPE promo-1"] {
                assert_eq!(prefix(connection.ask(command)), "NOPERM", "{command}");
            }
        }
        assert_eq!(prefix(connection.ask("AUTH nonsense")), "WRONGPASS");
        assert_eq!(connection.ask("PING"), Reply::Simple("PONG".into()), "it stays who it was");
        assert_eq!(connection.ask("RESET"), Reply::Simple("RESET".into()));
        assert_eq!(prefix(connection.ask("PING")), "NOAUTH", "and is nobody again");
    }
    // Another token on the same connection sees what it sees, whatever was used before.
    let mut connection = Raw::open(server.resp.unwrap());
    connection.ask(&format!("AUTH {}", tokens[0].text));
    connection.ask("LPOP links").key();
    connection.ask(&format!("AUTH {}", tokens[1].text));
    assert_eq!(prefix(connection.ask("LPOP links")), "NOTFOUND");
    assert_eq!(connection.ask("LPOP nothing").error().1.replace("nothing", "links"), {
        connection.ask("LPOP links").error().1
    });
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(3 * PATIENCE, test).await.expect("it came to an end") })
}

fn with<T>(token: Option<&str>, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

async fn grpc(server: &Server) -> KeymillClient<Channel> {
    KeymillClient::new(Channel::from_shared(server.url()).unwrap().connect().await.expect("it listens"))
}

/// One call of each kind, by name, and what it came to.
async fn call(
    client: &mut KeymillClient<Channel>,
    name: &str,
    token: Option<&str>,
    keyspace: &str,
) -> Result<(), Status> {
    let keyspace = keyspace.to_owned();
    match name {
        "Take" => client.take(with(token, TakeRequest { keyspace, count: 2 })).await.map(drop),
        "Stream" => {
            let asked = StreamRequest { keyspace, count: 5, batch: 2 };
            let mut stream = client.stream(with(token, asked)).await?.into_inner();
            while stream.message().await?.is_some() {}
            Ok(())
        }
        "Inspect" => {
            let asked = InspectRequest { keyspace, key: "aaaaaaa".to_owned() };
            client.inspect(with(token, asked)).await.map(drop)
        }
        _ => {
            let (keyspace, holder) =
                (keyspace.replace("links", "events").replace("promo-1", "promo-events"), name);
            let asked = LeaseWorkerRequest { keyspace, holder: holder.to_owned(), window_ms: 1000 };
            client.lease_worker(with(token, asked)).await.map(drop)
        }
    }
}

fn code(outcome: &Result<(), Status>) -> String {
    let Err(status) = outcome else { return String::new() };
    status.metadata().get("keymill-code").map_or("", |code| code.to_str().unwrap()).to_owned()
}

#[test]
fn every_grpc_call_wants_its_scope_and_its_keyspace() {
    let home = Home::new();
    let tokens: Vec<Token> = SCOPES
        .iter()
        .flat_map(|scope| PATTERNS.iter().map(|pattern| make(&home, scope, pattern, &[])))
        .collect();
    let server = guarded(&home).start();
    run(async {
        let mut client = grpc(&server).await;
        for (name, scope) in
            [("Take", "take"), ("Stream", "take"), ("Inspect", "inspect"), ("LeaseWorker", "take")]
        {
            for keyspace in ["links", "promo-1"] {
                for token in &tokens {
                    let outcome = call(&mut client, name, Some(&token.text), keyspace).await;
                    let expected = expected(token, scope, keyspace);
                    assert_eq!(verdict(&code(&outcome)), expected, "{name} {keyspace} {token:?} {outcome:?}");
                    if expected == "forbidden" {
                        assert_eq!(outcome.unwrap_err().code(), Code::PermissionDenied);
                    }
                }
                for token in [None, Some("nonsense")] {
                    let refused = call(&mut client, name, token, keyspace).await.unwrap_err();
                    assert_eq!(refused.code(), Code::Unauthenticated, "{name} {refused:?}");
                }
            }
        }
        let channel = Channel::from_shared(server.url()).unwrap().connect().await.unwrap();
        let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
        let asked = tonic_health::pb::HealthCheckRequest { service: String::new() };
        assert!(health.check(asked).await.is_ok(), "health is open to all");
    });
}

#[test]
fn a_listener_outside_loopback_needs_a_token_before_it_starts() {
    let home = Home::new();
    let refused = home.server().http("0.0.0.0:0").run();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for named in ["auth.mode", "keymill token create", "0.0.0.0"] {
        assert!(refused.stderr.contains(named), "{refused:?}");
    }
    let by_resp = home.server().resp("0.0.0.0:0").run();
    assert!(by_resp.stderr.contains("auth.mode"), "{by_resp:?}");
    let waived = home.server().http("0.0.0.0:0").environment("KEYMILL_AUTH__MODE", "off").start();
    waived.logged("is not loopback");
    assert_eq!(waived.try_take("links", 1).status, 200);
    waived.terminate();

    let token = make(&home, "take", "*", &[]);
    let server = home.server().http("0.0.0.0:0").start();
    server.said("need a token");
    assert_eq!(server.try_take("links", 1).status, 401);
    assert_eq!(ask(&server, Some(&token.text), "POST", "/v1/keyspaces/links/keys", "").status, 200);
    server.terminate();
    let loopback = home.start();
    assert_eq!(loopback.try_take("links", 1).status, 200, "off on loopback");
}

/// Waits until the token is refused: other nodes see it a moment later.
#[track_caller]
fn until_refused(server: &Server, token: &Token) -> Duration {
    let begun = Instant::now();
    while ask(server, Some(&token.text), "POST", "/v1/keyspaces/links/keys", "").status != 401 {
        assert!(begun.elapsed() < PATIENCE, "it is still accepted");
        thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

#[test]
fn a_token_that_is_revoked_is_refused_everywhere_it_is_in_use() {
    let home = Home::new();
    let admin = make(&home, "admin", "*", &[]);
    let server = guarded(&home).start();
    let created = ask(
        &server,
        Some(&admin.text),
        "POST",
        "/v1/tokens",
        "{\"name\":\"x\",\"scopes\":[\"take\"],\"rate\":500}",
    );
    assert_eq!(created.status, 201, "{created:?}");
    let text = created.json()["token"].as_str().unwrap().to_owned();
    let token = Token { scope: "take", pattern: "*", text };
    assert_eq!(
        ask(&server, Some(&token.text), "POST", "/v1/keyspaces/links/keys", "").status,
        200,
        "at once"
    );
    let mut redis = Raw::open(server.resp.unwrap());
    redis.ask(&format!("AUTH {}", token.text));
    redis.ask("LPOP links").key();
    // Far too many for its rate: this goes on until it is cut off.
    let many = "{\"count\":1000000}";
    let (status, mut streamed) = begin(&server, Some(&token.text), "POST", "/v1/keyspaces/links/keys", many);
    assert_eq!(status, 200);
    run(async {
        let mut client = grpc(&server).await;
        let endless = StreamRequest { keyspace: "links".to_owned(), count: 0, batch: 10 };
        let mut stream = client.stream(with(Some(&token.text), endless)).await.unwrap().into_inner();
        assert!(stream.message().await.unwrap().is_some());

        let path = format!("/v1/tokens/{}", token.id());
        assert_eq!(ask(&server, Some(&admin.text), "DELETE", &path, "").status, 204);
        assert_eq!(
            ask(&server, Some(&token.text), "POST", "/v1/keyspaces/links/keys", "").status,
            401,
            "at once"
        );
        assert_eq!(redis.ask("LPOP links").error().0, "NOAUTH");
        let ended = async {
            while stream.message().await?.is_some() {}
            Ok::<(), Status>(())
        };
        assert_eq!(ended.await.unwrap_err().code(), Code::Unauthenticated);
        assert_eq!(ask(&server, Some(&admin.text), "DELETE", &path, "").status, 404, "it is gone");
    });
    let mut rest = Vec::new();
    let cut_off = streamed.read_to_end(&mut rest).is_err() || !rest.ends_with(b"0\r\n\r\n");
    assert!(cut_off, "{} bytes came, and the last chunk", rest.len());
}

#[test]
fn a_node_learns_what_another_revoked_and_keeps_what_it_knows_while_the_ledger_is_away() {
    let engine = keymill_engines::postgres::Postgres::start().expect("PostgreSQL starts");
    let (one, two) = (Home::new(), Home::new());
    let url = engine.url();
    let cli = |home: &Home, arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.extend(["--ledger", &url]);
        home.run(&all)
    };
    let made = cli(&one, &["token", "create", "--name", "a", "--scope", "take,admin"]).ok();
    let token = Token { scope: "take", pattern: "*", text: made.trim().to_owned() };
    let keep = cli(&one, &["token", "create", "--name", "b", "--scope", "take"]).ok();
    let launch = |home: &Home| guarded(home).arguments(&["--ledger", &url]).start();
    let (first, second) = (launch(&one), launch(&two));
    for server in [&first, &second] {
        assert_eq!(ask(server, Some(&token.text), "POST", "/v1/keyspaces/links/keys", "").status, 200);
    }
    let path = format!("/v1/tokens/{}", token.id());
    assert_eq!(ask(&first, Some(&token.text), "DELETE", &path, "").status, 204);
    assert_eq!(ask(&first, Some(&token.text), "POST", "/v1/keyspaces/links/keys", "").status, 401);
    let late = until_refused(&second, &token);
    println!("the other node refused it {late:?} later");
    drop(engine);
    thread::sleep(Duration::from_secs(1));
    let answer = ask(&second, Some(keep.trim()), "POST", "/v1/keyspaces/links/keys", "");
    assert_eq!(answer.status, 200, "what was known stays in force: {answer:?}");
}

#[test]
fn nobody_is_let_in_before_the_tokens_could_be_read() {
    let home = Home::new();
    let nobody_there = ["--ledger", "postgres://keymill@127.0.0.1:1/keymill"];
    let server = guarded(&home).arguments(&nobody_there).start_unready();
    let text = format!("km_aaaaaaaa_{}", "x".repeat(43));
    let answer = ask(&server, Some(&text), "GET", "/v1/ledger", "");
    assert_eq!((answer.status, answer.code().as_str()), (503, "ledger_unavailable"), "{answer:?}");
    assert_eq!(ask(&server, None, "GET", "/v1/ledger", "").status, 401);
    let mut redis = Raw::open(server.resp.unwrap());
    assert_eq!(redis.ask(&format!("AUTH {text}")).error().0, "TRYAGAIN");
    assert_eq!(server.get("/healthz").status, 200, "health is open to all");
}

#[test]
fn tokens_expire_and_the_commands_tell_of_them() {
    let home = Home::new();
    let data = home.data();
    let data = data.to_str().unwrap();
    let admin = make(&home, "admin", "*", &[]);
    let brief = make(&home, "take", "*", &["--expires-in", "3s"]);
    for (wrong, named) in [
        (vec!["--scope", "root"], "take, inspect, name, admin"),
        (vec!["--scope", "take", "--keyspace", "Promo"], "pattern"),
        (vec!["--scope", "take", "--expires-in", "90x"], "90x"),
        (vec!["--scope", "take", "--rate", "0"], "rate"),
    ] {
        let mut arguments = vec!["token", "create", "--name", "x", "--data-dir", data];
        arguments.extend(wrong);
        let refused = home.run(&arguments);
        assert!(refused.code == Some(1) && refused.stderr.contains(named), "{refused:?}");
    }
    let server = guarded(&home).start();
    let mut redis = Raw::open(server.resp.unwrap());
    if redis.ask(&format!("AUTH {}", brief.text)) == Reply::Simple("OK".into()) {
        let deadline = Instant::now() + PATIENCE;
        while matches!(redis.ask("LPOP links"), Reply::Bulk(_)) {
            assert!(Instant::now() < deadline, "it never expires");
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(redis.ask("LPOP links").error().0, "NOAUTH");
    }
    until_refused(&server, &brief);

    // Through the server, with the token in a file and in the environment.
    let file = home.write("admin.token", &format!("{}\n", admin.text));
    let file = file.to_str().unwrap();
    let listed = home.run(&["token", "list", "--json", "--token-file", file, "--server", &server.url()]).ok();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 2, "{listed}");
    assert!(!listed.to_string().contains("sha256") && !listed.to_string().contains(&admin.text[12..]));
    let unknown = home.run(&["token", "list", "--server", &server.url()]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("unauthenticated"), "{unknown:?}");
    let mut command = harness::keymill(home.path());
    command.env("KEYMILL_TOKEN", &admin.text).args([
        "token",
        "revoke",
        brief.id(),
        "--server",
        &server.url(),
    ]);
    harness::finish(command, PATIENCE).ok();
    server.terminate();
    let left = home.run(&["token", "list", "--data-dir", data]).ok();
    assert!(left.contains(admin.id()) && !left.contains(brief.id()), "{left}");
    let gone = home.run(&["token", "revoke", brief.id(), "--data-dir", data]);
    assert!(gone.code == Some(1) && gone.stderr.contains("no token"), "{gone:?}");
    home.run(&["token", "revoke", admin.id(), "--data-dir", data]).ok();
}

/// A header of a refusal that is a number.
#[track_caller]
fn number(answer: &Answer, header: &str) -> u64 {
    let text = answer.header(header).unwrap_or_else(|| panic!("no {header}: {answer:?}"));
    text.parse().unwrap_or_else(|_| panic!("{header}: {text}"))
}

#[test]
fn a_token_takes_no_more_keys_a_second_than_its_rate_on_any_protocol() {
    let home = Home::new();
    let tokens: Vec<Token> = (0..3).map(|_| make(&home, "take", "*", &["--rate", "1"])).collect();
    let free = make(&home, "take", "*", &[]);
    let server = guarded(&home).start();
    let take = |token: &Token, count: u32| {
        let body = format!("{{\"count\":{count}}}");
        ask(&server, Some(&token.text), "POST", "/v1/keyspaces/links/keys", &body)
    };
    // More than a second's worth is let through when nothing is owed, and then has to be paid for.
    assert_eq!(take(&tokens[0], 60).status, 200);
    for count in [1, 60, 10_000] {
        let limited = take(&tokens[0], count);
        assert_eq!((limited.status, limited.code().as_str()), (429, "rate_limited"), "{limited:?}");
        let [limit, left, reset, wait] =
            ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"]
                .map(|header| number(&limited, header));
        assert_eq!((limit, left), (1, 0), "{limited:?}");
        assert!((1..=60).contains(&reset) && (1..=reset).contains(&wait), "{limited:?}");
    }
    assert_eq!(take(&free, 60).status, 200, "others are not held up");

    let mut redis = Raw::open(server.resp.unwrap());
    redis.ask(&format!("AUTH {}", tokens[1].text));
    assert_eq!(redis.ask("LPOP links 60").keys().len(), 60);
    for command in ["LPOP links", "LPOP links 60", "INCR tickets", "INCRBY tickets 60"] {
        assert_eq!(redis.ask(command).error().0, "LIMIT", "{command}");
    }
    assert_eq!(redis.ask("LPOP links 0").keys().len(), 0, "nothing costs nothing");
    run(async {
        let mut client = grpc(&server).await;
        let token = Some(tokens[2].text.as_str());
        let asked = |count| TakeRequest { keyspace: "links".to_owned(), count };
        client.take(with(token, asked(60))).await.unwrap();
        for count in [0, 1, 60] {
            let limited = client.take(with(token, asked(count))).await.unwrap_err();
            assert_eq!(limited.code(), Code::ResourceExhausted, "{limited:?}");
            assert!(limited.metadata().contains_key("retry-after"), "{limited:?}");
        }
    });
}

#[test]
fn whoever_comes_back_when_told_is_answered_and_is_not_charged_for_what_could_not_be_had() {
    let home = Home::new();
    let token = make(&home, "take", "*", &["--rate", "20"]);
    let tiny = "[keyspaces.tiny]\nscheme = \"pool\"\nalphabet = \"decimal\"\nlength = 1\n";
    let config = home.write("tiny.toml", &format!("{KEYSPACES}{tiny}"));
    let launch = home.server().arguments(&["--config", config.to_str().unwrap()]);
    let server = launch.environment("KEYMILL_AUTH__MODE", "on").start();
    let take = |keyspace: &str, count: &str| {
        let (path, body) = (format!("/v1/keyspaces/{keyspace}/keys"), format!("{{\"count\":{count}}}"));
        ask(&server, Some(&token.text), "POST", &path, &body)
    };
    // A key that cannot be had, a count that cannot be meant: hours, if they were charged.
    for _ in 0..3 {
        assert_eq!(take("tiny", "10000").code(), "exhausted");
        for wrong in ["0", "-1", "1.5", "10001", "4294967296", "18446744073709551616", "1e400", "\"1\""] {
            let refused = take("links", wrong);
            assert!([400, 422].contains(&refused.status), "{wrong}: {refused:?}");
        }
    }
    let mut redis = Raw::open(server.resp.unwrap());
    redis.ask(&format!("AUTH {}", token.text));
    assert_eq!(redis.ask("LPOP tiny 10000").keys().len(), 10, "what there is");
    assert_eq!(redis.ask("LPOP tiny 5").error().0, "EXHAUSTED");
    assert_eq!(redis.ask("LPOP tiny").error().0, "EXHAUSTED");
    // Nothing but those ten is owed, and soon paid for.
    for count in ["60", "60", "20"] {
        let limited = take("links", count);
        if limited.status == 200 {
            continue;
        }
        let wait = number(&limited, "retry-after");
        assert!(wait <= 3, "{limited:?}");
        thread::sleep(Duration::from_secs(wait));
        assert_eq!(take("links", count).status, 200, "as it was told");
    }
}

#[test]
fn a_stream_is_slowed_down_and_owes_nothing() {
    let home = Home::new();
    let token = make(&home, "take", "*", &["--rate", "8"]);
    let server = guarded(&home).start();
    run(async {
        let mut client = grpc(&server).await;
        let asked = StreamRequest { keyspace: "tickets".to_owned(), count: 20, batch: 1000 };
        let mut stream = client.stream(with(Some(&token.text), asked)).await.unwrap().into_inner();
        let mut batches = 0;
        while stream.message().await.unwrap().is_some() {
            batches += 1;
        }
        assert_eq!(batches, 10, "a quarter of a second's worth at a time");
        // Even one that was cut off leaves no debt behind: somebody else's turn comes within a second.
        let endless = StreamRequest { keyspace: "tickets".to_owned(), count: 0, batch: 1000 };
        let mut stream = client.stream(with(Some(&token.text), endless)).await.unwrap().into_inner();
        stream.message().await.unwrap();
    });
    let limited = ask(&server, Some(&token.text), "POST", "/v1/keyspaces/links/keys", "{\"count\":8}");
    assert!(limited.status == 200 || number(&limited, "retry-after") == 1, "{limited:?}");
}

#[test]
fn a_keyspace_lets_out_no_more_keys_a_second_than_its_rate_limit() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LIMITS__COUNT_MAX", "20").start();
    let tune = |keyspace: &str, body: &str| {
        server.ask("PATCH", &format!("/v1/keyspaces/{keyspace}"), Some(body)).status
    };
    assert_eq!(tune("links", "{\"rate_limit\":1}"), 200);
    assert_eq!(server.show("links")["tuning"]["rate_limit"], 1);
    assert_eq!(server.try_take("links", 20).status, 200);
    let limited = server.try_take("links", 20);
    assert_eq!((limited.status, limited.code().as_str()), (429, "rate_limited"), "{limited:?}");
    assert!(limited.json()["detail"].as_str().unwrap().contains("rate_limit"), "{limited:?}");
    assert_eq!(server.try_take("links", 1).status, 429, "twenty seconds' worth are owed");
    assert_eq!(Raw::open(server.resp.unwrap()).ask("SPOP links 20").error().0, "LIMIT");
    assert_eq!(server.try_take("tickets", 20).status, 200, "others are not held up");
    assert_eq!(tune("links", "{\"rate_limit\":2}"), 200);
    assert_eq!(server.try_take("links", 20).status, 200, "a new rate begins anew");
    assert_eq!(tune("links", "{\"rate_limit\":null}"), 200);
    assert_eq!(server.try_take("links", 20).status, 200);
    // A stream is slowed down, not refused.
    assert_eq!(tune("tickets", "{\"rate_limit\":20}"), 200);
    let text = [("Accept", "text/plain")];
    let streamed =
        server.connect().send("POST", "/v1/keyspaces/tickets/keys", &text, b"{\"count\":45}").unwrap();
    assert!(streamed.whole && streamed.lines().len() == 45, "{streamed:?}");
    server.create(json!({"name": "slow", "scheme": "uuid7", "rate_limit": "1"}));
    assert_eq!([server.try_take("slow", 20).status, server.try_take("slow", 20).status], [200, 429]);
    assert_eq!(tune("links", "{\"rate_limit\":0}"), 422);
}

#[test]
fn five_keys_a_second_are_not_ten_thousand_at_once() {
    let home = Home::new();
    let server = home.start();
    assert_eq!(server.ask("PATCH", "/v1/keyspaces/links", Some("{\"rate_limit\":5}")).status, 200);
    assert_eq!(server.try_take("links", 10_000).status, 200, "nothing was owed");
    let limited = server.try_take("links", 1);
    assert_eq!(limited.status, 429, "{limited:?}");
    assert_eq!(number(&limited, "ratelimit-limit"), 5);
    for header in ["retry-after", "ratelimit-reset"] {
        assert!((1500..=2000).contains(&number(&limited, header)), "two thousand seconds: {limited:?}");
    }
}

#[test]
fn dangerous_calls_are_answered_by_the_admin_listener_alone() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LISTEN__ADMIN", "127.0.0.1:0").start();
    let file: Value = serde_json::from_slice(&std::fs::read(home.file("server.json")).unwrap()).unwrap();
    let admin = file["admin"].as_str().unwrap().to_owned();
    let dangerous = [
        ("GET", "/v1/tokens", ""),
        ("POST", "/v1/tokens", "{\"name\":\"x\",\"scopes\":[\"take\"]}"),
        ("POST", "/v1/ledger/advance", "{\"dry_run\":true}"),
        ("POST", "/v1/ledger/backup", ""),
        ("DELETE", "/v1/keyspaces/tickets", ""),
    ];
    for (method, path, body) in dangerous {
        let refused = ask(&server, None, method, path, body);
        assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"), "{method} {path}");
        assert!(refused.text().contains("listen.admin") && refused.text().contains(&admin), "{refused:?}");
        let mut there = harness::Connection::open(admin.parse().unwrap()).unwrap();
        let answer = there.send(method, path, &[], body.as_bytes()).unwrap();
        assert_ne!(answer.status, 403, "{method} {path} {answer:?}");
    }
    assert_eq!(server.get("/v1/ledger").status, 200);
    assert_eq!(server.try_take("links", 1).status, 200);
    // The commands find their way.
    home.run(&["token", "list", "--data-dir", home.data().to_str().unwrap()]).ok();
    home.ledger(&["backup", home.path().join("copy.db").to_str().unwrap()]).ok();
    let wrong = home.server().environment("KEYMILL_LISTEN__ADMIN", "here").run();
    assert!(wrong.stderr.contains("listen.admin"), "{wrong:?}");
}
