//! The SDK on the real binary: caches, workers, and what happens to both when servers die.

use std::{
    collections::{BTreeSet, HashSet},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use keymill_api::grpc::{LeaseWorkerRequest, ReleaseWorkerRequest, keymill_client::KeymillClient};
use keymill_client::{BreakerState, Client, ClientBuilder, Code, Error, GaveUp, Keyspace, blocking};
use keymill_id::Layout;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;

mod harness;
use harness::{Home, PATIENCE, Server, sized};

const LOOK_EVERY: Duration = Duration::from_millis(5);

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(6 * PATIENCE, test).await.expect("it came to an end") })
}

fn client_of(server: &Server) -> ClientBuilder {
    Client::builder().endpoints([server.url()]).deadline(PATIENCE)
}

/// Waits until something is so.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// An address where nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn assert_unique(keys: Vec<String>, least: usize) {
    let count = keys.len();
    assert!(count >= least, "only {count} keys");
    assert_eq!(keys.into_iter().collect::<HashSet<_>>().len(), count, "a key came twice");
}

/// The lease of a worker, as the server lists it.
fn worker(server: &Server, keyspace: &str, holder: &str) -> Option<Value> {
    let list = server.get("/v1/workers").json();
    let workers = list["workers"].as_array().unwrap_or_else(|| panic!("{list}"));
    workers.iter().find(|worker| worker["keyspace"] == keyspace && worker["holder"] == holder).cloned()
}

#[test]
fn cached_keys_are_unique_across_many_tasks_and_two_clients_in_every_form() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "uuids", "scheme": "uuid7"}));
    server.create(json!({"name": "invoices", "scheme": "sequence", "prefix": "R-", "length": 3}));
    let each = sized(300, 20_000);
    run(async {
        let clients = [client_of(&server).build().unwrap(), client_of(&server).build().unwrap()];
        for name in ["links", "tickets", "events", "uuids", "invoices"] {
            let mut takers = JoinSet::new();
            for keyspace in clients.iter().flat_map(|client| vec![client.keyspace(name).unwrap(); 4]) {
                takers.spawn(async move {
                    let mut keys = keyspace.take_many(50).await.unwrap();
                    for _ in 0..each {
                        keys.push(keyspace.take().await.unwrap());
                    }
                    keys
                });
            }
            let mut keys = takers.join_all().await.concat();
            keys.extend(server.take(name, 100));
            assert_unique(keys, 8 * (each + 50) + 100);
        }
        for client in &clients {
            let stats = client.stats();
            assert!(stats.refills >= 5 && stats.refills_failed == 0, "{stats:?}");
            client.close().await.unwrap();
        }
    });
    server.terminate();
}

#[test]
fn tickets_rise_as_one_client_sees_them_and_are_numbers() {
    let home = Home::new();
    let server = home.start();
    run(async {
        let client = client_of(&server).cache_keys(8, 64).build().unwrap();
        let (tickets, links) = (client.keyspace("tickets").unwrap(), client.keyspace("links").unwrap());
        let mut last = 0;
        for _ in 0..1000 {
            let ticket = tickets.take_number().await.unwrap();
            assert!(ticket > last);
            last = ticket;
        }
        assert!(tickets.take().await.unwrap().parse::<u64>().unwrap() > last);
        let error = links.take_number().await.unwrap_err();
        assert_eq!(error, Error::NotNumbers { keyspace: "links".to_owned() });
        let mut out = String::from("https://sho.rt/");
        links.take_into(&mut out).await.unwrap();
        assert_eq!(out.len(), "https://sho.rt/".len() + 7);
        assert_eq!(links.with_key(<[u8]>::len).await, Ok(7));
    });
    server.terminate();
}

