//! Links, on the real binary: made, followed, looked at, changed, deleted, listed, counted.

use std::collections::BTreeSet;

use serde_json::{Value, json};

mod harness;
use harness::{
    Home, Server,
    names::{taken, told, until},
};

const LINKS: &str = "/v1/keyspaces/links/links";

/// A command of the Redis protocol; what came back, or the error's text.
fn redis(server: &Server, command: &[&str]) -> Result<redis::Value, String> {
    let url = format!("redis://{}", server.resp.unwrap());
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut asked = redis::cmd(command[0]);
    command[1..].iter().for_each(|argument| {
        asked.arg(argument);
    });
    asked.query(&mut connection).map_err(|error| error.to_string())
}

fn bulk(text: &str) -> redis::Value {
    redis::Value::BulkString(text.as_bytes().to_vec())
}

#[test]
fn a_link_is_made_and_followed() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LISTEN__PUBLIC_URL", "https://go.example/").start();
    let made = server.link("links", &json!({ "url": "https://example.com/a?b=c#d" }));
    let link = made.json();
    let key = link["key"].as_str().unwrap();
    assert_eq!((made.status, key.len()), (201, 7), "{made:?}");
    assert_eq!(link["url"], "https://example.com/a?b=c#d");
    assert_eq!(link["short_url"], format!("https://go.example/{key}"));
    assert_eq!(
        (&link["keyspace"], &link["expires_at"], &link["visits"]),
        (&json!("links"), &Value::Null, &json!(0))
    );
    assert!(link["created_at"].as_str().unwrap().ends_with('Z'), "{link}");
    assert_eq!(made.header("cache-control"), Some("no-store"));

    for path in [format!("/{key}"), format!("/links/{key}"), format!("/{key}?utm=1")] {
        for method in ["GET", "HEAD"] {
            let answer = server.ask(method, &path, None);
            assert_eq!(
                (answer.status, answer.header("location")),
                (302, Some("https://example.com/a?b=c#d"))
            );
            assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
            assert_eq!(answer.header("x-robots-tag"), Some("noindex"));
            assert_eq!(answer.header("cache-control"), Some("private, max-age=60"), "bounded");
            assert!(answer.body.is_empty());
        }
    }
    assert_eq!(server.ask("POST", &format!("/{key}"), None).status, 404, "a link is followed by GET");
    let shown = server.get(&format!("{LINKS}/{key}")).json();
    assert_eq!(shown["url"], link["url"]);
    let known = server.get(&format!("/v1/keyspaces/links/keys/{key}")).json();
    assert_eq!((&known["state"], &known["link"]["url"]), (&json!("issued"), &link["url"]), "{known}");

    server.create(json!({ "name": "promo", "scheme": "pool", "length": 5 }));
    let other = server.link("promo", &json!({ "url": "https://example.com/p", "alias": "spring" })).json();
    assert_eq!(other["short_url"], "https://go.example/promo/spring");
    assert_eq!(server.leads_to("/promo/spring").as_deref(), Some("https://example.com/p"));
    assert_eq!(server.leads_to("/spring"), None, "only the root keyspace answers there");
}

#[test]
fn the_status_of_a_redirect_is_a_setting() {
    let home = Home::new();
    let server = home.start();
    let key = server.linked("links", "https://example.com/");
    for status in [301, 307, 308, 302] {
        server.tune("links", &json!({ "redirect": status }));
        assert_eq!(server.get(&format!("/{key}")).status, status);
    }
    let wrong = server.patch("/v1/keyspaces/links", &json!({ "redirect": 303 }));
    assert_eq!((wrong.status, wrong.code()), (422, "invalid_field".to_owned()), "{wrong:?}");
}

