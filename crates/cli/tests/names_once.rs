//! Idempotency-Key, on the real binary: the same key and body have one effect and one answer.

use std::{
    collections::HashSet,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

mod harness;
use harness::{Connection, Home, Server, names::told};

const KEY: &str = "0d6b7f6e-5b0a-4e0e-9a5c-1f3c7c2d9e11";
/// Method, path and body of everything that takes an Idempotency-Key.
const ROUTES: [(&str, &str, &str); 7] = [
    ("POST", "/v1/keyspaces/links/keys", r#"{"count":3}"#),
    ("PUT", "/v1/keyspaces/links/keys/mine", "{}"),
    ("POST", "/v1/keyspaces/links/links", r#"{"url":"https://example.com/1"}"#),
    ("POST", "/v1/keyspaces/links/links", r#"{"url":"https://example.com/1","alias":"named"}"#),
    (
        "POST",
        "/v1/keyspaces/links/links/batch",
        r#"{"links":[{"url":"https://example.com/"},{"url":"ftp://x"}]}"#,
    ),
    ("PUT", "/v1/keyspaces/links/links/bound", r#"{"url":"https://example.com/2"}"#),
    ("POST", "/v1/keyspaces/links/refs", r#"{"ref":"legacy-1"}"#),
];

fn key(n: usize) -> String {
    format!("idempotency-key-{n:08}")
}

fn links(server: &Server) -> usize {
    server.get("/v1/keyspaces/links/links?limit=1000").json()["links"].as_array().unwrap().len()
}

#[test]
fn a_retry_gets_the_same_answer_and_changes_nothing() {
    let home = Home::new();
    let mut server = home.start();
    let first: Vec<_> = ROUTES
        .iter()
        .enumerate()
        .map(|(n, (method, path, body))| {
            let answer = server.once(method, path, &key(n), body);
            assert!(matches!(answer.status, 200 | 201), "{method} {path}: {answer:?}");
            (answer.status, answer.text())
        })
        .collect();
    let before = links(&server);
    for round in 0..3 {
        for (n, (method, path, body)) in ROUTES.iter().enumerate() {
            let again = server.once(method, path, &key(n), body);
            assert_eq!((again.status, again.text()), first[n], "{method} {path}, round {round}");
        }
        // A stop and a crash in between make no difference.
        match round {
            0 => server.terminate(),
            _ => server.kill(),
        }
        server = home.start();
    }
    assert_eq!(links(&server), before);
    let fresh: HashSet<String> = server.take("links", 5000).into_iter().collect();
    let kept: Value = serde_json::from_str(&first[0].1).unwrap();
    assert!(kept["keys"].as_array().unwrap().iter().all(|key| !fresh.contains(key.as_str().unwrap())));
}

#[test]
fn another_body_with_the_same_key_is_refused() {
    let home = Home::new();
    let server = home.start();
    for (n, (method, path, body)) in ROUTES.iter().enumerate() {
        let first = server.once(method, path, &key(n), body);
        for other in [body.replace('1', "9").replace("{}", " {}").replace("3}", "4}"), format!("{body} ")] {
            if other == **body {
                continue;
            }
            let answer = server.once(method, path, &key(n), &other);
            let expected = (422, "idempotency_mismatch".to_owned(), String::new());
            assert_eq!(told(&answer), expected, "{method} {path} {other}: {answer:?}");
        }
        assert_eq!(server.once(method, path, &key(n), body).text(), first.text());
    }
}

#[test]
fn a_key_has_16_to_128_visible_characters() {
    let home = Home::new();
    let server = home.start();
    let (long, longest) = ("k".repeat(129), "k".repeat(128));
    for bad in ["short", "123456789012345", "has a blank in it", "", long.as_str()] {
        for (method, path, body) in ROUTES {
            let answer = server.once(method, path, bad, body);
            assert_eq!(
                (answer.status, answer.code()),
                (400, "invalid_request".to_owned()),
                "{bad}: {answer:?}"
            );
            assert!(answer.text().contains("Idempotency-Key"), "{answer:?}");
        }
    }
    assert_eq!(server.get("/v1/keyspaces/links/links/bound").status, 404, "nothing was done");
    for fine in ["1234567890123456", longest.as_str()] {
        assert_eq!(server.once("POST", "/v1/keyspaces/links/keys", fine, "").status, 200);
    }
    for count in [1001, 10_000] {
        let answer = server.once("POST", "/v1/keyspaces/links/keys", KEY, &format!(r#"{{"count":{count}}}"#));
        assert_eq!((answer.status, answer.code()), (422, "count_out_of_range".to_owned()), "{answer:?}");
        assert!(answer.text().contains("1000"), "{answer:?}");
    }
    let thousand = server.once("POST", "/v1/keyspaces/links/keys", KEY, r#"{"count":1000}"#);
    assert_eq!(thousand.keys().len(), 1000);
    let headers = [("Idempotency-Key", KEY), ("Accept", "text/plain")];
    let text =
        server.connect().send("POST", "/v1/keyspaces/links/keys", &headers, br#"{"count":1000}"#).unwrap();
    assert_eq!(text.lines(), thousand.keys(), "the same keys, as text");
}

#[test]
fn a_key_is_for_one_route_one_keyspace_and_one_token() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({ "name": "promo", "scheme": "pool" }));
    let keys = ["links", "promo", "tickets"].map(|keyspace| {
        let answer = server.once("POST", &format!("/v1/keyspaces/{keyspace}/keys"), KEY, "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.keys().remove(0)
    });
    assert_eq!(HashSet::from(keys.clone()).len(), 3, "{keys:?}");
    for (method, path, body) in &ROUTES[1..] {
        let answer = server.once(method, path, KEY, body);
        let second_link = path.ends_with("/links") && body.contains("alias");
        assert_eq!(answer.status == 422, second_link, "only a second link is the same route: {answer:?}");
    }
    // The name is part of what is asked.
    assert_eq!(server.once("PUT", "/v1/keyspaces/links/keys/other", KEY, "{}").status, 201);
    assert_eq!(server.once("PUT", "/v1/keyspaces/links/keys/mine", KEY, "{}").status, 201);
}

#[test]
fn callers_with_different_tokens_do_not_share_keys() {
    let home = Home::new();
    let data = home.data();
    let token = |name: &str| {
        let arguments = ["token", "create", "--name", name, "--scope", "take,name", "--data-dir"];
        home.run(&[&arguments[..], &[data.to_str().unwrap()]].concat()).ok().trim().to_owned()
    };
    let (one, two) = (token("one"), token("two"));
    let server = home.server().environment("KEYMILL_AUTH__MODE", "on").start();
    let ask = |token: &str, path: &str, body: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Idempotency-Key", KEY), ("Authorization", bearer.as_str())];
        server.connect().send("POST", path, &headers, body.as_bytes()).unwrap()
    };
    for (path, body) in
        [("/v1/keyspaces/links/keys", ""), ("/v1/keyspaces/links/links", r#"{"url":"https://example.com/"}"#)]
    {
        let first = ask(&one, path, body).text();
        assert_eq!(ask(&one, path, body).text(), first);
        assert_ne!(ask(&two, path, body).text(), first, "someone else's key is someone else's");
    }
}

#[test]
fn what_is_refused_may_be_asked_again_with_the_same_key() {
    let home = Home::new();
    let server = home.start();
    server.claim("links", "mine");
    let body = r#"{"url":"https://example.com/","alias":"mine"}"#;
    let refused = server.once("POST", "/v1/keyspaces/links/links", KEY, body);
    assert_eq!(told(&refused).1, "name_taken");
    let other = r#"{"url":"https://example.com/","alias":"other"}"#;
    let made = server.once("POST", "/v1/keyspaces/links/links", KEY, other);
    assert_eq!(made.status, 201, "nothing was done under that key yet: {made:?}");
}

/// A request that is under way on another node, or was left behind by its crash, is not begun a second time at once.
#[test]
fn a_key_that_is_at_work_is_waited_for() {
    let home = Home::new();
    let server = home.start();
    let body = r#"{"url":"https://example.com/"}"#;
    let first = server.once("POST", "/v1/keyspaces/links/links", KEY, body);
    assert_eq!(first.status, 201);
    server.terminate();
    // As if another node had died between beginning and answering.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let until = i64::try_from((now + Duration::from_secs(3)).as_millis()).unwrap();
    let rows = rusqlite::Connection::open(home.file("keymill.db")).unwrap();
    let open =
        "UPDATE keymill_registry_receipts SET answer = NULL, locked_until = ?1, attempt = 'another-node/1/a'";
    assert_eq!(rows.execute(open, [until]).unwrap(), 1);
    drop(rows);
    let server = home.start();
    let busy = server.once("POST", "/v1/keyspaces/links/links", KEY, body);
    assert_eq!(told(&busy), (409, "idempotency_in_progress".to_owned(), String::new()), "{busy:?}");
    let mut again = None;
    harness::names::until("its time is over", || {
        let answer = server.once("POST", "/v1/keyspaces/links/links", KEY, body);
        let is_made = answer.status == 201;
        again = is_made.then(|| answer.text());
        is_made
    });
    let once_more = server.once("POST", "/v1/keyspaces/links/links", KEY, body);
    assert_eq!(Some(once_more.text()), again);
}

#[test]
fn a_hundred_at_once_with_one_key_have_one_effect() {
    let home = Home::new();
    let server = home.start();
    for (n, (method, path, body)) in ROUTES.iter().enumerate() {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nIdempotency-Key: {}\r\nContent-Length: {}\r\n\r\n{body}",
            key(n),
            body.len()
        );
        let mut callers: Vec<Connection> = (0..100).map(|_| server.connect()).collect();
        callers.iter_mut().for_each(|caller| caller.write(request.as_bytes()).unwrap());
        let mut answers = HashSet::new();
        for mut caller in callers {
            let answer = caller.answer(false).unwrap();
            if told(&answer).1 != "idempotency_in_progress" {
                assert!(matches!(answer.status, 200 | 201), "{answer:?}");
                answers.insert(answer.text());
            }
        }
        assert_eq!(answers.len(), 1, "{method} {path}: {answers:?}");
    }
    assert_eq!(links(&server), 4, "one for each of the routes that make one");
}

/// An answer that could not be written down is refused before anything is made.
#[test]
fn a_batch_too_long_to_be_written_down_makes_nothing() {
    let home = Home::new();
    let server = home.start();
    let link = |n: usize| json!({ "url": format!("https://example.com/{n}/{}", "x".repeat(1900)) });
    let body = |count: usize| json!({ "links": (0..count).map(link).collect::<Vec<_>>() }).to_string();
    let path = "/v1/keyspaces/links/links/batch";
    let refused = server.once("POST", path, KEY, &body(1000));
    assert_eq!((refused.status, refused.code()), (422, "invalid_field".to_owned()), "{refused:?}");
    assert_eq!(links(&server), 0);
    let made = server.once("POST", path, KEY, &body(300));
    assert_eq!(made.json()["links"].as_array().unwrap().len(), 300);
    assert_eq!(server.once("POST", path, KEY, &body(300)).text(), made.text());
    assert_eq!(server.post(path, &body(1000)).status, 200, "without a key there is nothing to write down");
}

#[test]
fn answers_are_forgotten_when_their_time_is_over() {
    let home = Home::new();
    let server = home
        .server()
        .environment("KEYMILL_LIMITS__IDEMPOTENCY", "1s")
        .environment("KEYMILL_REGISTRY__SWEEP_INTERVAL", "1s")
        .start();
    let first = server.once("POST", "/v1/keyspaces/links/keys", KEY, "").keys();
    harness::names::until("the answer is forgotten", || {
        server.once("POST", "/v1/keyspaces/links/keys", KEY, "").keys() != first
    });
    let database = home.file("keymill.db");
    harness::names::until("old answers are swept", || {
        let rows = rusqlite::Connection::open(&database).unwrap();
        rows.query_row("SELECT count(*) FROM keymill_registry_receipts", [], |row| row.get::<_, i64>(0))
            .unwrap()
            == 0
    });
    // Nothing of a key or of an answer is in the log.
    assert!(!server.log().contains(KEY));
}

#[test]
fn two_keys_are_refused() {
    let home = Home::new();
    let server = home.start();
    let (one, other) = (key(1), key(2));
    let headers = [("idempotency-key", one.as_str()), ("idempotency-key", other.as_str())];
    let answer = server.connect().send("POST", "/v1/keyspaces/tickets/keys", &headers, b"").unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{answer:?}");
    assert_eq!(server.take("tickets", 1), ["1"], "it took nothing");
}

/// Whoever hangs up before the answer comes back for it: nothing that was taken is left out.
#[test]
fn a_caller_who_hangs_up_finds_its_keys_at_the_next_try() {
    let home = Home::new();
    let server = home.start();
    let (path, body) = ("/v1/keyspaces/tickets/keys", r#"{"count":100}"#);
    let mut tickets: Vec<u64> = Vec::new();
    for n in 0..100 {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nIdempotency-Key: {}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            key(n),
            body.len()
        );
        let mut connection = Connection::open(server.address).unwrap();
        connection.write(request.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_micros(20 * n as u64));
        drop(connection);
        let begun = Instant::now();
        let answer = loop {
            let answer = server.once("POST", path, &key(n), body);
            // The first try is finished by itself, long before another could overtake it: that takes 10 s.
            if answer.status != 409 || begun.elapsed() > Duration::from_secs(6) {
                break answer;
            }
        };
        assert_eq!(answer.status, 200, "{answer:?}");
        tickets.extend(answer.keys().iter().map(|ticket| ticket.parse::<u64>().unwrap()));
    }
    assert_eq!(tickets, (1..=10_000).collect::<Vec<_>>());
}
