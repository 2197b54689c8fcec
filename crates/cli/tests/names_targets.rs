//! Where a link may lead: what is refused when it is made is refused again when it is followed, however it came to be
//! stored. The rows are those of the table of bad input in the project's security notes.

use rusqlite::{Connection as Database, params};
use serde_json::{Value, json};

mod harness;
use harness::{Home, Server};

/// A target, and the code it is refused with.
fn bad_targets(server: &Server) -> Vec<(String, &'static str)> {
    let host = format!("{}", server.address);
    let port = server.address.port();
    let mut bad: Vec<(String, &str)> = [
        // Schemes.
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "javascript://example.com/%0aalert(1)",
        "java\tscript:alert(1)",
        "java\nscript:alert(1)",
        " javascript:alert(1)",
        "\u{1}javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "DATA:text/html;base64,PHNjcmlwdD4=",
        "vbscript:msgbox(1)",
        "file:///etc/passwd",
        "blob:https://example.com/1",
        "about:blank",
        "ftp://example.com/",
        "mailto:a@example.com",
        "//example.com/",
        "example.com",
        "/relative",
        "https",
        "",
        " ",
        // Blanks and control characters.
        " https://example.com/",
        "https://example.com/ ",
        "https://example.com/a b",
        "\thttps://example.com/",
        "https://exam\tple.com/",
        "https://example.com/\u{b}",
        "https://example.com/\u{85}",
        "https://example.com/\u{2028}",
        "https://example.com/\r\nSet-Cookie: a=b",
        "https://example.com/\nLocation: https://evil.example/",
        "https://example.com/\0",
        "https://example.com/\u{7f}",
        "https://example.com/\u{1b}[31m",
        // Hosts.
        "https://",
        "https:///path",
        "https:example.com",
        "https:/example.com",
        "https://?q",
        "https://#x",
        "https://.",
        "https://:443/",
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://@example.com/",
        "https://example.com@evil.example/",
        "https://example.com\\@evil.example/",
        "https:\\\\example.com",
        "https://example.com:99999/",
        "https://[::1/",
        "https://exa mple.com/",
        // Percent-encoding.
        "https://example.com/%",
        "https://example.com/%2",
        "https://example.com/%zz",
        "https://exa%2mple.com/",
    ]
    .into_iter()
    .map(|target| (target.to_owned(), "invalid_target"))
    .collect();
    bad.push((format!("https://example.com/{}", "a".repeat(2048)), "invalid_target"));
    bad.push((format!("https://example.com/{}", "ä".repeat(600)), "invalid_target"));
    for here in [
        format!("http://{host}/abc"),
        format!("http://localhost:{port}/abc"),
        format!("HTTP://LOCALHOST:{port}/abc"),
        format!("http://2130706433:{port}/abc"),
        "https://go.example/abc".to_owned(),
        "http://go.example/abc".to_owned(),
        "https://GO.EXAMPLE./abc".to_owned(),
        "https://go.example:443/v1/keyspaces".to_owned(),
    ] {
        bad.push((here, "redirect_loop"));
    }
    bad
}

/// With a host name of its own.
fn start(home: &Home) -> Server {
    home.server().environment("KEYMILL_LISTEN__PUBLIC_URL", "https://go.example").start()
}

#[test]
fn no_bad_target_is_taken_by_any_route() {
    let home = Home::new();
    let server = start(&home);
    let fine = server.linked("links", "https://example.com/fine");
    let taken = server.take("links", 1).remove(0);
    let before = server.get("/v1/keyspaces/links/links").json();
    let bad = bad_targets(&server);
    for (target, code) in &bad {
        let url = json!({ "url": target });
        let aliased = json!({ "url": target, "alias": "never" });
        for (what, answer) in [
            ("POST", server.link("links", &url)),
            ("POST with an alias", server.link("links", &aliased)),
            ("PUT", server.put(&format!("/v1/keyspaces/links/links/{taken}"), &url)),
            ("PUT of a name", server.put("/v1/keyspaces/links/links/never", &url)),
            ("PATCH", server.patch(&format!("/v1/keyspaces/links/links/{fine}"), &url)),
        ] {
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (422, *code),
                "{what} {target:?}: {answer:?}"
            );
            assert_eq!(answer.json()["errors"][0]["pointer"], "#/url", "{answer:?}");
        }
    }
    let links: Vec<Value> = bad.iter().map(|(target, _)| json!({ "url": target })).collect();
    let batch = server.post("/v1/keyspaces/links/links/batch", &json!({ "links": links }).to_string());
    assert_eq!(batch.status, 200, "{batch:?}");
    for ((target, code), outcome) in bad.iter().zip(batch.json()["links"].as_array().unwrap()) {
        assert_eq!(outcome["code"], *code, "{target:?} {outcome}");
    }
    let mut redis =
        redis::Client::open(format!("redis://{}", server.resp.unwrap())).unwrap().get_connection().unwrap();
    for (target, code) in &bad {
        let set: redis::RedisResult<String> =
            redis::cmd("SET").arg(&taken).arg(target).arg("NX").query(&mut redis);
        let error = set.expect_err(target);
        assert_eq!(error.code(), Some("ERR"), "{code}: {error}");
    }
    assert_eq!(server.get("/v1/keyspaces/links/links").json(), before, "nothing was changed");
    assert_eq!(server.claim("links", "never").status, 201, "and no name was taken");
    let not_json = server.connect().send(
        "POST",
        "/v1/keyspaces/links/links",
        &[("Content-Type", "application/json")],
        b"{\"url\":\"https://example.com/\xff\"}",
    );
    assert_eq!(not_json.unwrap().status, 400, "what is not UTF-8 is not JSON");
}

