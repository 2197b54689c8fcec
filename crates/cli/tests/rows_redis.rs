//! Pools in Redis on the real binary and real servers: filled, popped by nodes and by other programs, killed and
//! cut off in the middle, and every key there is exactly once.

use std::{
    cell::RefCell,
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use keymill_engines::redis::{DURABLE, FORGETFUL, Redis};
use redis::Commands;
use serde_json::{Value, json};

mod harness;
use harness::{Home, PATIENCE, Server, dice::Dice, sized};

const LOOK_EVERY: Duration = Duration::from_millis(20);

fn client(redis: &Redis) -> redis::Connection {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", redis.port())).unwrap();
    client.get_connection().unwrap()
}

/// A pool in order, so that a key that is missing or there twice shows at once.
fn counting(redis: &Redis, capacity: usize) -> Value {
    json!({
        "name": "codes", "scheme": "pool", "store": "redis", "alphabet": "decimal", "length": 8,
        "order": "sequential", "capacity": capacity, "redis_url": format!("redis://127.0.0.1:{}", redis.port()),
    })
}

#[track_caller]
fn until(what: &str, server: Option<&Server>, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + 3 * PATIENCE;
    while !is_so() {
        let log = server.map(Server::log).unwrap_or_default();
        assert!(Instant::now() < deadline, "{what} did not come: {}", log.lines().last().unwrap_or_default());
        thread::sleep(LOOK_EVERY);
    }
}

fn length(redis: &mut redis::Connection) -> usize {
    redis.llen("codes").unwrap()
}

/// Everything that is in the list, which must be the numbers from `first` on.
#[track_caller]
fn assert_counts_from(redis: &mut redis::Connection, first: usize) {
    let keys: Vec<String> = redis.lrange("codes", 0, -1).unwrap();
    for (position, key) in keys.iter().enumerate() {
        assert_eq!(key.parse::<usize>().unwrap(), first + position, "at {position} of {}", keys.len());
    }
}

#[test]
fn a_pool_is_filled_and_nodes_and_other_programs_pop_every_key_once() {
    let redis = Redis::start(DURABLE).unwrap();
    let home = Home::new();
    let server = home.start();
    let size = 36 * 36;
    server.create(json!({
        "name": "codes", "scheme": "pool", "store": "redis", "alphabet": "base36", "length": 2, "capacity": 200,
        "redis_url": format!("redis://127.0.0.1:{}", redis.port()),
    }));
    let mut connection = client(&redis);
    until("a full pool", Some(&server), || length(&mut connection) == 200);
    assert_eq!(server.show("codes")["level"], "200");

    let port = redis.port();
    let other = thread::spawn(move || {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut keys: Vec<String> = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while keys.len() < size / 3 && Instant::now() < deadline {
            let popped: Option<String> = connection.lpop("codes", None).unwrap();
            keys.extend(popped);
        }
        keys
    });
    let mut keys = Vec::new();
    let refused = loop {
        let answer = server.try_take("codes", 7);
        if answer.status != 200 {
            break answer;
        }
        keys.extend(answer.keys());
    };
    assert_eq!((refused.status, refused.code().as_str()), (410, "exhausted"), "{refused:?}");
    keys.extend(other.join().unwrap());
    loop {
        let answer = server.try_take("codes", 1);
        if answer.status != 200 {
            break;
        }
        keys.extend(answer.keys());
    }
    assert_eq!(keys.len(), size, "every key of the space");
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), size, "none of them twice");
}

#[test]
fn a_set_is_filled_too() {
    let redis = Redis::start(DURABLE).unwrap();
    let home = Home::new();
    let server = home.start();
    server.create(json!({
        "name": "codes", "scheme": "pool", "store": "redis", "redis_type": "set", "redis_key": "{shop}:codes",
        "capacity": 300, "redis_url": format!("redis://127.0.0.1:{}", redis.port()),
    }));
    let mut connection = client(&redis);
    until("a full set", Some(&server), || connection.scard::<_, usize>("{shop}:codes").unwrap() == 300);
    let theirs: HashSet<String> =
        redis::cmd("SPOP").arg("{shop}:codes").arg(100).query(&mut connection).unwrap();
    let ours: HashSet<String> = server.take("codes", 150).into_iter().collect();
    assert_eq!((theirs.len(), ours.len()), (100, 150));
    assert!(theirs.is_disjoint(&ours));
}