#[test]
fn what_is_not_there_is_said_to_people_and_to_programs() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LIMITS__MISSES", "0").start();
    let long = "x".repeat(300);
    for path in ["/nothing", "/links/nothing", "/no-such-space/nothing", "/nothing+", &format!("/{long}")] {
        let people = server.get(path);
        assert_eq!(people.status, 404, "{people:?}");
        assert_eq!(people.header("content-type"), Some("text/plain; charset=utf-8"), "{path}");
        assert!(!people.text().contains(path.trim_matches(['/', '+'])), "nothing is reflected: {people:?}");
        let program =
            server.connect().send("GET", path, &[("Accept", "application/problem+json")], b"").unwrap();
        assert_eq!((program.status, program.code().as_str()), (404, "key_not_found"), "{program:?}");
        assert_eq!(program.header("content-type"), Some("application/problem+json"));
        assert_eq!(server.ask("HEAD", path, None).status, 404);
    }
    for path in ["/a%2Fb", "/..%2f", "/%00", "/a/b/c", "/robots.txt", "/.well-known/x", "/favicon.ico"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    server.tune("links", &json!({ "not_found_url": "https://example.com/home" }));
    assert_eq!(server.leads_to("/nothing").as_deref(), Some("https://example.com/home"));
    let key = server.linked("links", "https://example.com/");
    assert_eq!(server.delete(&format!("{LINKS}/{key}")).status, 204);
    assert_eq!(server.get(&format!("/{key}")).status, 410, "what is gone is not unknown");
    let wrong = server.patch("/v1/keyspaces/links", &json!({ "not_found_url": "javascript:alert(1)" }));
    assert_eq!(wrong.status, 422, "{wrong:?}");
}

