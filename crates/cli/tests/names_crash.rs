//! `kill -9`, again and again, while clients make links, names and references and try again until they are answered.
//!
//! Afterwards whatever was acknowledged is there, leads where it should, and exists once: the retry of a request that
//! was carried out made nothing new.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

mod harness;
use harness::{Answer, Connection, Home, Server, dice::Dice, names::send_once, sized};

const CLIENTS: usize = 4;
/// Links in a request that makes several.
const BATCH: usize = 5;
/// Longer than a try that died keeps others waiting.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// What one client was told.
#[derive(Debug, Default)]
struct Told {
    /// URL by key.
    links: Vec<(String, String)>,
    /// Key by reference.
    refs: Vec<(String, String)>,
    taken: Vec<String>,
    retries: usize,
}

/// Where the server is, while there is one.
type Address = Arc<Mutex<Option<SocketAddr>>>;

/// Sends a request until it is answered; what is sent again has the same Idempotency-Key.
fn insist(address: &Address, told: &mut Told, (method, path, body): (&str, &str, &str), key: &str) -> Answer {
    let deadline = Instant::now() + ANSWERED_WITHIN;
    loop {
        let connected = address.lock().unwrap().map(Connection::open);
        if let Some(Ok(mut connection)) = connected
            && let Ok(answer) = send_once(&mut connection, method, path, key, body)
            && answer.whole
            && answer.status < 500
            && answer.code() != "idempotency_in_progress"
        {
            return answer;
        }
        told.retries += 1;
        assert!(Instant::now() < deadline, "{method} {path} {body} is not answered");
        thread::sleep(Duration::from_millis(5));
    }
}

fn link_of(link: &Value) -> (String, String) {
    let text = |field: &str| link[field].as_str().unwrap_or_else(|| panic!("{link}")).to_owned();
    (text("key"), text("url"))
}

/// One request of every kind.
fn round(address: &Address, told: &mut Told, client: usize, n: usize) {
    let key = |kind: &str| format!("storm-{kind}-{client:04}-{n:08}");
    let url = |kind: &str| format!("https://example.com/{kind}/{client}/{n}");
    let links = "/v1/keyspaces/links/links";

    let one = json!({ "url": url("one") }).to_string();
    let answer = insist(address, told, ("POST", links, &one), &key("one"));
    assert_eq!(answer.status, 201, "{answer:?}");
    told.links.push(link_of(&answer.json()));

    let named = json!({ "url": url("named"), "alias": format!("n-{client}-{n}") }).to_string();
    let answer = insist(address, told, ("POST", links, &named), &key("named"));
    assert_eq!(answer.status, 201, "{answer:?}");
    told.links.push(link_of(&answer.json()));

    let many: Vec<Value> = (0..BATCH).map(|m| json!({ "url": url(&format!("many{m}")) })).collect();
    let many = json!({ "links": many }).to_string();
    let answer = insist(address, told, ("POST", "/v1/keyspaces/links/links/batch", &many), &key("many"));
    let made = answer.json();
    told.links.extend(made["links"].as_array().unwrap_or_else(|| panic!("{answer:?}")).iter().map(link_of));

    // Several clients ask for the same reference.
    let reference = format!("legacy-{n}");
    let body = json!({ "ref": reference }).to_string();
    let answer = insist(address, told, ("POST", "/v1/keyspaces/orders/refs", &body), &key("refs"));
    told.refs
        .push((reference, answer.json()["key"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()));

    let answer = insist(address, told, ("POST", "/v1/keyspaces/links/keys", "{\"count\":2}"), &key("keys"));
    told.taken.extend(answer.keys());
}

/// Kills the server at any moment and starts it again, so many times.
fn storm(home: &Home, mut server: Server, address: &Address, kills: usize) -> Server {
    let mut dice = Dice::thrown();
    for _ in 0..kills {
        thread::sleep(Duration::from_millis(20 + dice.below(400)));
        address.lock().unwrap().take();
        server.kill();
        server = home.start();
        *address.lock().unwrap() = Some(server.address);
    }
    server
}

#[test]
fn whatever_was_acknowledged_is_there_once() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({ "name": "orders", "scheme": "pool" }));
    let address: Address = Arc::new(Mutex::new(Some(server.address)));
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (address, is_over) = (address.clone(), is_over.clone());
            thread::spawn(move || {
                let mut told = Told::default();
                for n in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    round(&address, &mut told, client, n);
                }
                told
            })
        })
        .collect();
    let kills = sized(8, 60);
    let server = storm(&home, server, &address, kills);
    is_over.store(true, Ordering::Relaxed);
    let told: Vec<Told> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    let retries: usize = told.iter().map(|told| told.retries).sum();
    println!(
        "{kills} kills, {retries} retries, {} links",
        told.iter().map(|told| told.links.len()).sum::<usize>()
    );
    assert!(retries > 0, "nobody noticed the storm");
    check(&server, &told);
}