#[test]
fn an_app_that_ends_burns_at_most_its_cache() {
    const CACHE_MAX: u64 = 128;
    let home = Home::new();
    let server = home.start();
    run(async {
        let client = client_of(&server).cache_keys(16, 128).build().unwrap();
        let links = client.keyspace("links").unwrap();
        for taken in 1..=2000 {
            links.take().await.unwrap();
            let fetched = client.stats().keys_fetched;
            assert!(fetched <= taken + CACHE_MAX, "{fetched} were fetched and {taken} taken");
        }
        let burned = links.close();
        assert!(burned <= CACHE_MAX);
        assert_eq!(client.stats().keys_burned, burned);
        assert_eq!(links.take().await, Err(Error::Closed));
        assert_eq!(links.take_many(3).await, Err(Error::Closed));
        client.keyspace("links").unwrap().take().await.expect("a new handle has a new cache");
        client.close().await.unwrap();
    });
    server.terminate();
}

#[test]
fn a_small_pool_is_used_to_its_last_key_and_then_refused() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "tiny", "scheme": "pool", "alphabet": "decimal", "length": 2}));
    run(async {
        let client = client_of(&server).build().unwrap();
        let tiny = client.keyspace("tiny").unwrap();
        let mut keys = BTreeSet::new();
        let refused = loop {
            match tiny.take().await {
                Ok(key) => assert!(keys.insert(key), "a key came twice"),
                Err(error) => break error,
            }
        };
        assert_eq!((keys.len(), refused.code()), (100, Some(Code::Exhausted)), "{refused}");
    });
    server.terminate();
}

#[test]
fn what_is_wrong_is_said_once_and_names_the_endpoint() {
    let home = Home::new();
    let server = home.start();
    run(async {
        let client = client_of(&server).build().unwrap();
        let missing = client.keyspace("nowhere").unwrap();
        let error = missing.take().await.unwrap_err();
        assert_eq!(error.code(), Some(Code::KeyspaceNotFound), "{error}");
        assert!(
            error.to_string().contains(&server.url()) && error.to_string().contains("create it"),
            "{error}"
        );
        let error = client.snowflake("links").await.unwrap_err();
        assert_eq!(error.code(), Some(Code::WrongScheme), "{error}");
        let error = missing.take_many(2).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::KeyspaceNotFound), "{error}");
        let stats = client.stats();
        assert_eq!((stats.retries, stats.endpoints[0].breaker), (0, BreakerState::Closed), "{stats:?}");

        // What was missing may be there later.
        server.create(json!({"name": "nowhere", "scheme": "pool"}));
        until("the keyspace is found", || !missing_still(&missing)).await;
        assert!(matches!(client.keyspace("Bad Name"), Err(Error::Settings { setting: "keyspace", .. })));
    });
    server.terminate();
}

fn missing_still(keyspace: &Keyspace) -> bool {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(keyspace.take())).is_err()
}

#[test]
fn nobody_listening_is_an_error_by_the_deadline_that_says_where_and_why() {
    let nobody = nobody();
    run(async {
        let client = Client::builder()
            .endpoints([format!("http://{nobody}")])
            .deadline(Duration::from_millis(700))
            .build()
            .unwrap();
        let links = client.keyspace("links").unwrap();
        let orders: [Result<(), Error>; 3] = [
            links.take().await.map(drop),
            links.take_many(5).await.map(drop),
            client.snowflake("events").await.map(drop),
        ];
        for order in orders {
            let error = order.unwrap_err();
            assert!(matches!(error, Error::Unanswered { why: GaveUp::Deadline(_), .. }), "{error:?}");
            let said = error.to_string();
            assert!(said.contains(&nobody.to_string()) && said.contains("refused"), "{said}");
        }
        let stats = client.stats();
        assert_eq!(
            (stats.endpoints[0].breaker_opened, stats.endpoints[0].breaker_closed),
            (1, 0),
            "{stats:?}"
        );
        assert!(stats.retries > 0);
    });
}

/// A token, made before the server starts.
fn token(home: &Home, extra: &[&str]) -> String {
    let data = home.data();
    let mut arguments =
        vec!["token", "create", "--name", "app", "--scope", "take", "--data-dir", data.to_str().unwrap()];
    arguments.extend(extra);
    home.run(&arguments).ok().trim().to_owned()
}