#[test]
fn a_preview_shows_where_a_link_leads_and_goes_nowhere() {
    let home = Home::new();
    let server = home.start();
    // What the parser leaves as it is and a page must not.
    let key = server.linked("links", "https://example.com/?a='b'&c=1");
    let preview = server.get(&format!("/{key}+"));
    let page = preview.text();
    assert_eq!((preview.status, preview.header("location")), (200, None), "{preview:?}");
    assert_eq!(preview.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(preview.header("content-security-policy").unwrap().contains("default-src 'none'"), "{preview:?}");
    assert!(!page.contains("'b'") && !page.contains("&c=1\""), "{page}");
    assert!(page.contains("&amp;c=1"), "{page}");
    assert_eq!(server.get(&format!("/links/{key}+")).status, 200);
    until("a visit would have been counted", || {
        assert_eq!(server.get(&format!("{LINKS}/{key}")).json()["visits"], 0, "a look is no visit");
        server.metric("registry_visits_total") == 0.0
    });
    assert_eq!(server.delete(&format!("{LINKS}/{key}")).status, 204);
    assert_eq!(server.get(&format!("/{key}+")).status, 410);
}

#[test]
fn a_link_is_changed_and_what_was_remembered_is_forgotten() {
    let home = Home::new();
    let server = home.start();
    let key = server.linked("links", "https://example.com/1");
    let (path, link) = (format!("/{key}"), format!("{LINKS}/{key}"));
    assert_eq!(server.leads_to(&path).as_deref(), Some("https://example.com/1"));
    let changed = server.patch(&link, &json!({ "url": "https://example.com/2", "expires_in": 3600 }));
    assert_eq!((changed.status, changed.json()["url"].as_str()), (200, Some("https://example.com/2")));
    assert!(changed.json()["expires_at"].is_string());
    assert_eq!(server.leads_to(&path).as_deref(), Some("https://example.com/2"), "at once");
    let changed = server.patch(&link, &json!({ "expires_in": null })).json();
    assert_eq!((&changed["expires_at"], &changed["url"]), (&Value::Null, &json!("https://example.com/2")));
    let same = server.patch(&link, &json!({})).json();
    assert_eq!(same["url"], "https://example.com/2", "nothing asked, nothing changed");
    for wrong in [
        json!({ "expires_in": 0 }),
        json!({ "expires_in": -1 }),
        json!({ "expires_in": 1e12 }),
        json!({ "expires_in": "60" }),
        json!({ "visits": 7 }),
        json!({ "key": "x" }),
    ] {
        let answer = server.patch(&link, &wrong);
        assert_eq!((answer.status, answer.code()), (422, "invalid_field".to_owned()), "{wrong}: {answer:?}");
    }
    for absent in ["nothing", &"x".repeat(300), "%00", "claimed"] {
        if absent == "claimed" {
            server.claim("links", absent);
        }
        for answer in [
            server.get(&format!("{LINKS}/{absent}")),
            server.patch(&format!("{LINKS}/{absent}"), &json!({ "url": "https://example.com/" })),
            server.delete(&format!("{LINKS}/{absent}")),
        ] {
            assert!(
                answer.status == 404 || absent == "claimed" && answer.status == 204,
                "{absent}: {answer:?}"
            );
        }
    }
}

#[test]
fn what_is_deleted_stays_gone() {
    let home = Home::new();
    let server = home.start();
    let key = server.linked("links", "https://example.com/");
    let named = server.link("links", &json!({ "url": "https://example.com/", "alias": "mine" }));
    assert_eq!(named.status, 201);
    for name in [key.as_str(), "mine"] {
        assert!(server.leads_to(&format!("/{name}")).is_some());
        assert_eq!(server.delete(&format!("{LINKS}/{name}")).status, 204);
        let gone = server.get(&format!("/{name}"));
        assert_eq!(gone.status, 410, "at once: {gone:?}");
        for (status, answer) in [
            (410, server.delete(&format!("{LINKS}/{name}"))),
            (410, server.get(&format!("{LINKS}/{name}"))),
            (410, server.patch(&format!("{LINKS}/{name}"), &json!({ "url": "https://example.com/" }))),
            (410, server.put(&format!("{LINKS}/{name}"), &json!({ "url": "https://example.com/" }))),
        ] {
            assert_eq!((answer.status, answer.code().as_str()), (status, "link_gone"), "{answer:?}");
        }
        assert_eq!(told(&server.claim("links", name)), taken("bound"), "nobody gets it");
        assert_eq!(redis(&server, &["GET", name]), Ok(redis::Value::Nil));
        assert_eq!(redis(&server, &["SET", name, "https://example.com/", "NX"]), Ok(redis::Value::Nil));
        let program =
            server.connect().send("GET", &format!("/{name}"), &[("Accept", "application/json")], b"");
        assert_eq!(program.unwrap().code(), "link_gone");
    }
    server.terminate();
    let server = home.start();
    assert_eq!(server.get("/mine").status, 410, "after a restart too");
    assert_eq!(told(&server.claim("links", "mine")), taken("bound"));
}

#[test]
fn a_name_can_be_had_again_after_its_rest_where_that_is_asked_for() {
    let home = Home::new();
    let server = home
        .server()
        .environment("KEYMILL_REGISTRY__REUSE_AFTER", "1s")
        .environment("KEYMILL_REGISTRY__SWEEP_INTERVAL", "1s")
        .start();
    for name in ["deleted", "expired"] {
        let expires_in = if name == "expired" { json!(1) } else { json!(3600) };
        let link = json!({ "url": "https://example.com/old", "alias": name, "expires_in": expires_in });
        assert_eq!(server.link("links", &link).status, 201);
    }
    assert_eq!(server.delete(&format!("{LINKS}/deleted")).status, 204);
    assert_eq!(server.get("/deleted").status, 410);
    for name in ["deleted", "expired"] {
        let link = json!({ "url": "https://example.com/new", "alias": name });
        until("the name is free again", || server.link("links", &link).status == 201);
        assert_eq!(server.leads_to(&format!("/{name}")).as_deref(), Some("https://example.com/new"));
    }
}

#[test]
fn a_key_that_was_taken_is_bound_once() {
    let home = Home::new();
    let server = home.start();
    let key = server.take("links", 1).remove(0);
    let path = format!("{LINKS}/{key}");
    let url = |n: u32| json!({ "url": format!("https://example.com/{n}") });
    assert_eq!(server.get(&path).status, 404, "taken, and leads nowhere");
    assert_eq!(server.put(&path, &url(1)).status, 201);
    assert_eq!(server.put(&path, &url(1)).status, 200, "the same again");
    let other = server.put(&path, &url(2));
    assert_eq!((other.status, other.code()), (409, "already_bound".to_owned()), "{other:?}");
    assert_eq!(server.leads_to(&format!("/{key}")).as_deref(), Some("https://example.com/1"));

    assert_eq!(server.claim("links", "mine").status, 201);
    assert_eq!(
        server
            .put(&format!("{LINKS}/mine"), &json!({ "url": "https://example.com/", "expires_in": 60 }))
            .status,
        201
    );
    let free = server.put(&format!("{LINKS}/never-claimed"), &url(1));
    assert_eq!(free.status, 201, "claimed first, by the rules for names: {free:?}");
    for (name, code) in
        [("api", "reserved_word"), ("a.b", "invalid_alias"), ("seventeen-letters", "invalid_alias")]
    {
        assert_eq!(server.put(&format!("{LINKS}/{name}"), &url(1)).code(), code, "{name}");
    }
    let ticket = server.take("tickets", 1).remove(0);
    assert_eq!(server.put(&format!("/v1/keyspaces/tickets/links/{ticket}"), &url(1)).status, 201);
    assert_eq!(server.leads_to(&format!("/tickets/{ticket}")).as_deref(), Some("https://example.com/1"));
    let chosen = server.put("/v1/keyspaces/tickets/links/999999999", &url(1));
    assert_eq!(chosen.code(), "wrong_scheme", "{chosen:?}");
}

#[test]
fn the_redis_protocol_binds_and_finds_links() {
    let home = Home::new();
    let server = home.start();
    let key = server.take("links", 1).remove(0);
    let ok = Ok(redis::Value::Okay);
    let nil = Ok(redis::Value::Nil);
    assert_eq!(redis(&server, &["GET", &key]), nil);
    assert_eq!(redis(&server, &["SET", &key, "https://example.com/1", "NX"]), ok);
    assert_eq!(redis(&server, &["SET", &key, "https://example.com/2", "NX"]), nil, "the first one wins");
    assert_eq!(redis(&server, &["SET", "mine", "https://example.com/3", "NX", "EX", "60"]), ok);
    assert_eq!(redis(&server, &["GET", "mine"]), Ok(bulk("https://example.com/3")));
    assert_eq!(redis(&server, &["GET", &format!("links:{key}")]), Ok(bulk("https://example.com/1")));
    assert_eq!(
        redis(&server, &["EXISTS", &key, "mine", "links", "nothing", "mine"]),
        Ok(redis::Value::Int(4))
    );
    assert_eq!(redis(&server, &["GET", "no-such-space:x"]), nil);
    assert_eq!(redis(&server, &["GET", &"x".repeat(300)]), nil);
    assert!(server.get(&format!("{LINKS}/mine")).json()["expires_at"].is_string());
    for (command, complaint) in [
        (vec!["SET", "a", "https://example.com/"], "NX"),
        (vec!["SET", "a", "https://example.com/", "XX"], "syntax"),
        (vec!["SET", "a", "https://example.com/", "NX", "EX", "0"], "expire"),
        (vec!["SET", "a", "ftp://example.com/", "NX"], "http"),
        (vec!["SET", "a.b", "https://example.com/", "NX"], "alias"),
        (vec!["SET", "no-such-space:x", "https://example.com/", "NX"], "keyspace"),
    ] {
        let error = redis(&server, &command).unwrap_err();
        assert!(error.contains(complaint), "{command:?}: {error}");
    }
    assert_eq!(
        redis(&server, &["EXISTS", "a"]),
        Ok(redis::Value::Int(0)),
        "what was refused changed nothing"
    );
}

#[test]
fn links_are_listed_in_pages_and_searched() {
    let home = Home::new();
    let server = home.start();
    let made: BTreeSet<String> =
        (0..25).map(|n| server.linked("links", &format!("https://example.com/Page-{n}"))).collect();
    server.claim("links", "unbound");
    let gone = server.linked("links", "https://example.com/gone");
    server.delete(&format!("{LINKS}/{gone}"));
    for limit in [1, 7, 25, 100] {
        let (mut keys, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = server.get(&format!("{LINKS}?limit={limit}{cursor}")).json();
            keys.extend(
                page["links"].as_array().unwrap().iter().map(|link| link["key"].as_str().unwrap().to_owned()),
            );
            pages += 1;
            assert!(pages <= 60, "it ends");
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(keys.len(), 25, "each once, and only what leads somewhere");
        assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), made);
    }
    let found = |q: &str| server.get(&format!("{LINKS}?q={q}")).json()["links"].as_array().unwrap().len();
    assert_eq!((found("page-1"), found("Page-24"), found("gone"), found("")), (11, 1, 0, 25));
    assert_eq!((found(made.first().unwrap()), found("%25"), found("_"), found("%27")), (1, 0, 0, 0));
    for wrong in ["limit=0", "limit=1001", "limit=x", "cursor=%00", "what=1", "cursor="] {
        let answer = server.get(&format!("{LINKS}?{wrong}"));
        assert_eq!(answer.status, 422, "{wrong}: {answer:?}");
    }
}