fn check(server: &Server, told: &[Told]) {
    // What was told.
    let mut links = HashMap::new();
    for (key, url) in told.iter().flat_map(|told| &told.links) {
        assert_eq!(links.insert(key.clone(), url.clone()), None, "`{key}` was given twice");
    }
    let urls: HashSet<&String> = links.values().collect();
    assert_eq!(urls.len(), links.len(), "a request was answered with two links");
    let mut keys: HashSet<&String> = links.keys().collect();
    for taken in told.iter().flat_map(|told| &told.taken) {
        assert!(keys.insert(taken), "`{taken}` was given twice");
    }
    let mut refs = BTreeMap::new();
    for (reference, key) in told.iter().flat_map(|told| &told.refs) {
        assert_eq!(refs.entry(reference).or_insert(key), &key, "{reference} has two keys");
    }
    assert_eq!(refs.values().collect::<HashSet<_>>().len(), refs.len(), "two references have one key");

    // What is there: exactly that. A request that was carried out and not heard was carried out once.
    let (mut listed, mut cursor) = (HashMap::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/keyspaces/links/links?limit=1000{cursor}")).json();
        listed.extend(page["links"].as_array().unwrap().iter().map(link_of));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, links);
    let mut connection = server.connect();
    for (key, url) in &links {
        let answer = connection.ask("GET", &format!("/{key}"), None).unwrap();
        assert_eq!((answer.status, answer.header("location")), (302, Some(url.as_str())), "{key}");
    }
    for (reference, key) in refs {
        let found = connection.ask("GET", &format!("/v1/keyspaces/orders/refs/{reference}"), None).unwrap();
        assert_eq!(found.json()["key"].as_str(), Some(key.as_str()));
    }
    let fresh = server.take("links", 10_000);
    assert!(fresh.iter().all(|key| !keys.contains(key)), "the pool does not come back to what it gave");
}

/// A crash between withholding a name and granting it leaves a name that can still be had.
#[test]
fn a_name_that_was_withheld_and_not_granted_is_still_free() {
    let home = Home::new();
    let server = home.start();
    assert_eq!(server.claim("links", "first").status, 201);
    let mut connections: Vec<Connection> = (0..sized(200, 2_000)).map(|_| server.connect()).collect();
    for (n, connection) in connections.iter_mut().enumerate() {
        let request = format!("PUT /v1/keyspaces/links/keys/nam{n:04} HTTP/1.1\r\nHost: test\r\n\r\n");
        connection.write(request.as_bytes()).unwrap();
    }
    // One in the middle is answered, and others are half way.
    let middle = connections.len() / 3;
    assert_eq!(connections[middle].answer(false).unwrap().status, 201);
    server.kill();
    let mut granted: HashSet<usize> = connections
        .iter_mut()
        .enumerate()
        .filter_map(|(n, connection)| Some((n, connection.answer(false).ok()?)))
        .map(|(n, answer)| {
            assert_eq!(answer.status, 201, "{answer:?}");
            n
        })
        .collect();
    granted.insert(middle);
    let server = home.start();
    let rows = rusqlite::Connection::open(home.file("keymill.db")).unwrap();
    let count = |sql: &str| rows.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    let withheld = count("SELECT count(*) FROM holes WHERE kind = 'alias'");
    let kept = count("SELECT count(*) FROM keymill_registry_names WHERE name <> 'first'");
    println!("{withheld} withheld, {kept} granted, {} told of it", granted.len());
    assert!(withheld >= kept && kept as usize >= granted.len());
    let mut free = 0;
    for n in 0..connections.len() {
        match server.claim("links", &format!("nam{n:04}")).status {
            201 => {
                assert!(!granted.contains(&n), "nam{n:04} was granted twice");
                free += 1;
            }
            status => assert_eq!(status, 409),
        }
    }
    assert_eq!(free + kept as usize, connections.len(), "every name is someone's, once");
}