#[test]
fn a_filler_that_is_killed_and_stopped_over_and_over_repeats_and_skips_nothing() {
    let capacity = sized(150_000, 1_000_000);
    let redis = Redis::start(DURABLE).unwrap();
    let mut connection = client(&redis);
    let home = Home::new();
    let mut server = home.start();
    server.create(counting(&redis, capacity));
    let mut dice = Dice::thrown();
    let (ends, mut ended_in_the_middle) = (sized(6, 20), 0);
    for end in 0..ends {
        // Somewhere between the beginning and the end, as far as it got.
        let (at, step) = (length(&mut connection), capacity / ends);
        let goal = (at + 1 + usize::try_from(dice.below(step as u64)).unwrap()).min(capacity);
        let deadline = Instant::now() + PATIENCE;
        while length(&mut connection) < goal {
            assert!(Instant::now() < deadline, "it does not fill: {}", server.log());
        }
        if end % 3 == 2 {
            server.terminate()
        } else {
            server.kill()
        }
        ended_in_the_middle += usize::from(length(&mut connection) < capacity);
        server = home.start();
    }
    assert!(ended_in_the_middle > 0, "all were too late");
    until("a full pool", Some(&server), || length(&mut connection) == capacity);
    assert_counts_from(&mut connection, 0);
    assert_eq!(server.show("codes")["rows"]["begun_anew"], 0);
    println!("{ended_in_the_middle} of {ends} ends came in the middle of the fill");
}

/// Asks for more rows while the store is in trouble, ends the trouble once it is seen, and waits for the rows.
#[track_caller]
fn ride_out(server: &Server, rows: usize, begin: impl FnOnce(), end: impl FnOnce()) {
    begin();
    let capacity = json!({ "capacity": rows }).to_string();
    assert_eq!(server.ask("PATCH", "/v1/keyspaces/codes", Some(&capacity)).status, 200);
    until("trouble", Some(server), || server.show("codes")["rows"]["trouble"].is_string());
    end();
    until("rows", Some(server), || server.show("codes")["level"].as_str() == Some(&rows.to_string()));
}

#[test]
fn a_redis_that_is_full_read_only_or_gone_is_waited_for_and_nothing_is_repeated_or_skipped() {
    let step = sized(30_000, 200_000);
    let redis = RefCell::new(Redis::start(DURABLE).unwrap());
    let cli = |command: &[&str]| redis.borrow().cli(command).unwrap();
    let home = Home::new();
    let server = home.start();
    cli(&["config", "set", "maxmemory", "1mb"]);
    server.create(counting(&redis.borrow(), step));
    ride_out(&server, step, || {}, || drop(cli(&["config", "set", "maxmemory", "0"])));
    // Full after a few more rows.
    let memory = cli(&["info", "memory"]);
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim();
    let soon = (used.parse::<u64>().unwrap() + 300_000).to_string();
    let full = || drop(cli(&["config", "set", "maxmemory", &soon]));
    ride_out(&server, 3 * step, full, || drop(cli(&["config", "set", "maxmemory", "0"])));
    // Read-only: cut off from replicas it waits for, and as a replica of nobody.
    let alone = || drop(cli(&["config", "set", "min-replicas-to-write", "1"]));
    ride_out(&server, 4 * step, alone, || drop(cli(&["config", "set", "min-replicas-to-write", "0"])));
    let replica = || drop(cli(&["replicaof", "127.0.0.1", "1"]));
    ride_out(&server, 5 * step, replica, || drop(cli(&["replicaof", "no", "one"])));
    // Stuck, and gone.
    let pause = || redis.borrow().pause().unwrap();
    ride_out(&server, 6 * step, pause, || redis.borrow().resume().unwrap());
    let kill = || redis.borrow_mut().kill().unwrap();
    ride_out(&server, 7 * step, kill, || redis.borrow_mut().restart().unwrap());
    // Gone in the middle, again and again.
    let mut dice = Dice::thrown();
    for round in 8..12 {
        let capacity = json!({ "capacity": round * step }).to_string();
        assert_eq!(server.ask("PATCH", "/v1/keyspaces/codes", Some(&capacity)).status, 200);
        thread::sleep(Duration::from_millis(dice.below(60)));
        redis.borrow_mut().restart().unwrap();
        until("rows", Some(&server), || {
            server.show("codes")["level"].as_str() == Some(&(round * step).to_string())
        });
    }
    assert_counts_from(&mut client(&redis.borrow()), 0);
    assert_eq!(server.show("codes")["rows"]["begun_anew"], 0, "{}", server.log());
}