#[test]
fn visits_are_counted_and_written_down() {
    let home = Home::new();
    let server = home.start();
    let (one, two) =
        (server.linked("links", "https://example.com/1"), server.linked("links", "https://example.com/2"));
    for _ in 0..10 {
        server.leads_to(&format!("/{one}"));
    }
    server.ask("HEAD", &format!("/links/{two}"), None);
    let visits = |server: &Server, key: &str| server.get(&format!("{LINKS}/{key}")).json()["visits"].clone();
    until("visits are written down", || visits(&server, &one) == 10 && visits(&server, &two) == 1);
    assert_eq!(server.metric("registry_visits_total"), 11.0);
    server.leads_to(&format!("/{one}"));
    server.terminate();
    let server = home.start();
    assert_eq!(visits(&server, &one), 11, "a clean stop writes the rest");
}

#[test]
fn links_expire_and_are_swept() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_REGISTRY__SWEEP_INTERVAL", "1s").start();
    server.create(json!({ "name": "brief", "scheme": "pool", "expires_in": "1s" }));
    let usual = server.link("brief", &json!({ "url": "https://example.com/" })).json();
    let lasting = server.link("brief", &json!({ "url": "https://example.com/", "expires_in": 3600 })).json();
    let named = json!({ "url": "https://example.com/", "alias": "mine", "expires_in": 1 });
    assert_eq!(server.link("links", &named).status, 201);
    assert!(usual["expires_at"].is_string() && usual["expires_at"] != lasting["expires_at"]);
    let key = |link: &Value| link["key"].as_str().unwrap().to_owned();
    // Remembered while they were alive, and over all the same.
    server.get("/mine");
    until("they expire", || {
        [server.get(&format!("/brief/{}", key(&usual))), server.get("/mine")]
            .iter()
            .all(|it| it.status == 410)
    });
    assert!(server.leads_to(&format!("/brief/{}", key(&lasting))).is_some());
    assert_eq!(told(&server.claim("links", "mine")), taken("bound"), "and its name is nobody's");
    until("they are swept", || server.metric("registry_swept_total") == 2.0);
    assert_eq!(server.get("/mine").status, 410);
    let rows = rusqlite::Connection::open(home.file("keymill.db")).unwrap();
    let left: i64 = rows
        .query_row("SELECT count(*) FROM keymill_registry_names WHERE target IS NOT NULL", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(left, 1, "where they led is forgotten");
    for wrong in [json!(0), json!(-5), json!(1.5), json!("1h"), json!(10_000_000_000_u64)] {
        let answer = server.link("links", &json!({ "url": "https://example.com/", "expires_in": wrong }));
        assert_eq!((answer.status, answer.code()), (422, "invalid_field".to_owned()), "{answer:?}");
    }
}