#[test]
fn no_bad_target_is_redirected_to_however_it_was_stored() {
    let home = Home::new();
    let server = start(&home);
    // Those that a database would keep: the server's own addresses are others at the next start.
    let bad: Vec<String> = bad_targets(&server)
        .into_iter()
        .map(|(target, _)| target)
        .filter(|target| !target.contains('\0') && !target.contains(&server.address.port().to_string()))
        .chain(["HTTPS://EXAMPLE.COM/".to_owned(), "https://example.com".to_owned()])
        .collect();
    let keys: Vec<String> = bad.iter().map(|_| server.linked("links", "https://example.com/")).collect();
    let fine = server.linked("links", "https://example.com/");
    server.terminate();
    let database = Database::open(home.file("keymill.db")).unwrap();
    for (key, target) in keys.iter().zip(&bad) {
        let changed = database
            .execute("UPDATE keymill_registry_names SET target = ?1 WHERE name = ?2", params![target, key])
            .unwrap();
        assert_eq!(changed, 1);
    }
    drop(database);
    let server = home
        .server()
        .environment("KEYMILL_LISTEN__PUBLIC_URL", "https://go.example")
        .environment("KEYMILL_LIMITS__MISSES", "0")
        .start();
    assert_eq!(server.leads_to(&format!("/{fine}")).as_deref(), Some("https://example.com/"));
    let mut redis =
        redis::Client::open(format!("redis://{}", server.resp.unwrap())).unwrap().get_connection().unwrap();
    for (key, target) in keys.iter().zip(&bad) {
        for path in [format!("/{key}"), format!("/links/{key}")] {
            let answer = server.get(&path);
            assert_eq!((answer.status, answer.header("location")), (404, None), "{target:?}: {answer:?}");
        }
        let preview = server.get(&format!("/{key}+"));
        assert_eq!(preview.status, 404, "{target:?}: {preview:?}");
        let found: Option<String> = redis::cmd("GET").arg(key).query(&mut redis).unwrap();
        assert_eq!(found, None, "{target:?}");
    }
}

#[test]
fn a_target_is_kept_and_sent_in_its_parsed_form() {
    let home = Home::new();
    let server = home.start();
    for (stated, kept) in [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com:443/A?b#c", "https://example.com/A?b#c"),
        ("http://example.com:80", "http://example.com/"),
        ("https://bücher.example/ä?ö", "https://xn--bcher-kva.example/%C3%A4?%C3%B6"),
        ("https://example.com/a/../b/./c", "https://example.com/b/c"),
        (
            "https://example.com/?next=https%3A%2F%2Fevil.example%2F",
            "https://example.com/?next=https%3A%2F%2Fevil.example%2F",
        ),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("https://example.com/\"<>'", "https://example.com/%22%3C%3E'"),
    ] {
        let answer = server.link("links", &json!({ "url": stated }));
        assert_eq!((answer.status, answer.json()["url"].as_str()), (201, Some(kept)), "{answer:?}");
        let key = answer.json()["key"].as_str().unwrap().to_owned();
        assert_eq!(server.leads_to(&format!("/{key}")).as_deref(), Some(kept));
    }
    let longest = format!("https://example.com/{}", "a".repeat(2048 - "https://example.com/".len()));
    assert_eq!(server.linked("links", &longest).len(), 7);
}

/// Stored as text they are harmless, since nobody here fetches a target; but who wants to can refuse them.
#[test]
fn private_targets_are_refused_where_that_is_asked_for() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LIMITS__MISSES", "0").start();
    server.create(json!({ "name": "strict", "scheme": "pool", "deny_private_targets": true }));
    let private = [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "http://0251.0376.0251.0376/",
        "http://[::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00::1]/",
        "http://intranet/",
        "http://metadata.google.internal/",
    ];
    let mut keys = Vec::new();
    for target in private {
        let answer = server.link("strict", &json!({ "url": target }));
        assert_eq!((answer.status, answer.code().as_str()), (422, "invalid_target"), "{target}: {answer:?}");
        assert!(answer.text().contains("deny_private_targets"), "{answer:?}");
        keys.push(server.linked("links", target));
    }
    assert_eq!(server.linked("strict", "https://example.com/").len(), 7);
    // Refused at the redirect as soon as they are refused at all.
    server.tune("links", &json!({ "deny_private_targets": true }));
    for (key, target) in keys.iter().zip(private) {
        assert_eq!(server.leads_to(&format!("/{key}")), None, "{target}");
    }
}

#[test]
fn a_host_of_mixed_scripts_is_pointed_out() {
    let home = Home::new();
    let server = home.start();
    // A Cyrillic а.
    let odd = server.linked("links", "https://p\u{430}ypal.com/");
    let plain = server.linked("links", "https://paypal.com/");
    let preview = server.get(&format!("/{odd}+")).text();
    assert!(preview.contains("https://xn--pypal-4ve.com/") && preview.contains("Look twice"), "{preview}");
    assert!(!server.get(&format!("/{plain}+")).text().contains("Look twice"));
}
