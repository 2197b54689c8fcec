//! `keymill fill` and `keymill import keys`, ended in the middle and begun again.

use std::{collections::HashSet, fs, thread, time::Duration};

use keymill_engines::redis::{DURABLE, Redis};
use redis::Commands;
use serde_json::{Value, json};

mod harness;
use harness::{Finished, Guarded, Home, PATIENCE, Server, dice::Dice, keymill, sized};

fn url(redis: &Redis) -> String {
    format!("redis://127.0.0.1:{}", redis.port())
}

fn client(redis: &Redis) -> redis::Connection {
    redis::Client::open(url(redis)).unwrap().get_connection().unwrap()
}

/// Starts a command and kills it after a while, unless it has ended.
fn run_and_kill(home: &Home, arguments: &[&str], after: Duration) -> bool {
    let mut command = keymill(home.path());
    command.args(arguments).stderr(std::process::Stdio::null());
    let mut child = Guarded(command.spawn().unwrap());
    child.wait(after).is_none()
}

#[test]
fn a_file_that_is_killed_over_and_over_holds_every_ticket_once_and_in_order() {
    let count = sized(300_000, 1_000_000);
    let home = Home::new();
    let server = home.start();
    let path = home.path().join("tickets.txt");
    let (out, number) = (path.to_str().unwrap(), count.to_string());
    let arguments = ["--server", &server.url(), "fill", "tickets", "--count", &number, "--out", out];
    let (mut dice, mut killed) = (Dice::thrown(), 0);
    while killed < sized(8, 20) && !path.exists() {
        killed += usize::from(run_and_kill(&home, &arguments, Duration::from_millis(20 + dice.below(60))));
    }
    // It bears its name only once it is whole: what the name shows now is compared below.
    if !path.exists() {
        home.run(&arguments).ok();
    }
    println!("killed {killed} times");
    let text = fs::read_to_string(&path).unwrap();
    let tickets: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(tickets.len(), count);
    // One caller takes them: not one is repeated or left out.
    assert!(tickets.iter().enumerate().all(|(position, ticket)| *ticket == position + 1), "{killed} kills");
    let again = home.run(&arguments);
    assert_eq!(again.code, Some(1), "what is there is not written over: {again:?}");
}

#[test]
fn a_csv_file_has_a_header_and_what_was_begun_is_not_mixed_with_another_order() {
    let home = Home::new();
    let server = home.start();
    let run = |arguments: &[&str]| -> Finished {
        let url = server.url();
        let mut all = vec!["--server", &url, "fill", "links"];
        all.extend(arguments);
        home.run(&all)
    };
    let said = run(&["--count", "1500", "--out", "keys.csv", "--format", "csv", "--json"]).ok();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["count"], &said["resumed_at"]), (&json!(1500), &json!(0)));
    let text = fs::read_to_string(home.path().join("keys.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("key"));
    assert_eq!(lines.collect::<HashSet<_>>().len(), 1500);

    // As a run leaves it that was killed right after its first words.
    let order = json!({"keyspace": "links", "count": 7, "csv": false, "run": "0123456789abcdef"});
    home.write("keys.txt.order", &order.to_string());
    home.write("keys.txt.part", "half a ke");
    let other = run(&["--count", "8", "--out", "keys.txt"]);
    assert_eq!(other.code, Some(1));
    assert!(other.stderr.contains("was begun as 7 keys of `links`"), "{}", other.stderr);
    run(&["--count", "7", "--out", "keys.txt"]).ok();
    let text = fs::read_to_string(home.path().join("keys.txt")).unwrap();
    assert!(text.lines().count() == 7 && !text.contains("half"), "{text}");
    assert!(!home.path().join("keys.txt.order").exists() && !home.path().join("keys.txt.part").exists());
}

#[test]
fn a_pool_is_filled_now_and_above_its_capacity_if_asked() {
    let redis = Redis::start(DURABLE).unwrap();
    let home = Home::new();
    let server = home.start();
    server.create(json!({
        "name": "codes", "scheme": "pool", "store": "redis", "capacity": 1000, "redis_url": url(&redis),
    }));
    let at = server.url();
    let said = home.run(&["--server", &at, "fill", "codes", "--json"]).ok();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["level"], &said["done"]), (&json!("1000"), &json!(true)));
    let mut connection = client(&redis);
    let _: Vec<String> = redis::cmd("LPOP").arg("codes").arg(3).query(&mut connection).unwrap();
    home.run(&["--server", &at, "fill", "codes"]).ok();
    assert_eq!(connection.llen::<_, u64>("codes").unwrap(), 1000, "three are enough to be asked for");
    home.run(&["--server", &at, "fill", "codes", "--count", "25K"]).ok();
    assert_eq!(connection.llen::<_, u64>("codes").unwrap(), 25_000);
    home.run(&["--server", &at, "fill", "codes", "--count", "25K"]).ok();
    assert_eq!(connection.llen::<_, u64>("codes").unwrap(), 25_000, "again is no change");
    let keys: HashSet<String> = connection.lrange("codes", 0, -1).unwrap();
    assert_eq!(keys.len(), 25_000);

    let virtual_pool = home.run(&["--server", &at, "fill", "links"]);
    assert_eq!(virtual_pool.code, Some(1));
    assert!(virtual_pool.stderr.contains("wrong_scheme"), "{}", virtual_pool.stderr);
    let nothing = server.post("/v1/keyspaces/codes/fill", "{\"count\":0}");
    assert_eq!((nothing.status, nothing.code().as_str()), (422, "count_out_of_range"));
}

