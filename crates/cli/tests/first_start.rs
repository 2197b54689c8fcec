//! What a person meets first: a start in an empty folder, a stop, a kill, and a start again.
//!
//! Proven here on the real binary: a first start says where it listens, what there is and a line that
//! works; a second one creates nothing; a clean stop gives back, so that tickets go on without a gap; a
//! kill burns at most the stock and repeats nothing.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

mod harness;
use harness::{Connection, Home};

/// `stock_min`: what a quiet keyspace has in memory, and so what a kill burns of it.
const QUIET_STOCK: u64 = 1024;

fn tickets(keys: &[String]) -> Vec<u64> {
    keys.iter().map(|key| key.parse().unwrap()).collect()
}

#[test]
fn a_first_start_says_where_it_listens_what_there_is_and_a_line_that_works() {
    let home = Home::new();
    let server = home.start();
    let said = server.said("  try ");
    assert!(said.contains(&server.url()), "{said}");
    assert!(said.contains("keyspace   links") && said.contains("keyspace   tickets"), "{said}");

    // The line to try, done as curl would do it.
    let line = said.lines().find_map(|line| line.trim().strip_prefix("try ")).expect("a line to try").trim();
    let rest = line.strip_prefix("curl -X POST http://").unwrap_or_else(|| panic!("{line}"));
    let (host, path) = rest.split_at(rest.find('/').unwrap());
    assert_eq!(host, server.address.to_string());
    let answer = Connection::open(host.parse().unwrap()).unwrap().send("POST", path, &[], b"").unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.keys().len(), 1);
    assert_eq!(answer.keys()[0].len(), 7, "a link of seven characters");
    assert_eq!(server.take("tickets", 3), ["1", "2", "3"]);
    server.terminate();
    assert!(!home.file("server.json").exists(), "who is gone does not say where it listens");
}

#[test]
fn a_second_start_creates_nothing_new() {
    let home = Home::new();
    let state = |server: &harness::Server| {
        let list = server.get("/v1/keyspaces").json();
        let keyspaces: Vec<_> = list["keyspaces"]
            .as_array()
            .unwrap()
            .iter()
            .map(|ks| (ks["name"].clone(), ks["fingerprint"].clone(), ks["created_at"].clone()))
            .collect();
        (
            server.get("/v1/ledger").json()["id"].clone(),
            server.get("/healthz").json()["node"].clone(),
            keyspaces,
        )
    };
    let server = home.start();
    let first = state(&server);
    assert!(first.2.len() >= 2, "{first:?}");
    server.terminate();
    let server = home.start();
    assert_eq!(state(&server), first);
    // Nor does it bring back what was retired.
    assert_eq!(server.ask("DELETE", "/v1/keyspaces/links", None).status, 200);
    server.kill();
    let server = home.start();
    assert_eq!(state(&server), first);
    assert_eq!(server.show("links")["state"], "retired");
    assert_eq!(server.try_take("links", 1).code(), "retired");
}

#[test]
fn with_a_config_file_only_its_keyspaces_are_created() {
    let home = Home::new();
    home.write("keymill.toml", "[keyspaces.promo]\nscheme = \"pool\"\nlength = 5\n");
    let server = home.start();
    let list = server.get("/v1/keyspaces").json();
    let names: Vec<_> = list["keyspaces"].as_array().unwrap().iter().map(|ks| &ks["name"]).collect();
    assert_eq!(names, ["promo"]);
    server.said("/v1/keyspaces/promo/keys");
    assert_eq!(server.take("promo", 1)[0].len(), 5);
}

#[test]
fn a_port_in_use_is_refused_naming_flag_and_setting() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = home.server().http(&address).run();
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    for named in ["--http", "listen.http", &address] {
        assert!(refused.stderr.contains(named), "{named} is not named: {}", refused.stderr);
    }
    assert!(refused.stdout.is_empty(), "answers only on stdout: {}", refused.stdout);
    drop(taken);
    home.server().http(&address).start().terminate();
}

#[test]
fn a_clean_stop_gives_back_so_that_tickets_go_on_without_a_gap() {
    let home = Home::new();
    let mut next = 1;
    for signal in [Signal::TERM, Signal::INT, Signal::TERM] {
        let server = home.start();
        let taken = tickets(&server.take("tickets", 5));
        assert_eq!(taken, (next..next + 5).collect::<Vec<_>>(), "after {signal:?}");
        next += 5;
        server.signal(signal);
        server.until_gone(Some(0));
    }
}