#[test]
fn a_token_opens_what_it_is_for_and_without_one_the_answer_is_final() {
    let home = Home::new();
    let (good, narrow) = (token(&home, &[]), token(&home, &["--keyspace", "tick*"]));
    let server = home.server().environment("KEYMILL_AUTH__MODE", "on").start_unready();
    run(async {
        let client = client_of(&server).token(good).build().unwrap();
        client.keyspace("links").unwrap().take().await.unwrap();
        client.snowflake("events").await.unwrap().next_id().await.unwrap();
        client.close().await.unwrap();
        let narrow = client_of(&server).token(narrow).build().unwrap();
        narrow.keyspace("tickets").unwrap().take().await.unwrap();
        let unseen = narrow.keyspace("links").unwrap().take().await.unwrap_err();
        assert_eq!(unseen.code(), Some(Code::KeyspaceNotFound), "{unseen}");
        for stranger in [client_of(&server), client_of(&server).token("km_wrong")] {
            let client = stranger.build().unwrap();
            let error = client.keyspace("links").unwrap().take().await.unwrap_err();
            assert_eq!(error.code(), Some(Code::Unauthenticated), "{error}");
            assert_eq!(client.stats().retries, 0);
        }
    });
    server.terminate();
}

#[test]
fn a_limited_rate_slows_a_client_down_and_opens_no_breaker() {
    let home = Home::new();
    let limited = token(&home, &["--rate", "40"]);
    let server = home.server().environment("KEYMILL_AUTH__MODE", "on").start_unready();
    run(async {
        let client = client_of(&server).token(limited).build().unwrap();
        let links = client.keyspace("links").unwrap();
        let mut keys = Vec::new();
        for _ in 0..sized(150, 400) {
            keys.push(links.take().await.unwrap());
        }
        assert_unique(keys, 150);
        let stats = client.stats();
        assert_eq!(stats.endpoints[0].breaker_opened, 0, "{stats:?}");
    });
    server.terminate();
}

/// Takes keys and makes IDs until told to stop; every error counts.
async fn storm(links: Keyspace, ids: keymill_client::Snowflake, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut seen = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        seen.push(links.take().await.unwrap_or_else(|error| panic!("within the deadline: {error}")));
        let id = ids.next_id().await.unwrap_or_else(|error| panic!("within the window: {error}"));
        seen.push(id.to_string());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    seen
}

