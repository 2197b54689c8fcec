//! SIGTERM: nobody is sent here any more, what is under way is finished, what was not handed out goes back, and nobody
//! who does not read can keep the server from it.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::json;

mod harness;
use harness::{Home, PATIENCE, Server};

/// Asks for a stream of tickets and reads nothing of it.
fn ask_for(server: &Server, keyspace: &str, count: u32) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = json!({"count": count}).to_string();
    let request = format!(
        "POST /v1/keyspaces/{keyspace}/keys HTTP/1.1\r\nHost: test\r\nAccept: text/plain\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// What the last line of its log says of the stock.
#[track_caller]
fn given_back(home: &Home) -> u64 {
    let log = std::fs::read_to_string(home.path().join("stderr")).unwrap();
    let last: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    last["numbers_given_back"].as_u64().unwrap_or_else(|| panic!("{log}"))
}

#[test]
fn a_stream_that_is_under_way_is_finished() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "many", "scheme": "sequence", "stock_min": "2M", "stock_max": "4M"}));
    let count = 400_000;
    let patience = std::time::Instant::now() + PATIENCE;
    while server.stock("many") < u64::from(count) {
        assert!(std::time::Instant::now() < patience, "no stock");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut stream = ask_for(&server, "many", count);
    let mut read = vec![0; 4096];
    stream.read_exact(&mut read).unwrap();
    server.signal(Signal::TERM);
    // It is a while before the rest is read, and the server waits for that.
    std::thread::sleep(Duration::from_millis(300));
    stream.read_to_end(&mut read).unwrap();
    server.until_gone(Some(0));
    let text = String::from_utf8(read).unwrap();
    assert!(text.ends_with("\r\n0\r\n\r\n"), "it was cut off");
    let log = std::fs::read_to_string(home.path().join("stderr")).unwrap();
    let next = home.start().take("many", 1).remove(0);
    assert_eq!(next, (count + 1).to_string(), "every one went out or went back: {log}");
}

#[test]
fn who_does_not_read_burns_nothing_but_what_they_asked_for() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LIMITS__DRAIN_TIMEOUT", "2s").start();
    server.create(json!({"name": "many", "scheme": "sequence", "stock_min": "2M", "stock_max": "4M"}));
    let stuck = ask_for(&server, "many", 1_000_000);
    let mut half = TcpStream::connect(server.address).unwrap();
    half.write_all(b"POST /v1/keyspaces/many/keys HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n{")
        .unwrap();
    let mut redis = TcpStream::connect(server.resp.unwrap()).unwrap();
    redis.write_all(b"*2\r\n$4\r\nLPOP\r\n$4\r\nma").unwrap();
    // The stream has begun: it waits for its reader.
    let mut first = [0; 64];
    stuck.peek(&mut first).unwrap();
    server.signal(Signal::TERM);
    server.until_gone(Some(0));
    drop((stuck, half, redis));
    assert!(given_back(&home) > 100_000, "the stock went back: {}", given_back(&home));
}

#[test]
fn a_visit_at_the_last_moment_is_counted() {
    let home = Home::new();
    let server = home.start();
    let key = server.take("links", 1).remove(0);
    let path = format!("/v1/keyspaces/links/links/{key}");
    let bound = server.ask("PUT", &path, Some(r#"{"url":"https://example.com/"}"#));
    assert_eq!(bound.status, 201, "{bound:?}");
    for _ in 0..3 {
        assert_eq!(server.get(&format!("/{key}")).status, 302);
    }
    server.terminate();
    let server = home.start();
    assert_eq!(server.get(&path).json()["visits"], 3);
    server.terminate();
}