#[test]
fn a_redis_that_forgets_is_called_lossy_and_no_key_comes_twice() {
    let mut redis = Redis::start(FORGETFUL).unwrap();
    let home = Home::new();
    let server = home.start();
    server.create(counting(&redis, 20_000));
    let mut connection = client(&redis);
    until("a full pool", Some(&server), || length(&mut connection) == 20_000);
    redis.cli(&["save"]).unwrap();
    let mut keys = server.take("codes", 1000);
    let popped: Vec<String> = redis::cmd("LPOP").arg("codes").arg(5000).query(&mut connection).unwrap();
    keys.extend(popped);
    // The snapshot still has what was popped since.
    redis.restart().unwrap();
    server.logged("are lossy");
    let mut connection = client(&redis);
    until("a pool that was begun anew", Some(&server), || server.show("codes")["level"] == "20000");
    assert_eq!(server.show("codes")["rows"]["begun_anew"], 1);
    keys.extend(server.take("codes", 1000));
    let popped: Vec<String> = redis::cmd("LPOP").arg("codes").arg(10_000).query(&mut connection).unwrap();
    keys.extend(popped);
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 17_000, "a key came twice");

    // Flushed: there is nothing left to go by.
    redis.cli(&["flushall"]).unwrap();
    until("a pool that was begun anew", Some(&server), || server.show("codes")["rows"]["begun_anew"] == 2);
    keys.extend(server.take("codes", 1000));
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 18_000, "a key came twice");
}

#[test]
fn a_pool_that_moves_to_another_redis_and_back_hands_out_no_key_twice() {
    let (first, second) = (Redis::start(DURABLE).unwrap(), Redis::start(DURABLE).unwrap());
    let home = Home::new();
    let server = home.start();
    server.create(counting(&first, 1000));
    let mut seen = HashSet::new();
    for (round, redis) in [&first, &second, &first, &second].into_iter().enumerate() {
        let url = json!({"redis_url": format!("redis://127.0.0.1:{}", redis.port())}).to_string();
        assert_eq!(server.ask("PATCH", "/v1/keyspaces/codes", Some(&url)).status, 200);
        let mut connection = client(redis);
        // Back again, its old rows are there until the filler has looked.
        until("an era of its own", Some(&server), || {
            let era: Option<String> = connection.hget("{codes}:keymill", "era").unwrap();
            era == Some(format!("0.{}", round + 1)) && length(&mut connection) == 1000
        });
        let theirs: Vec<String> = redis::cmd("LPOP").arg("codes").arg(300).query(&mut connection).unwrap();
        for key in server.take("codes", 200).into_iter().chain(theirs) {
            assert!(seen.insert(key.clone()), "{key} came twice, in round {round}");
        }
    }
}

#[test]
fn without_a_place_or_with_a_wrong_one_the_refusal_names_the_setting() {
    let redis = Redis::start(DURABLE).unwrap();
    let home = Home::new();
    let server = home.start();
    let mut keyspace = counting(&redis, 10);
    keyspace.as_object_mut().unwrap().remove("redis_url");
    server.create(keyspace);
    let refused = server.try_take("codes", 1);
    assert_eq!((refused.status, refused.code().as_str()), (503, "out_of_stock"));
    assert!(refused.text().contains("redis_url"), "{refused:?}");

    // A list that is somebody's is left alone.
    redis.cli(&["rpush", "codes", "mine"]).unwrap();
    let url = json!({"redis_url": format!("redis://127.0.0.1:{}", redis.port())}).to_string();
    assert_eq!(server.ask("PATCH", "/v1/keyspaces/codes", Some(&url)).status, 200);
    server.logged("not this pool's");
    assert_eq!(redis.cli(&["lrange", "codes", "0", "-1"]).unwrap().trim(), "mine");
    redis.cli(&["del", "codes"]).unwrap();
    let mut connection = client(&redis);
    until("a full pool", Some(&server), || length(&mut connection) == 10);

    // Another ledger that names the same key is told whose it is.
    let other = Home::new();
    let second = other.start();
    second.create(counting(&redis, 10));
    second.logged("belongs to keyspace `codes` of ledger");
    assert_eq!(length(&mut connection), 10);
}