#[test]
fn a_batch_makes_what_can_be_made_in_the_order_asked() {
    let home = Home::new();
    let server = home.start();
    server.claim("links", "claimed");
    let batch = |links: Value| server.post(&format!("{LINKS}/batch"), &json!({ "links": links }).to_string());
    let mixed = batch(json!([
        { "url": "https://example.com/1" },
        { "url": "ftp://example.com/" },
        { "url": "https://example.com/2", "alias": "mine" },
        { "url": "https://example.com/3", "alias": "mine" },
        { "url": "https://example.com/4", "alias": "claimed" },
        { "url": "https://example.com/5", "alias": "api" },
        { "url": "https://example.com/6", "expires_in": 0 },
        { "url": "https://example.com/1" },
    ]));
    assert_eq!(mixed.status, 200, "{mixed:?}");
    let outcomes = mixed.json();
    let codes: Vec<&str> = outcomes["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["code"].as_str().unwrap_or("made"))
        .collect();
    let expected = [
        "made",
        "invalid_target",
        "made",
        "name_taken",
        "name_taken",
        "reserved_word",
        "invalid_field",
        "made",
    ];
    assert_eq!(codes, expected, "{outcomes}");
    assert_ne!(outcomes["links"][0]["key"], outcomes["links"][7]["key"], "a pool does not look at content");
    assert_eq!(server.leads_to("/mine").as_deref(), Some("https://example.com/2"), "the first one");

    let thousand: Vec<Value> =
        (0..1000).map(|n| json!({ "url": format!("https://example.com/n/{n}") })).collect();
    let made = batch(thousand.clone().into()).json();
    let keys: BTreeSet<&str> =
        made["links"].as_array().unwrap().iter().map(|it| it["key"].as_str().unwrap()).collect();
    assert_eq!(keys.len(), 1000);
    for n in [0, 500, 999] {
        let link = &made["links"][n];
        let led = server.leads_to(&format!("/{}", link["key"].as_str().unwrap()));
        assert_eq!(led.unwrap(), format!("https://example.com/n/{n}"));
    }
    assert_eq!(batch(json!([])).json(), json!({ "links": [] }));
    let one_more: Value = [thousand, vec![json!({ "url": "https://example.com/" })]].concat().into();
    assert_eq!(batch(one_more).code(), "invalid_field", "1001 are too many");
    for wrong in [json!({}), json!("x"), json!([{ "link": "https://example.com/" }]), json!([{}])] {
        assert_eq!(batch(wrong.clone()).code(), "invalid_field", "{wrong}");
    }
}

#[test]
fn who_asks_for_many_links_that_are_not_there_is_told_to_wait() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LIMITS__MISSES", "5").start();
    let key = server.linked("links", "https://example.com/");
    let paths = ["/none1", "/links/none2", "/none3+", "/no-such-space/x", "/none1"];
    for path in paths {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    for path in paths {
        let answer = server.get(path);
        assert_eq!(answer.status, 429, "{path}: {answer:?}");
        assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    }
    assert_eq!(server.get(&format!("/{key}")).status, 302, "links that are there go on");
    assert_eq!(server.get(&format!("/{key}+")).status, 200);
    assert!(server.metric("registry_misses_total") >= 10.0);
}

/// Two texts that are one key are one name, whether or not the pool would ever issue it.
#[test]
fn other_spellings_of_a_key_are_the_same_link() {
    let home = Home::new();
    let server = home.start();
    server.create(
        json!({"name": "codes", "scheme": "pool", "alphabet": "base36", "length": 4, "blocklist": ["rude"]}),
    );
    server.create(json!({"name": "uuids", "scheme": "uuid4"}));
    server.create(json!({"name": "ulids", "scheme": "ulid"}));
    let uuid = server.take("uuids", 1).remove(0);
    let ulid = server.take("ulids", 1).remove(0);
    for (keyspace, first, others) in [
        ("codes", "rude".to_owned(), vec!["RUDE".to_owned(), "rUde".to_owned()]),
        ("uuids", uuid.clone(), vec![uuid.to_uppercase(), uuid.replace('-', "")]),
        ("ulids", ulid.clone(), vec![ulid.to_lowercase()]),
    ] {
        let link = |key: &str| format!("/v1/keyspaces/{keyspace}/links/{key}");
        assert_eq!(server.put(&link(&first), &json!({"url": "https://example.com/first"})).status, 201);
        for other in others {
            let refused = server.put(&link(&other), &json!({"url": "https://example.com/other"}));
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (409, "already_bound"),
                "{other}: {refused:?}"
            );
            let path = format!("/{keyspace}/{other}");
            assert_eq!(server.leads_to(&path).as_deref(), Some("https://example.com/first"), "{other}");
        }
    }
}

#[test]
fn a_ticket_that_nobody_took_cannot_be_bound() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "numbers", "scheme": "sequence"}));
    assert_eq!(server.take("numbers", 1), ["1"]);
    let target = json!({"url": "https://example.com/"});
    assert_eq!(server.put("/v1/keyspaces/numbers/links/1", &target).status, 201);
    let refused = server.put("/v1/keyspaces/numbers/links/2", &target);
    assert_eq!(told(&refused), taken("in_stock"), "{refused:?}");
    assert_eq!(server.linked("numbers", "https://example.com/"), "2", "it is whose it was going to be");
}
