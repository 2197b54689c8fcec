//! The end of a keyspace, and what its keys may not be.
//!
//! Proven here on the real binary: a small space is spelled to its last key, each exactly once, whoever
//! asks and in whatever portions; then it says `exhausted`, or grows. Blocked words are skipped, and
//! keys with prefix and check character are read back.

use std::{collections::HashSet, thread};

use serde_json::json;

mod harness;
use harness::{Connection, Home, Server};

const SIZE: usize = 36 * 36;

/// Eight clients take all there is, each in portions of its own, going on with single keys where a
/// portion is refused. Returns every key that came.
fn take_all(server: &Server, keyspace: &str) -> Vec<String> {
    let path = format!("/v1/keyspaces/{keyspace}/keys");
    let clients: Vec<_> = [1, 2, 3, 5, 8, 13, 40, 97]
        .into_iter()
        .map(|portion| {
            let (address, path) = (server.address, path.clone());
            thread::spawn(move || {
                let mut connection = Connection::open(address).unwrap();
                let (mut keys, mut count) = (Vec::new(), portion);
                // Nobody can take more often than there are keys; one refusal ends the portions, one the rest.
                for _ in 0..SIZE + 2 {
                    let body = format!("{{\"count\":{count}}}");
                    let answer = connection.ask("POST", &path, Some(&body)).unwrap();
                    match answer.status {
                        200 => {
                            let taken = answer.keys();
                            assert_eq!(taken.len(), count, "exactly as many as were asked for");
                            keys.extend(taken);
                        }
                        _ => {
                            assert_eq!(
                                (answer.status, answer.code().as_str()),
                                (410, "exhausted"),
                                "{answer:?}"
                            );
                            if count == 1 {
                                return keys;
                            }
                            count = 1;
                        }
                    }
                }
                panic!("it did not end");
            })
        })
        .collect();
    clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
}

#[test]
fn a_tiny_keyspace_spells_each_of_its_keys_once_and_then_says_exhausted() {
    let home = Home::new();
    let server = home.start();
    // Several, because the last few keys are what clients could quarrel about.
    for round in 0..20 {
        let name = format!("tiny{round}");
        server.create(json!({"name": name, "scheme": "pool", "alphabet": "base36", "length": 2}));
        let keys = take_all(&server, &name);
        let distinct: HashSet<&String> = keys.iter().collect();
        assert_eq!((keys.len(), distinct.len()), (SIZE, SIZE), "in round {round}");
        let well_spelled = |key: &String| {
            key.len() == 2 && key.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
        };
        assert!(keys.iter().all(well_spelled));
        assert_eq!(server.show(&name)["level"], "0");
    }
    server.terminate();
    let server = home.start();
    let refused = server.try_take("tiny0", 1);
    assert_eq!((refused.status, refused.code().as_str()), (410, "exhausted"), "and so it stays: {refused:?}");
    assert!(refused.text().contains("grow"), "it says the next step: {refused:?}");
    let refused = home.run(&["take", "tiny0"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("exhausted"), "{}", refused.stderr);
}

#[test]
fn a_tiny_keyspace_that_is_killed_on_the_way_repeats_nothing_and_ends() {
    let home = Home::new();
    home.start().terminate();
    let mut keys = HashSet::new();
    let mut server = home.start();
    server.create(json!({"name": "tiny", "scheme": "pool", "alphabet": "base36", "length": 2}));
    let mut kills = 0;
    // Each start takes at least one number of what is left, so this ends.
    loop {
        let answer = server.try_take("tiny", 20);
        if answer.status == 410 {
            break;
        }
        for key in answer.keys() {
            assert!(keys.insert(key.clone()), "{key} came again");
        }
        assert!(kills < SIZE);
        kills += 1;
        server.kill();
        server = home.start();
    }
    println!("{} keys and {kills} kills used up {SIZE} numbers", keys.len());
    assert!(keys.len() <= SIZE && kills > 5);
}

#[test]
fn a_keyspace_that_grows_goes_on_with_longer_keys() {
    let home = Home::new();
    let server = home.start();
    server
        .create(json!({"name": "codes", "scheme": "pool", "alphabet": "base36", "length": 2, "grow": true}));
    let mut keys: Vec<String> = Vec::new();
    while keys.len() < SIZE + 5000 {
        keys.extend(server.take("codes", 37));
    }
    let distinct: HashSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
    // Roughly in that order: a node spells ahead, and two cores hand out two chunks side by side.
    assert!(keys[..SIZE / 2].iter().all(|key| key.len() == 2));
    assert_eq!(keys.iter().filter(|key| key.len() == 2).count(), SIZE, "none of the short ones is left out");
    assert_eq!(keys.iter().filter(|key| key.len() == 3).count(), keys.len() - SIZE);
    server.kill();
    let server = home.start();
    for key in server.take("codes", 5000) {
        // Longer still, if the kill burned what was left of this length.
        assert!(key.len() >= 3 && !distinct.contains(&key), "{key} came again");
    }
}

#[test]
fn a_sequence_ends_at_the_largest_number_a_database_can_hold() {
    let home = Home::new();
    let server = home.start();
    let last = i64::MAX as u64;
    server.create(json!({"name": "late", "scheme": "sequence", "offset": (last - 7).to_string()}));
    let refused = server.try_take("late", 9);
    assert_eq!((refused.status, refused.code().as_str()), (410, "exhausted"), "{refused:?}");
    let mut keys = Vec::new();
    for _ in 0..10 {
        match server.try_take("late", 1) {
            answer if answer.status == 200 => keys.extend(answer.keys()),
            refused => {
                assert_eq!((refused.status, refused.code().as_str()), (410, "exhausted"), "{refused:?}");
                break;
            }
        }
    }
    // A request for nine may have burned tickets, since tickets only rise.
    let all: Vec<String> = (last - 7..=last).map(|number| number.to_string()).collect();
    assert!(keys.is_empty() || all.ends_with(&keys), "{keys:?}");

    server.create(json!({"name": "later", "scheme": "sequence", "offset": (last - 7).to_string()}));
    let keys: Vec<String> = (0..8).flat_map(|_| server.take("later", 1)).collect();
    assert_eq!(keys, all);
    assert_eq!(server.try_take("later", 1).code(), "exhausted");

    server.create(
        json!({"name": "steps", "scheme": "sequence", "offset": (last - 12).to_string(), "step": "5"}),
    );
    let keys: Vec<String> = (0..3).flat_map(|_| server.take("steps", 1)).collect();
    assert_eq!(keys, [last - 12, last - 7, last - 2].map(|number| number.to_string()));
    assert_eq!(server.try_take("steps", 1).code(), "exhausted");

    let beyond = json!({"name": "beyond", "scheme": "sequence", "offset": (last + 1).to_string()});
    let refused = server.post("/v1/keyspaces", &beyond.to_string());
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid_field"), "{refused:?}");
}

#[test]
fn blocked_words_are_skipped_and_burned() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({
        "name": "words", "scheme": "pool", "alphabet": "custom:abc", "length": 4, "blocklist": ["abc", "cab"],
    }));
    let mut keys = Vec::new();
    while let answer = server.try_take("words", 1)
        && answer.status == 200
    {
        keys.extend(answer.keys());
        assert!(keys.len() <= 81);
    }
    // Of 81 texts `abc` is in 6 and `cab` in 6; `cabc` is in both.
    let distinct: HashSet<&String> = keys.iter().collect();
    assert_eq!((keys.len(), distinct.len()), (70, 70));
    assert!(keys.iter().all(|key| !key.contains("abc") && !key.contains("cab")), "{keys:?}");
    let blocked = server.get("/v1/keyspaces/words/keys/cabc").json();
    assert_eq!(blocked["state"], "burned", "{blocked}");

    server.create(json!({
        "name": "leet", "scheme": "pool", "alphabet": "base36", "length": 3, "blocklist": ["sex"],
    }));
    let mut spelled = 0;
    while let answer = server.try_take("leet", 64)
        && answer.status == 200
    {
        for key in answer.keys() {
            assert!(!["sex", "s3x", "5ex", "53x"].contains(&key.as_str()), "{key}");
            spelled += 1;
        }
    }
    assert!(spelled > 46_656 - 4 - 64, "all but the blocked and the last few: {spelled}");
}