/// A voucher pool whose own keys are the numbers below 100.
fn voucher_pool(server: &Server, redis: &Redis) {
    server.create(json!({
        "name": "vouchers", "scheme": "pool", "store": "redis", "alphabet": "decimal", "length": 2,
        "order": "sequential", "capacity": 10, "redis_url": url(redis),
    }));
    let mut connection = client(redis);
    for _ in 0..200 {
        if connection.llen::<_, u64>("vouchers").unwrap() == 10 {
            return;
        }
        thread::sleep(PATIENCE / 200);
    }
    panic!("the pool was not filled: {}", server.log());
}

#[test]
fn of_a_voucher_list_the_bad_lines_are_told_by_number_and_the_rest_is_imported_once() {
    let redis = Redis::start(DURABLE).unwrap();
    let home = Home::new();
    let server = home.start();
    voucher_pool(&server, &redis);
    let long = "x".repeat(10 << 20);
    let lines = [
        "SUMMER-1",
        "SUMMER-2",
        "",
        "SUMMER-1",
        "bad key",
        "caf\u{e9}",
        "07",
        "42",
        long.as_str(),
        "SUMMER_3",
        "way-too-long-for-a-voucher-because-it-has-more-than-sixty-four-letters",
    ];
    home.write("vouchers.txt", &lines.join("\n"));
    let at = server.url();
    let arguments = [
        "--server",
        &at,
        "--json",
        "import",
        "keys",
        "--keyspace",
        "vouchers",
        "--rejects",
        "rejects.csv",
        "vouchers.txt",
    ];
    let summary: Value = serde_json::from_str(&home.run(&arguments).ok()).unwrap();
    assert_eq!(
        summary,
        json!({"keyspace": "vouchers", "lines": 11, "imported": 4, "known": 0, "rejected": 7})
    );
    let rejects = fs::read_to_string(home.path().join("rejects.csv")).unwrap();
    let rejected: Vec<&str> = rejects.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(
        rejected.iter().collect::<HashSet<_>>(),
        ["3", "4", "5", "6", "7", "9", "11"].iter().collect()
    );
    assert!(rejects.contains("4,SUMMER-1,line 1 has it already"), "{rejects}");
    assert!(rejects.contains("7,07,the pool has made it already"), "{rejects}");

    // Again: no change.
    let mut connection = client(&redis);
    let before: Vec<String> = connection.lrange("vouchers", 0, -1).unwrap();
    assert_eq!(before.len(), 14);
    let again: Value = serde_json::from_str(&home.run(&arguments).ok()).unwrap();
    assert_eq!((&again["imported"], &again["known"]), (&json!(0), &json!(4)));
    let after: Vec<String> = connection.lrange("vouchers", 0, -1).unwrap();
    assert_eq!(before, after);

    // Taken, and imported again: still used. The filler goes around 42.
    let mut keys: Vec<String> = redis::cmd("LPOP").arg("vouchers").arg(14).query(&mut connection).unwrap();
    let used: Value = serde_json::from_str(&home.run(&arguments).ok()).unwrap();
    assert_eq!(used["imported"], 0);
    loop {
        let answer = server.try_take("vouchers", 1);
        if answer.status != 200 {
            assert_eq!(answer.code(), "exhausted", "{answer:?}");
            break;
        }
        keys.extend(answer.keys());
    }
    assert_eq!(keys.len(), 100 + 3, "every number of two digits, and three vouchers that are none");
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len(), "{keys:?}");
}

#[test]
fn an_import_that_was_cut_off_after_it_withheld_is_completed() {
    let redis = Redis::start(DURABLE).unwrap();
    let home = Home::new();
    let server = home.start();
    voucher_pool(&server, &redis);
    let import =
        |keys: Value| server.post("/v1/keyspaces/vouchers/import", &json!({ "keys": keys }).to_string());
    // Redis takes nothing any more: the ledger has withheld 77, and the pool does not have it.
    redis.cli(&["config", "set", "maxmemory", "1mb"]).unwrap();
    let refused = import(json!(["77"]));
    assert_eq!((refused.status, refused.code().as_str()), (503, "out_of_stock"), "{refused:?}");
    redis.cli(&["config", "set", "maxmemory", "0"]).unwrap();
    let outcomes = import(json!(["77", "77"])).json();
    assert_eq!(outcomes["outcomes"][0]["outcome"], "added", "{outcomes}");
    assert_eq!(outcomes["outcomes"][1]["outcome"], "known", "{outcomes}");
    let too_many: Vec<String> = (0..10_001).map(|key| format!("V{key}")).collect();
    assert_eq!(import(json!(too_many)).status, 422);
}
