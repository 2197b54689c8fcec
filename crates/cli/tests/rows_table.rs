//! Pools in tables on the real binary and real engines: nodes and other programs take from them at once, processes are
//! killed in the middle, and every key leaves exactly once.

use std::{
    collections::HashSet,
    io::Write,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use keymill_engines::{
    mariadb::MariaDb,
    postgres::{Postgres, program},
};
use serde_json::{Value, json};

mod harness;
use harness::{Connection, Home, PATIENCE, Server, dice::Dice, sized};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The `sql` blocks under a heading of the documentation.
fn documented(engine: &str) -> Vec<String> {
    let text = include_str!("../../../docs/rows.md");
    let (_, section) = text.split_once(&format!("### {engine}")).expect("the engine has a section");
    let section = section.split("\n##").next().unwrap_or_default();
    let blocks = section.split("```sql\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

fn node(home: &Home, postgres: &Postgres, name: &str) -> Server {
    home.server().arguments(&["--ledger", &postgres.url(), "--node", name]).start()
}

/// A pool in order, so that a key that is missing or there twice shows at once.
fn counting(capacity: usize) -> Value {
    json!({
        "name": "codes", "scheme": "pool", "store": "table", "alphabet": "decimal", "length": 8,
        "order": "sequential", "capacity": capacity,
    })
}

fn number(postgres: &Postgres, sql: &str) -> usize {
    postgres.sql(sql).unwrap().trim().parse().unwrap()
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[track_caller]
fn until(what: &str, server: &Server, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + 3 * PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not come: {}", server.log());
        thread::sleep(LOOK_EVERY);
    }
}

/// Another program: one session that says `script`. It may find nothing to reserve; all else must go well.
fn psql(postgres: &Postgres, script: String) -> thread::JoinHandle<Vec<String>> {
    let mut command = Command::new(program("psql").unwrap());
    command.args(["-X", "-A", "-t", "-q"]).arg(postgres.url());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    thread::spawn(move || {
        let mut input = child.stdin.take().unwrap();
        let writing = thread::spawn(move || input.write_all(script.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap();
        let complaints = String::from_utf8(output.stderr).unwrap();
        assert!(complaints.lines().all(|line| line.contains("no rows returned for \\gset")), "{complaints}");
        lines(&String::from_utf8(output.stdout).unwrap())
    })
}

/// Takes a few keys at a time until there are none left for ever.
fn drain(server: &Server, client: usize) -> thread::JoinHandle<Vec<String>> {
    let address = server.address;
    thread::spawn(move || {
        let mut connection = Connection::open(address).unwrap();
        let mut keys = Vec::new();
        for round in 0_usize.. {
            let body = format!("{{\"count\":{}}}", 1 + (client * 13 + round * 7) % 40);
            let answer = connection.ask("POST", "/v1/keyspaces/codes/keys", Some(&body)).unwrap();
            match answer.status {
                200 => keys.extend(answer.keys()),
                410 => break,
                503 => thread::sleep(LOOK_EVERY),
                _ => panic!("{answer:?}"),
            }
        }
        keys
    })
}

#[test]
fn clients_nodes_and_other_programs_drain_one_pool_and_every_key_leaves_once() {
    let postgres = Postgres::start().unwrap();
    let (here, there) = (Home::new(), Home::new());
    let nodes = [node(&here, &postgres, "a"), node(&there, &postgres, "b")];
    let (alphabet, size) = if sized(0, 1) == 1 { ("base62", 62 * 62 * 62) } else { ("base36", 36 * 36 * 36) };
    nodes[0].create(json!({
        "name": "codes", "scheme": "pool", "store": "table", "alphabet": alphabet, "length": 3, "capacity": size,
    }));
    until("a full pool", &nodes[0], || {
        postgres
            .sql("SELECT count(*) FROM available_keys")
            .is_ok_and(|count| count.trim() == size.to_string())
    });
    // Others take a tenth each way.
    let blocks = documented("PostgreSQL");
    let taking = blocks[0].replace("LIMIT 1 ", "LIMIT 25 ").repeat(size / 250);
    let reserving = format!(
        "{} \\gset\n{}",
        blocks[1].trim().trim_end_matches(';'),
        blocks[2].replace("$1", ":'key'").replace("$2", ":'reserved_at'")
    );
    let others = [psql(&postgres, taking), psql(&postgres, reserving.repeat(size / 40))];
    let clients: Vec<_> = (0..8).map(|client| drain(&nodes[client % 2], client)).collect();
    let mut keys = Vec::new();
    for other in others {
        let taken = other.join().unwrap();
        assert!(!taken.is_empty());
        keys.extend(taken);
    }
    for client in clients {
        keys.extend(client.join().unwrap());
    }
    // What a client asked for and could not get whole is still there.
    for node in &nodes {
        while let Some(key) = take_one(node) {
            keys.extend(key);
        }
    }
    let different: HashSet<&String> = keys.iter().collect();
    assert_eq!((keys.len(), different.len()), (size, size), "every key of the space, and none twice");
    assert_eq!(number(&postgres, "SELECT count(*) FROM available_keys"), 0);
    let used = lines(&postgres.sql("SELECT key FROM used_keys").unwrap());
    assert_eq!(used.iter().collect::<HashSet<_>>(), different, "the log is complete");
    let by = lines(&postgres.sql("SELECT used_by, count(*) FROM used_keys GROUP BY 1 ORDER BY 1").unwrap());
    println!("who took how many of {size}: {by:?}");
    assert_eq!(by.len(), 3, "{by:?}");
}

/// One key, if there is one left.
fn take_one(node: &Server) -> Option<Vec<String>> {
    let answer = node.try_take("codes", 1);
    match answer.status {
        200 => Some(answer.keys()),
        410 => None,
        _ => panic!("{answer:?}"),
    }
}

#[test]
fn a_node_that_is_killed_while_it_moves_repeats_nothing() {
    let postgres = Postgres::start().unwrap();
    let (here, there) = (Home::new(), Home::new());
    let mut nodes = [node(&here, &postgres, "a"), node(&there, &postgres, "b")];
    nodes[0].create(counting(20_000));
    let mut seen = HashSet::new();
    let mut dice = Dice::thrown();
    for round in 0..sized(5, 25) {
        let end = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..4).map(|client| take_until(&nodes[client % 2], &end)).collect();
        thread::sleep(Duration::from_millis(50 + dice.below(250)));
        let [a, b] = nodes;
        let (killed, other, home, name) =
            if round % 2 == 0 { (a, b, &here, "a") } else { (b, a, &there, "b") };
        killed.kill();
        end.store(true, Ordering::Relaxed);
        for client in clients {
            for key in client.join().unwrap() {
                assert!(seen.insert(key.clone()), "{key} came twice, in round {round}");
            }
        }
        let again = node(home, &postgres, name);
        nodes = if round % 2 == 0 { [again, other] } else { [other, again] };
    }
    assert!(!seen.is_empty());
    for node in nodes {
        node.terminate();
    }
    let used: HashSet<String> =
        lines(&postgres.sql("SELECT key FROM used_keys").unwrap()).into_iter().collect();
    assert!(seen.is_subset(&used), "the log has what left");
    println!("{} keys left, {} of {} are burned", seen.len(), used.len() - seen.len(), used.len());
    let both = "SELECT count(*) FROM available_keys JOIN used_keys USING (key)";
    assert_eq!(number(&postgres, both), 0, "a key is in one table");
    assert_counts(&postgres, "(SELECT key FROM available_keys UNION ALL SELECT key FROM used_keys) AS keys");
}

/// Takes until the node has moved rows ahead, then ends it and takes all that is left.
#[track_caller]
fn end_with_rows_in_hand(
    start: impl Fn() -> Server,
    end: fn(Server),
    count: impl Fn(&str) -> usize,
) -> usize {
    let server = start();
    let mut small = counting(1000);
    small["length"] = 3.into();
    server.create(small);
    until("a full pool", &server, || server.show("codes")["level"] == "1000");
    let mut keys = Vec::new();
    until("rows ahead of demand", &server, || {
        keys.extend(server.take("codes", 1));
        count("used_keys") > keys.len() + 10
    });
    end(server);
    let (used, available) = (count("used_keys"), count("available_keys"));
    assert_eq!(used + available, 1000, "a key is in one table");
    let burned = used - keys.len();
    let server = start();
    while let Some(key) = take_one(&server) {
        keys.extend(key);
    }
    let different = keys.iter().collect::<HashSet<_>>().len();
    assert_eq!((keys.len(), different), (1000 - burned, 1000 - burned), "what was not burned leaves, once");
    assert_eq!(server.show("codes")["rows"]["begun_anew"], 0);
    burned
}

#[test]
fn a_node_that_stops_gives_back_what_it_did_not_hand_out_and_one_that_is_killed_does_not() {
    for (end, gives_back) in [(Server::terminate as fn(Server), true), (Server::kill, false)] {
        let postgres = Postgres::start().unwrap();
        let home = Home::new();
        let rows = |table: &str| number(&postgres, &format!("SELECT count(*) FROM {table}"));
        let burned = end_with_rows_in_hand(|| node(&home, &postgres, "a"), end, rows);
        assert_eq!(burned == 0, gives_back, "{burned} keys of PostgreSQL are burned");

        let home = Home::new();
        let rows = |table: &str| {
            let file = rusqlite::Connection::open(home.file("keymill.db")).unwrap();
            let count = format!("SELECT count(*) FROM {table}");
            file.query_row(&count, [], |row| row.get::<_, u32>(0)).unwrap() as usize
        };
        let burned = end_with_rows_in_hand(|| home.start(), end, rows);
        assert_eq!(burned == 0, gives_back, "{burned} keys of SQLite are burned");
    }
}

#[test]
fn a_node_that_stops_under_load_repeats_nothing() {
    let postgres = Postgres::start().unwrap();
    let home = Home::new();
    let mut server = node(&home, &postgres, "a");
    let (mut small, size) = (counting(100_000), 100_000);
    small["length"] = 5.into();
    server.create(small);
    let (mut keys, mut dice) = (Vec::new(), Dice::thrown());
    until("a full pool", &server, || server.show("codes")["level"] == "100000");
    for _ in 0..sized(4, 20) {
        let end = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..4).map(|_| take_until(&server, &end)).collect();
        thread::sleep(Duration::from_millis(50 + dice.below(100)));
        server.terminate();
        end.store(true, Ordering::Relaxed);
        keys.extend(clients.into_iter().flat_map(|client| client.join().unwrap()));
        server = node(&home, &postgres, "a");
    }
    let (taken, used) = (keys.len(), number(&postgres, "SELECT count(*) FROM used_keys"));
    println!("{taken} keys left before the last stop, {} are burned", used - taken);
    assert!(taken > 0 && taken < size, "{taken} keys left before the last stop");
    while let Some(key) = take_one(&server) {
        keys.extend(key);
        let many = server.try_take("codes", 1000);
        if many.status == 200 {
            keys.extend(many.keys());
        }
    }
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len(), "a key left twice");
    assert_eq!(keys.len() + used - taken, size, "what was not burned leaves");
    assert_counts(&postgres, "used_keys");
}

/// Takes until it is told to stop or the server is gone.
fn take_until(server: &Server, end: &Arc<AtomicBool>) -> thread::JoinHandle<Vec<String>> {
    let (address, end) = (server.address, end.clone());
    thread::spawn(move || {
        let mut keys = Vec::new();
        let Ok(mut connection) = Connection::open(address) else { return keys };
        while !end.load(Ordering::Relaxed) {
            let Ok(answer) = connection.ask("POST", "/v1/keyspaces/codes/keys", Some("{\"count\":50}"))
            else {
                break;
            };
            if answer.status == 200 {
                keys.extend(answer.keys());
            }
        }
        keys
    })
}

/// The keys are the numbers from 0 on, each once.
#[track_caller]
fn assert_counts(postgres: &Postgres, from: &str) {
    let sql =
        format!("SELECT count(*), count(DISTINCT key), min(key)::bigint, max(key)::bigint + 1 FROM {from}");
    let found = postgres.sql(&sql).unwrap();
    let found: Vec<&str> = found.trim().split('|').collect();
    assert_eq!(found, [found[0], found[0], "0", found[0]]);
}

#[test]
fn a_filler_that_is_killed_over_and_over_repeats_and_skips_nothing() {
    let (ends, step) = (sized(8, 20), sized(20_000, 50_000));
    let postgres = Postgres::start().unwrap();
    let home = Home::new();
    let mut server = node(&home, &postgres, "a");
    server.create(counting(step));
    let rows = || {
        let rows = postgres.sql("SELECT count(*) FROM available_keys");
        rows.map_or(0, |rows| rows.trim().parse::<usize>().unwrap())
    };
    let (mut in_the_middle, mut dice) = (0, Dice::thrown());
    for end in 1..=ends {
        let capacity = json!({ "capacity": end * step }).to_string();
        assert_eq!(server.ask("PATCH", "/v1/keyspaces/codes", Some(&capacity)).status, 200);
        thread::sleep(Duration::from_millis(dice.below(120)));
        if end % 3 == 0 {
            server.terminate()
        } else {
            server.kill()
        }
        in_the_middle += usize::from(rows() < end * step);
        server = node(&home, &postgres, "a");
    }
    println!("{in_the_middle} of {ends} ends came in the middle of the fill");
    assert!(in_the_middle > 0, "all were too late");
    until("a full pool", &server, || rows() >= ends * step);
    assert_eq!(rows(), ends * step);
    assert_counts(&postgres, "available_keys");
    assert_eq!(server.show("codes")["rows"]["begun_anew"], 0);
}

#[test]
fn an_embedded_pool_is_created_filled_and_taken_from_beside_another_program() {
    let home = Home::new();
    let server = home.start();
    let at = server.url();
    let create = ["--server", &at, "keyspace", "create", "vouchers", "--scheme", "pool", "--store", "table"];
    let more = ["--length", "6", "--capacity", "2000", "--table-prefix", "shop_"];
    home.run(&[create.as_slice(), more.as_slice()].concat()).ok();
    home.run(&["--server", &at, "fill", "vouchers"]).ok();
    assert_eq!(server.show("vouchers")["level"], "2000");
    home.write("vouchers.txt", "SPRING-1\nSPRING-2\nSPRING-1\n");
    let _ = home.run(&["--server", &at, "import", "keys", "vouchers.txt", "--keyspace", "vouchers"]);

    let file = rusqlite::Connection::open(home.file("keymill.db")).unwrap();
    file.execute_batch("PRAGMA busy_timeout = 5000").unwrap();
    assert_eq!(server.show("vouchers")["level"], "2002", "two of the three are new");
    let statements: Vec<String> = documented("SQLite")[0]
        .replace("available_keys", "shop_available_keys")
        .replace("used_keys", "shop_used_keys")
        .lines()
        .map(str::to_owned)
        .collect();
    let mut theirs = Vec::new();
    let mut ours = Vec::new();
    for _ in 0..50 {
        file.execute_batch(&statements[0]).unwrap();
        let key: String = file.query_row(&statements[1], [], |row| row.get(0)).unwrap();
        file.execute(&statements[2], rusqlite::named_params! {":key": key}).unwrap();
        file.execute_batch(&statements[3]).unwrap();
        theirs.push(key);
        ours.extend(server.take("vouchers", 3));
    }
    let all: HashSet<&String> = theirs.iter().chain(&ours).collect();
    assert_eq!(all.len(), 200, "a key left twice");
    let by = |who: &str| -> u32 {
        let sql = format!("SELECT count(*) FROM shop_used_keys WHERE used_by {who}");
        file.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(by("= 'shop'"), 50);
    assert!(by("<> 'shop'") >= 150, "what a node moved ahead is in the log too");
}

#[test]
fn what_is_documented_for_mariadb_takes_and_reserves() {
    let mariadb = MariaDb::start().unwrap();
    let home = Home::new();
    let server = home.server().arguments(&["--ledger", &mariadb.url()]).start();
    server.create(counting(1000));
    until("a full pool", &server, || server.show("codes")["level"] == "1000");
    let blocks = documented("MariaDB");
    let session = |script: &str| mariadb.sql(&format!("USE keymill; {script}")).unwrap();
    let mut keys = lines(&session(&blocks[0].repeat(3)));
    assert_eq!(keys.len(), 3);
    let reserved = session(&blocks[1]);
    let (reserved, since) = reserved.trim().split_once('\t').unwrap();
    keys.extend(server.take("codes", 200));
    assert!(!keys.contains(&reserved.to_owned()));
    let uses = |since: &str| format!("SET @key = '{reserved}', @reserved_at = '{since}'; {}", blocks[2]);
    session(&uses("2020-01-01 00:00:00"));
    assert_eq!(
        session("SELECT count(*) FROM used_keys WHERE used_by = 'shop'").trim(),
        "3",
        "another's reservation"
    );
    session(&uses(since));
    keys.push(reserved.to_owned());
    assert_eq!(session("SELECT count(*) FROM used_keys WHERE used_by = 'shop'").trim(), "4");
    session(&uses(since));
    assert_eq!(session("SELECT count(*) FROM used_keys WHERE used_by = 'shop'").trim(), "4", "used once");
    keys.extend(server.take("codes", 100));
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 304, "a key left twice");
    let both = "SELECT count(*) FROM available_keys a JOIN used_keys u ON a.`key` = u.`key`";
    assert_eq!(session(both).trim(), "0");
}

#[test]
fn a_drawn_key_is_in_the_log_before_it_leaves() {
    let postgres = Postgres::start().unwrap();
    let home = Home::new();
    let server = node(&home, &postgres, "a");
    let mut keyspace = counting(100);
    keyspace["on_empty"] = "random".into();
    server.create(keyspace);
    until("a full pool", &server, || server.show("codes")["level"] == "100");
    // Nothing more can be put there, and what was there is gone.
    postgres
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'full'; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON available_keys EXECUTE FUNCTION refuse();
             DELETE FROM available_keys;",
        )
        .unwrap();
    let keys: HashSet<String> = server.take("codes", 300).into_iter().collect();
    assert_eq!(keys.len(), 300);
    let used: HashSet<String> =
        lines(&postgres.sql("SELECT key FROM used_keys").unwrap()).into_iter().collect();
    assert!(keys.is_subset(&used), "{:?}", keys.difference(&used).next());
    assert!(server.show("codes")["random"]["draws"].as_u64().unwrap() >= 300);
}

#[test]
fn two_keyspaces_with_one_prefix_are_told_apart() {
    let home = Home::new();
    let server = home.start();
    server.create(counting(10));
    until("a full pool", &server, || server.show("codes")["level"] == "10");
    let mut other = counting(10);
    other["name"] = "others".into();
    server.create(other);
    let refused = server.try_take("others", 1);
    assert_eq!((refused.status, refused.code().as_str()), (503, "out_of_stock"), "{refused:?}");
    assert!(refused.text().contains("table_prefix") && refused.text().contains("`codes`"), "{refused:?}");
    assert_eq!(server.take("codes", 1).len(), 1);
    // Nothing that other nodes could do better, so it is told and no reason to go elsewhere.
    until("a warning", &server, || {
        let ready = server.get("/readyz").json();
        let checks = ready["checks"].as_array().unwrap();
        let stock = checks.iter().find(|check| check["check"] == "stock").unwrap();
        ready["ready"] == true
            && stock["state"] == "warning"
            && stock["detail"].to_string().contains("`others`")
    });
}

/// A pool whose database is restarted and stopped goes on, and repeats nothing.
#[test]
fn a_database_that_goes_away_is_waited_for() {
    let mut postgres = Postgres::start().unwrap();
    let home = Home::new();
    let server = node(&home, &postgres, "a");
    server.create(counting(5000));
    let mut seen: HashSet<String> = HashSet::new();
    for round in 0..4 {
        seen.extend(server.take("codes", 500));
        postgres.crash().unwrap();
        let refused = server.try_take("codes", 9000);
        assert_ne!(refused.status, 200, "{refused:?}");
        postgres.restart().unwrap();
        until("keys", &server, || {
            let answer = server.try_take("codes", 500);
            let keys = if answer.status == 200 { answer.keys() } else { Vec::new() };
            seen.extend(keys.iter().cloned());
            !keys.is_empty()
        });
        assert_eq!(seen.len(), (round + 1) * 1000, "a key came twice");
    }
    assert_eq!(server.show("codes")["rows"]["begun_anew"], 0, "it forgot nothing");
    assert_counts(&postgres, "(SELECT key FROM available_keys UNION ALL SELECT key FROM used_keys) AS keys");
}