#[test]
fn a_stop_that_comes_while_it_starts_is_a_clean_one_too() {
    let home = Home::new();
    home.start().terminate();
    for _ in 0..20 {
        home.server().start_unready().terminate();
    }
    let server = home.start();
    let next = tickets(&server.take("tickets", 1))[0];
    assert!(next <= 1 + 20 * QUIET_STOCK, "a stop that comes too early to give back burns one stock: {next}");
}

#[test]
fn a_clean_stop_under_load_loses_no_ticket() {
    let home = Home::new();
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let server = home.start();
        let stop = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (address, stop) = (server.address, stop.clone());
                thread::spawn(move || {
                    let body = format!("{{\"count\":{}}}", 1 + client * 7);
                    let mut connection = Connection::open(address).unwrap();
                    let mut seen = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        match connection.ask("POST", "/v1/keyspaces/tickets/keys", Some(&body)) {
                            Ok(answer) if answer.status == 200 => seen.extend(tickets(&answer.keys())),
                            Ok(answer) => assert_eq!(answer.code(), "draining", "{answer:?}"),
                            Err(_) => break, // it hangs up once it has answered
                        }
                    }
                    seen
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(400));
        server.terminate();
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            for ticket in client.join().unwrap() {
                assert!(seen.insert(ticket), "ticket {ticket} came twice");
            }
        }
    }
    let server = home.start();
    let next = tickets(&server.take("tickets", 1))[0];
    println!("{} tickets over 3 clean stops, next {next}", seen.len());
    assert!(seen.len() > 300, "there was no load to speak of");
    assert_eq!(next, seen.len() as u64 + 1, "every ticket below was handed to someone");
}

#[test]
fn a_kill_burns_at_most_the_stock_and_repeats_nothing() {
    let home = Home::new();
    let mut highest = 0;
    for _ in 0..5 {
        let server = home.start();
        // Whoever comes before the first stock and has to wait makes the node hold more of it.
        server.until_stocked(&["tickets"]);
        let taken = tickets(&server.take("tickets", 10));
        assert_eq!(taken, (taken[0]..taken[0] + 10).collect::<Vec<_>>());
        assert!(taken[0] > highest, "ticket {} came again after a kill", taken[0]);
        assert!(taken[0] - highest - 1 <= QUIET_STOCK, "{} were burned", taken[0] - highest - 1);
        highest = taken[9];
        server.kill();
    }
    assert!(highest > 50, "a kill that burns nothing kept no stock");
}

#[test]
fn after_a_restart_the_first_key_is_there_within_a_second() {
    let home = Home::new();
    home.start().kill();
    let mut slowest = Duration::ZERO;
    for _ in 0..5 {
        let begun = Instant::now();
        let server = home.server().start_unready();
        server.until_ready();
        server.take("links", 1);
        slowest = slowest.max(begun.elapsed());
        server.kill();
    }
    println!("restart to first key: {} ms at most", slowest.as_millis());
}

#[test]
fn what_the_command_takes_and_inspects_is_what_the_server_issued() {
    let home = Home::new();
    let server = home.start();
    // `take` and `inspect` find the server of ./keymill-data by its server.json.
    let taken = home.run(&["take", "links", "-n", "3"]).ok();
    let keys: Vec<&str> = taken.lines().collect();
    assert_eq!(keys.len(), 3);
    for key in keys {
        let inspected = home.run(&["--json", "inspect", "links", "--", key]).ok();
        let inspected: serde_json::Value = serde_json::from_str(&inspected).unwrap();
        assert_eq!(inspected["state"], "issued", "{inspected}");
    }
    let many = home.run(&["take", "tickets", "-n", "25000"]).ok();
    assert_eq!(many.lines().count(), 25_000);
    let refused = home.run(&["take", "nothing"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    assert!(refused.stderr.contains("keyspace_not_found"), "{}", refused.stderr);
    let problem = home.run(&["--json", "take", "nothing"]);
    assert_eq!(problem.code, Some(1));
    assert!(problem.stdout.contains("urn:keymill:keyspace_not_found"), "{}", problem.stdout);
    assert_eq!(home.run(&["take", "links", "-n", "0"]).code, Some(2), "misuse");
    // Named, because somebody else may be at the usual address.
    let url = server.url();
    server.terminate();
    let gone = home.run(&["--server", &url, "take", "links"]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.stderr.contains("keymill serve"), "it says what to do: {}", gone.stderr);
}