#[test]
fn keys_with_prefix_and_check_character_are_read_back() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({
        "name": "orders", "scheme": "pool", "alphabet": "crockford32", "length": 6, "prefix": "ORD-", "check": true,
    }));
    server.create(json!({
        "name": "bills", "scheme": "sequence", "length": 8, "prefix": "INV-2026-", "check": true, "offset": 100,
    }));
    for (keyspace, prefix, length) in [("orders", "ORD-", 11), ("bills", "INV-2026-", 18)] {
        for key in server.take(keyspace, 50) {
            assert!(key.starts_with(prefix) && key.len() == length, "{key}");
            let inspected = server.get(&format!("/v1/keyspaces/{keyspace}/keys/{key}"));
            assert_eq!(inspected.status, 200, "{inspected:?}");
            assert_eq!(inspected.json()["state"], "issued", "{inspected:?}");
            // One wrong digit is always noticed: the check character is not that of another key.
            let mut typo = key.into_bytes();
            let last = typo.len() - 2;
            typo[last] = if typo[last] == b'7' { b'8' } else { b'7' };
            let typo = String::from_utf8(typo).unwrap();
            let refused = server.get(&format!("/v1/keyspaces/{keyspace}/keys/{typo}"));
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (404, "key_not_found"),
                "{typo}: {refused:?}"
            );
        }
    }
    let key = &server.take("orders", 1)[0];
    let lower = home.run(&["--json", "inspect", "orders", &format!("ORD-{}", key[4..].to_lowercase())]).ok();
    assert!(lower.contains("\"issued\""), "crockford32 is read in either case: {lower}");
}

#[test]
fn the_root_pool_never_spells_a_route() {
    let home = Home::new();
    let server = home.start();
    for word in ["healthz", "metrics", "openapi"] {
        let inspected = server.get(&format!("/v1/keyspaces/links/keys/{word}"));
        assert_eq!(inspected.json()["state"], "withheld", "{word}: {inspected:?}");
    }
}