#[test]
fn an_empty_pool_waits_refuses_or_draws_as_it_is_tuned() {
    let redis = Redis::start(DURABLE).unwrap();
    let home = Home::new();
    let server = home.start();
    let mut keyspace = counting(&redis, 100);
    keyspace["on_empty"] = "refuse".into();
    server.create(keyspace);
    let mut connection = client(&redis);
    until("a full pool", Some(&server), || length(&mut connection) == 100);
    let mut keys = server.take("codes", 10);

    // Full memory keeps the filler out, and the rows are gone.
    redis.cli(&["config", "set", "maxmemory", "1mb"]).unwrap();
    let popped: Vec<String> = redis::cmd("LPOP").arg("codes").arg(100).query(&mut connection).unwrap();
    keys.extend(popped);
    let refused = server.try_take("codes", 100);
    assert_eq!((refused.status, refused.code().as_str()), (503, "out_of_stock"), "{refused:?}");

    let tune = |value: Value| {
        assert_eq!(server.ask("PATCH", "/v1/keyspaces/codes", Some(&value.to_string())).status, 200);
    };
    tune(json!({"on_empty": "random"}));
    let drawn = server.take("codes", 500);
    let random = &server.show("codes")["random"];
    assert!(random["draws"].as_u64().unwrap() >= 500 - 100, "{random}");
    assert!(random["predicted_attempts"].as_f64().unwrap() < 1.01, "{random}");
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("keymill_random_draws_total{keyspace=\"codes\"}"), "{metrics}");
    keys.extend(drawn);

    tune(json!({"on_empty": "wait"}));
    let waiting = {
        let address = server.address;
        thread::spawn(move || {
            let body = "{\"count\":150}";
            harness::Connection::open(address)
                .unwrap()
                .ask("POST", "/v1/keyspaces/codes/keys", Some(body))
                .unwrap()
        })
    };
    thread::sleep(Duration::from_millis(300));
    redis.cli(&["config", "set", "maxmemory", "0"]).unwrap();
    let answer = waiting.join().unwrap();
    assert_eq!(answer.status, 200, "{answer:?}\n{}", server.log());
    keys.extend(answer.keys());

    // The filler goes around what was drawn.
    until("a full pool", Some(&server), || length(&mut connection) == 100);
    let rest: Vec<String> = connection.lrange("codes", 0, -1).unwrap();
    keys.extend(rest);
    let distinct: HashSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "a key came twice");
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "shares of a small space")]
fn a_draw_takes_about_as_many_attempts_as_the_fill_of_the_space_predicts() {
    const SPACE: f64 = 62.0 * 62.0 * 62.0;
    let redis = Redis::start(DURABLE).unwrap();
    let mut connection = client(&redis);
    let home = Home::new();
    // Fifty keys out of a space that is nearly full are a thousand draws, each of them a commit.
    let server = home.server().environment("KEYMILL_LIMITS__TAKE_TIMEOUT", "1m").start();
    server.create(json!({
        "name": "codes", "scheme": "pool", "store": "redis", "length": 3, "capacity": 1, "on_empty": "random", "stock_min": 1, "stock_max": 1,
        "redis_url": format!("redis://127.0.0.1:{}", redis.port()),
    }));
    let mut drawn_before = (0.0, 0.0);
    for (fill, attempts, keys) in [(0.000_18, 1.0, 100_u32), (0.71, 3.4, 200), (0.946, 18.5, 200)] {
        // The filler makes that share of the space, someone takes it all, and the filler can add no more.
        let made = server.cursor("codes") as f64;
        let rows = (fill * SPACE - made).max(1.0).round();
        redis.cli(&["del", "codes"]).unwrap();
        home.run(&["--server", &server.url(), "fill", "codes", "--count", &format!("{rows:.0}")]).ok();
        redis.cli(&["config", "set", "maxmemory", "1mb"]).unwrap();
        redis.cli(&["del", "codes"]).unwrap();
        for _ in 0..keys / 50 {
            server.take("codes", 50);
        }
        let random = server.show("codes")["random"].clone();
        let count = |name: &str| random[name].as_f64().unwrap();
        let drawn = (count("draws"), count("draws") - count("collisions"));
        let observed = (drawn.0 - drawn_before.0) / (drawn.1 - drawn_before.1);
        drawn_before = drawn;
        println!("{fill}: {observed:.2} attempts a key, {:.2} predicted", count("predicted_attempts"));
        // Attempts are geometric; six standard deviations of their mean, and what the draws themselves take.
        let slack = 6.0 * attempts / f64::from(keys).sqrt() + 0.15 * attempts;
        assert!((observed - attempts).abs() < slack, "{observed} at {fill}: {random}");
        assert!((count("predicted_attempts") - attempts).abs() < 0.2 * attempts, "{random} at {fill}");
        redis.cli(&["config", "set", "maxmemory", "0"]).unwrap();
    }
    assert_eq!(connection.hget::<_, _, String>("{codes}:keymill", "era").unwrap(), "0.1");
}

#[test]
fn rows_that_are_no_keys_are_handed_to_nobody() {
    let redis = Redis::start(DURABLE).unwrap();
    let home = Home::new();
    let server = home.start();
    server.create(counting(&redis, 100));
    let mut connection = client(&redis);
    until("a full pool", Some(&server), || length(&mut connection) == 100);
    let odd: [&[u8]; 5] = [b"", b"a\",\"b", b"a\nb\x1b", b"\xff\xfe", "ключ".as_bytes()];
    for row in odd {
        let _: () = connection.lpush("codes", row).unwrap();
    }
    let taken: HashSet<String> = (0..10).flat_map(|_| server.take("codes", 5)).collect();
    assert_eq!(taken.len(), 50);
    assert!(
        taken.iter().all(|key| key.len() == 8 && key.bytes().all(|byte| byte.is_ascii_digit())),
        "{taken:?}"
    );
    server.logged("are no keys and were dropped");
    assert_eq!(server.get("/v1/keyspaces").status, 200);
    server.terminate();
}