#[test]
fn a_server_killed_under_load_costs_no_duplicate_and_no_error_and_the_breaker_is_counted() {
    let kills = sized(3, 25) as u64;
    let home = Home::new();
    let mut server = home.start();
    let address = server.address.to_string();
    run(async {
        // A small cache, so that an outage reaches the callers.
        let client = client_of(&server).cache_keys(8, 64).build().unwrap();
        let (links, events) = (client.keyspace("links").unwrap(), client.snowflake("events").await.unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let mut takers = JoinSet::new();
        for _ in 0..8 {
            takers.spawn(storm(links.clone(), events.clone(), stop.clone()));
        }
        let breaker = || client.stats().endpoints[0].clone();
        for kill in 1..=kills {
            tokio::time::sleep(Duration::from_millis(100)).await;
            server.kill();
            until("the breaker opens", || breaker().breaker_opened == kill).await;
            assert_ne!(breaker().breaker, BreakerState::Closed);
            server = home.server().http(&address).start();
            until("the breaker closes", || breaker().breaker_closed == kill).await;
            assert_eq!(breaker().breaker, BreakerState::Closed);
        }
        let (refills, fetched) = (client.stats().refills, client.stats().keys_fetched);
        until("the cache is filled again", || client.stats().keys_fetched > fetched + 100).await;
        stop.store(true, Ordering::Relaxed);
        assert_unique(takers.join_all().await.concat(), 1000);
        let stats = client.stats();
        assert!(stats.retries > 0 && stats.refills > refills, "{stats:?}");
        assert_eq!((breaker().breaker_opened, breaker().breaker_closed), (kills, kills));
        println!("{stats:#?}");
        client.close().await.unwrap();
        server.terminate();
    });
}

#[test]
fn a_dead_endpoint_costs_nothing_but_an_attempt() {
    let home = Home::new();
    let server = home.start();
    run(async {
        let dead = format!("http://{}", nobody());
        let mut met_the_dead = 0;
        for _ in 0..16 {
            let client = Client::builder()
                .endpoints([dead.clone(), server.url()])
                .deadline(PATIENCE)
                .cache_keys(1, 4)
                .build()
                .unwrap();
            let links = client.keyspace("links").unwrap();
            for _ in 0..20 {
                links.take().await.unwrap();
            }
            client.snowflake("events").await.unwrap().next_id().await.unwrap();
            let stats = client.stats();
            met_the_dead += stats.endpoints[0].attempts;
            assert_eq!(stats.endpoints[1].breaker, BreakerState::Closed);
            client.close().await.unwrap();
        }
        assert!(met_the_dead > 0, "sixteen clients began with the same endpoint");
        assert!(met_the_dead <= 16 * 3, "and none stayed with the dead one: {met_the_dead}");
    });
    server.terminate();
}

/// Two ledgers whose `codes` are told apart by their prefix: only a test may do that.
fn two_ledgers(homes: &[Home; 2]) -> Vec<Server> {
    let servers: Vec<_> = homes.iter().map(Home::start).collect();
    for (server, prefix) in servers.iter().zip(PREFIXES) {
        server.create(json!({"name": "codes", "scheme": "pool", "prefix": prefix}));
    }
    servers
}

const PREFIXES: [&str; 2] = ["a-", "b-"];

/// Takes `codes` until twenty in a row came from the second of two ledgers, or the first.
async fn until_from(codes: &Keyspace, at: usize, keys: &mut Vec<String>) {
    let mut row = 0;
    // What is in the cache is still good, whoever it came from.
    for _ in 0..1000 {
        keys.push(codes.take().await.unwrap());
        row = if keys.last().unwrap().starts_with(PREFIXES[at]) { row + 1 } else { 0 };
        if row == 20 {
            return;
        }
    }
    panic!("it does not stay with who answers: {keys:?}");
}

#[test]
fn a_client_goes_on_with_the_next_endpoint_and_comes_back() {
    let homes = [Home::new(), Home::new()];
    let mut servers: Vec<_> = two_ledgers(&homes).into_iter().map(Some).collect();
    let addresses: Vec<_> = servers.iter().flatten().map(|server| server.address.to_string()).collect();
    run(async {
        let endpoints = addresses.iter().map(|address| format!("http://{address}"));
        let client =
            Client::builder().endpoints(endpoints).deadline(PATIENCE).cache_keys(1, 2).build().unwrap();
        let codes = client.keyspace("codes").unwrap();
        let mut keys = vec![codes.take().await.unwrap()];
        for _ in 0..4 {
            let at = usize::from(keys.last().unwrap().starts_with(PREFIXES[1]));
            servers[at].take().unwrap().kill();
            until_from(&codes, 1 - at, &mut keys).await;
            servers[at] = Some(homes[at].server().http(&addresses[at]).start());
        }
        assert_unique(keys, 81);
    });
    servers.into_iter().flatten().for_each(Server::terminate);
}

#[test]
fn a_server_that_hangs_is_left_for_one_that_answers() {
    let homes = [Home::new(), Home::new()];
    let servers = two_ledgers(&homes);
    run(async {
        let client = Client::builder()
            .endpoints(servers.iter().map(Server::url))
            .deadline(PATIENCE)
            .attempt_timeout(Duration::from_millis(300))
            .cache_keys(1, 2)
            .build()
            .unwrap();
        let codes = client.keyspace("codes").unwrap();
        let mut keys = vec![codes.take().await.unwrap()];
        let at = usize::from(keys[0].starts_with(PREFIXES[1]));
        servers[at].signal(Signal::STOP);
        until_from(&codes, 1 - at, &mut keys).await;
        servers[at].signal(Signal::CONT);
        assert_unique(keys, 21);
        client.close().await.unwrap();
    });
    servers.into_iter().for_each(Server::terminate);
}

#[test]
fn ids_of_two_clients_and_a_server_never_meet_and_cost_no_call() {
    let home = Home::new();
    let server = home.start();
    let each = sized(20_000, 1_000_000);
    run(async {
        let clients = [client_of(&server).build().unwrap(), client_of(&server).build().unwrap()];
        let mut ids = Vec::new();
        let mut workers = BTreeSet::new();
        for client in &clients {
            let events = client.snowflake("events").await.unwrap();
            assert!(workers.insert(events.worker().unwrap()), "two clients have one worker");
            let calls = client.stats().calls;
            let mut makers = JoinSet::new();
            for _ in 0..4 {
                let events = events.clone();
                makers.spawn(async move {
                    let mut ids = events.next_ids(100).await.unwrap();
                    for _ in 0..each / 4 {
                        ids.push(events.next_id().await.unwrap());
                    }
                    assert!(ids.is_sorted());
                    ids
                });
            }
            let made = makers.join_all().await.concat();
            let calls = client.stats().calls - calls;
            assert!(calls < 100, "{calls} calls were made for {} IDs", made.len());
            let layout = Layout::parse("default", None, None).unwrap();
            let of_ours = |id: &u64| layout.decompose(*id).unwrap().worker == events.worker().unwrap();
            assert!(made.iter().all(of_ours), "another's worker");
            ids.extend(made.iter().map(u64::to_string));
        }
        ids.extend(server.take("events", 1000));
        assert_unique(ids, 2 * each + 1000);
    });
    server.terminate();
}

#[test]
fn closing_gives_the_worker_back_and_ends_the_ids() {
    let home = Home::new();
    let server = home.start();
    run(async {
        let client = client_of(&server).name("billing").build().unwrap();
        let events = client.snowflake("events").await.unwrap();
        events.next_id().await.unwrap();
        assert_eq!(worker(&server, "events", "billing").unwrap()["state"], "live");
        let again = client.snowflake("events").await.unwrap();
        assert_eq!(again.worker(), events.worker(), "handles of one client share a worker");
        client.close().await.unwrap();
        assert_eq!(worker(&server, "events", "billing").unwrap()["state"], "released");
        assert_eq!(events.next_id().await, Err(Error::Closed));
        assert_eq!(again.next_ids(2).await, Err(Error::Closed));
        events.close().await.expect("closing twice is closing");
    });
    server.terminate();
}

/// A keyspace whose leases and windows are over soon.
fn hasty(server: &Server) {
    server.create(json!({
        "name": "hasty", "scheme": "snowflake", "layout": "time:41 worker:3 sequence:12",
        "lease_ttl": "1s", "recycle_delay": "0ms",
    }));
}

#[test]
fn ids_are_made_through_an_outage_as_far_as_the_window_reaches_and_no_further() {
    let home = Home::new();
    let server = home.start();
    hasty(&server);
    let address = server.address.to_string();
    run(async {
        let window = Duration::from_secs(2);
        let client = client_of(&server).window(window).deadline(Duration::from_millis(300)).build().unwrap();
        let hasty = client.snowflake("hasty").await.unwrap();
        let layout = Layout::parse("time:41 worker:3 sequence:12", None, None).unwrap();
        // Without the server no window grows: what is left now is all there is.
        server.kill();
        let end = layout.tick_of_clock(now_ms() + millis(hasty.window_left())) + 1;
        let mut ids = Vec::new();
        let error = loop {
            match hasty.next_id().await {
                Ok(id) => ids.push(id),
                Err(error) => break error,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert!(matches!(error, Error::Unanswered { .. }), "{error}");
        assert!(error.to_string().contains(&address), "{error}");
        assert_eq!(hasty.window_left(), Duration::ZERO);
        assert!(ids.iter().all(|id| layout.decompose(*id).unwrap().tick <= end), "a tick beyond the window");

        let server = home.server().http(&address).start();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match hasty.next_ids(1000).await {
                Ok(more) => break ids.extend(more),
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        }
        ids.extend(server.take("hasty", 1000).iter().map(|id| id.parse::<u64>().unwrap()));
        assert_unique(ids.iter().map(u64::to_string).collect(), 2000);
        server.terminate();
    });
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    millis(since)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap()
}

/// Leases workers until it is the wanted one, as others would while its holder is away.
async fn take_away(server: &Server, wanted: u32) {
    let channel = tonic::transport::Channel::from_shared(server.url()).unwrap().connect().await.unwrap();
    let mut client = KeymillClient::new(channel);
    let deadline = Instant::now() + PATIENCE;
    let mut others = Vec::new();
    loop {
        assert!(Instant::now() < deadline, "worker {wanted} is never free");
        let request =
            LeaseWorkerRequest { keyspace: "hasty".to_owned(), holder: "thief".to_owned(), window_ms: 1 };
        match client.lease_worker(request).await {
            Ok(lease) if lease.get_ref().worker == wanted => break,
            Ok(lease) => others.push(lease.into_inner()),
            // Its window is not over yet.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    for other in others {
        let (worker, lease_id) = (other.worker, other.lease_id);
        let request = ReleaseWorkerRequest { keyspace: "hasty".to_owned(), worker, lease_id, unused_from: 0 };
        // It may have run out, and be another's by now.
        let _ = client.release_worker(request).await;
    }
}

#[test]
fn a_worker_that_was_lost_is_replaced_and_no_id_comes_twice() {
    let home = Home::new();
    let server = home.start();
    hasty(&server);
    let address = server.address.to_string();
    run(async {
        let window = Duration::from_millis(500);
        let client = client_of(&server).window(window).build().unwrap();
        let hasty = client.snowflake("hasty").await.unwrap();
        let lost = hasty.worker().unwrap();
        let mut ids = hasty.next_ids(1000).await.unwrap();

        // Out of the client's sight the lease runs out, and somebody else takes the worker.
        server.kill();
        let elsewhere = home.start();
        take_away(&elsewhere, lost).await;
        elsewhere.terminate();
        let server = home.server().http(&address).start();

        ids.extend(hasty.next_ids(1000).await.unwrap());
        until("another worker", || hasty.worker() != Some(lost)).await;
        ids.extend(hasty.next_ids(1000).await.unwrap());
        assert!(client.stats().leases_lost >= 1, "{:?}", client.stats());
        ids.extend(server.take("hasty", 1000).iter().map(|id| id.parse::<u64>().unwrap()));
        assert_unique(ids.iter().map(u64::to_string).collect(), 4000);
        client.close().await.unwrap();
        server.terminate();
    });
}

#[test]
fn windows_are_topped_up_and_never_pile_up() {
    let home = Home::new();
    let server = home.start();
    hasty(&server);
    run(async {
        let window = Duration::from_secs(2);
        let client = client_of(&server).window(window).build().unwrap();
        let hasty = client.snowflake("hasty").await.unwrap();
        for renewals in 1..=sized(4, 40) as u64 {
            until("a renewal", || client.stats().lease_renewals >= renewals).await;
            assert!(hasty.window_left() <= window + Duration::from_millis(50), "{:?}", hasty.window_left());
            hasty.next_ids(100).await.unwrap();
        }
        client.close().await.unwrap();
    });
    server.terminate();
}

#[test]
fn the_blocking_client_does_the_same_without_a_runtime() {
    let home = Home::new();
    let server = home.start();
    let client: blocking::Client =
        Client::builder().endpoints([server.url()]).deadline(PATIENCE).build_blocking().unwrap();
    let links = client.keyspace("links").unwrap();
    let events = client.snowflake("events").unwrap();
    let keys = std::thread::scope(|scope| {
        let takers = (0..4).map(|_| {
            scope.spawn(|| {
                let mut keys = links.take_many(100).unwrap();
                for _ in 0..500 {
                    keys.push(links.take().unwrap());
                    keys.push(events.next_id().unwrap().to_string());
                }
                keys.extend(events.next_ids(100).unwrap().iter().map(u64::to_string));
                keys
            })
        });
        let takers: Vec<_> = takers.collect();
        takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect::<Vec<_>>()
    });
    assert_unique(keys, 4 * 1200);
    assert!(client.keyspace("tickets").unwrap().take_number().unwrap() > 0);
    client.close().unwrap();
    assert_eq!(links.take(), Err(Error::Closed));
    assert_eq!(events.next_id(), Err(Error::Closed));
    server.terminate();
}
