//! Moving in from an older system: its codes are never issued, its IDs get keys, and a run that was cut off is begun
//! again.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write,
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

mod harness;
use harness::{Finished, Home, Server, finish, keymill, sized};

const BASE36: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// Longer than any import here takes.
const IMPORTED_WITHIN: Duration = Duration::from_secs(120);

/// Runs `keymill import …` or `keymill export …` against the server.
fn run(home: &Home, server: &Server, arguments: &[&str]) -> Finished {
    let mut command = keymill(home.path());
    command.args(arguments).args(["--server", &server.url()]);
    finish(command, IMPORTED_WITHIN)
}

fn summary(finished: Finished) -> Value {
    let text = finished.ok();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A pool of 1296 keys, of which a node holds few.
fn tiny(server: &Server) {
    server.create(json!({ "name": "tiny", "scheme": "pool", "alphabet": "base36", "length": 2,
                          "stock_min": 16, "outage_budget": "1ms" }));
}

#[test]
fn used_codes_are_never_issued_and_a_second_run_changes_nothing() {
    let home = Home::new();
    let server = home.start();
    tiny(&server);
    let mut codes = String::new();
    for (n, first) in BASE36.iter().enumerate() {
        let (first, second) = (char::from(*first), char::from(BASE36[(n * 7) % 36]));
        writeln!(codes, "{first}{second}").unwrap();
        writeln!(codes, "{}{second}", first.to_ascii_uppercase()).unwrap();
        writeln!(codes, "longer-{first}").unwrap();
    }
    home.write("codes.txt", &codes);
    let import = ["import", "used", "--keyspace", "tiny", "codes.txt", "--json", "--rejects", "rejects.csv"];
    let first = summary(run(&home, &server, &import));
    let number = |summary: &Value, field: &str| summary[field].as_u64().unwrap();
    assert_eq!(number(&first, "lines"), 108, "{first}");
    let told = number(&first, "imported") + number(&first, "known") + number(&first, "rejected");
    assert_eq!(told, 108, "every line has an outcome: {first}");
    assert!(number(&first, "imported") > 36, "{first}");
    let rejects = fs::read_to_string(home.path().join("rejects.csv")).unwrap();
    assert_eq!(rejects.lines().count() as u64, number(&first, "rejected") + 1, "{rejects}");

    let second = summary(run(&home, &server, &import));
    assert_eq!((number(&second, "imported"), number(&second, "rejected")), (0, number(&first, "rejected")));
    assert_eq!(number(&second, "known"), 108 - number(&first, "rejected"), "{second}");

    let rejected: HashSet<String> =
        rejects.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_lowercase()).collect();
    let used: HashSet<String> = codes.lines().map(str::to_lowercase).collect();
    let mut connection = server.connect();
    let mut issued = HashSet::new();
    loop {
        let answer = connection.ask("POST", "/v1/keyspaces/tiny/keys", None).unwrap();
        match answer.status {
            200 => assert!(issued.insert(answer.keys().remove(0))),
            _ => break,
        }
    }
    let met: Vec<&String> = issued.intersection(&used).filter(|code| !rejected.contains(*code)).collect();
    assert!(met.is_empty(), "{met:?}");
    let withheld = used.iter().filter(|code| code.len() == 2 && !rejected.contains(*code)).count();
    assert_eq!(issued.len() + withheld, 36 * 36, "and nothing else is missing");
}

#[test]
fn what_is_in_a_file_is_told_apart_line_by_line() {
    let home = Home::new();
    let server = home.start();
    let taken = server.take("links", 1).remove(0);
    server.claim("links", "mine");
    let huge = "x".repeat(10 << 20);
    let mut file = b"\xef\xbb\xbf".to_vec();
    file.extend_from_slice(
        format!(
            "abc1234,https://old.example/1\r\n\r\n   \r\n\"abc1235\",\"a, quoted\nnote\"\r\nbad!code\r\n{huge}\r\nabc1234\r\n\
             ,no code\r\n{taken}\r\nmine\r\nk\u{e4}se\r\n{}\r\nabc-1236",
            "y".repeat(65)
        )
        .as_bytes(),
    );
    file.extend_from_slice(b"\nab\xff\n");
    fs::write(home.path().join("old.csv"), file).unwrap();
    let done =
        run(&home, &server, &["import", "used", "--keyspace", "links", "old.csv", "--rejects", "no.csv"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.is_empty() && done.stderr.contains("3 withheld"), "{done:?}");
    let rejects = fs::read_to_string(home.path().join("no.csv")).unwrap();
    let told: Vec<(u64, &str)> = rejects
        .lines()
        .skip(1)
        .map(|line| (line.split(',').next().unwrap().parse().unwrap(), line.rsplit(',').next().unwrap()))
        .collect();
    let lines: Vec<u64> = told.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [6, 7, 9, 10, 11, 12, 13, 15], "{rejects}");
    // On the terminal a few are shown.
    let many: String = (0..50).map(|n| format!("bad!{n}\n")).collect();
    home.write("many.txt", &many);
    let shown = run(&home, &server, &["import", "used", "--keyspace", "links", "many.txt"]);
    assert!(shown.stderr.contains("line 1: `bad!0`") && shown.stderr.contains("and 30 more"), "{shown:?}");
    assert_eq!(shown.stderr.lines().count(), 22, "{shown:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_refused_and_says_why() {
    let home = Home::new();
    let server = home.start();
    home.write("open.csv", "a1,x\n\"b1,y\nc1,z\n");
    home.write("fine.csv", "a1\n");
    for (arguments, complaint) in [
        (vec!["--keyspace", "links", "nothing.csv"], "nothing.csv cannot be read"),
        (vec!["--keyspace", "links", "open.csv"], "line 2 opens a quote"),
        (vec!["--keyspace", "nowhere", "fine.csv"], "keyspace_not_found"),
        (vec!["--keyspace", "tickets", "fine.csv"], "wrong_scheme"),
        (vec!["--keyspace", "links", "fine.csv", "--rejects", "no/such/dir.csv"], "cannot be written"),
    ] {
        let refused = run(&home, &server, &[vec!["import", "used"], arguments.clone()].concat());
        assert_eq!(refused.code, Some(1), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(complaint), "{refused:?}");
    }
    assert_eq!(run(&home, &server, &["import", "used", "fine.csv"]).code, Some(2), "which keyspace?");
    let both = run(&home, &server, &["import", "legacy", "--keyspace", "links", "fine.csv", "--json"]);
    assert!(both.code == Some(1) && both.stdout.contains("--out"), "{both:?}");
}

/// `legacy_id,key` lines as a map; an ID that has two keys is a failure.
fn mapping(csv: &str) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    for line in csv.lines() {
        let (id, key) = line.rsplit_once(',').unwrap();
        let known = map.entry(id.to_owned()).or_insert_with(|| key.to_owned());
        assert_eq!(known, key, "{id} has two keys");
    }
    map
}

#[test]
fn legacy_ids_get_keys_and_keep_them() {
    let home = Home::new();
    let server = home.start();
    let ids: String = (0..2_500).map(|n| format!("{},customer {n}\n", 100_000 + n)).collect();
    let odd = "\"with, comma\",1\nk\u{e4}se \u{1f9c0}\n100000\n\n,\n\"say \"\"hi\"\"\"\n";
    home.write("legacy.csv", &format!("id,name\n{ids}{odd}"));
    let import = ["import", "legacy", "--keyspace", "links", "legacy.csv", "--header"];
    let first = run(&home, &server, &import);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let (header, lines) = first.stdout.split_once('\n').unwrap();
    assert_eq!(header, "legacy_id,key");
    let map = mapping(lines);
    assert_eq!((lines.lines().count(), map.len()), (2_504, 2_503), "one ID comes twice");
    assert!(
        first.stderr.contains("2503 new keys") && first.stderr.contains("1 rejected"),
        "{}",
        first.stderr
    );
    assert_eq!(map.values().collect::<HashSet<_>>().len(), map.len(), "a key each");
    for (id, path) in [
        ("100007", "100007"),
        ("\"with, comma\"", "with%2C%20comma"),
        ("k\u{e4}se \u{1f9c0}", "k%C3%A4se%20%F0%9F%A7%80"),
    ] {
        let found = server.get(&format!("/v1/keyspaces/links/refs/{path}")).json();
        assert_eq!(found["key"].as_str(), map.get(id).map(String::as_str), "{found}");
    }
    // Again, into a file that is there once it is whole.
    let arguments = [&import[..], &["--out", "keys.csv", "--json"]].concat();
    let second = summary(run(&home, &server, &arguments));
    assert_eq!(
        (&second["created"], &second["known"], &second["rejected"]),
        (&json!(0), &json!(2504), &json!(1))
    );
    assert_eq!(fs::read_to_string(home.path().join("keys.csv")).unwrap(), first.stdout);
    assert!(!home.path().join("keys.csv.part").exists());

    let exported = run(&home, &server, &["export", "legacy", "--keyspace", "links"]).ok();
    assert_eq!(mapping(&exported), map);
    let arguments = ["export", "legacy", "--keyspace", "links", "--format", "jsonl", "--out", "keys.jsonl"];
    run(&home, &server, &arguments).ok();
    let jsonl = fs::read_to_string(home.path().join("keys.jsonl")).unwrap();
    assert_eq!(jsonl.lines().count(), map.len());
    for line in jsonl.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let id = quoted(line["legacy_id"].as_str().unwrap());
        assert_eq!(line["key"].as_str(), map.get(&id).map(String::as_str), "{line}");
    }
}

/// An ID as it stands in a CSV file.
fn quoted(id: &str) -> String {
    if id.contains([',', '"']) { format!("\"{}\"", id.replace('"', "\"\"")) } else { id.to_owned() }
}

/// Both ends die: the import and the server, at any moment. What comes out in the end is one key an ID.
#[test]
fn an_import_that_was_killed_goes_on_with_the_same_keys() {
    let home = Home::new();
    let mut server = home.start();
    let count = sized(20_000, 200_000);
    let ids: String = (0..count).map(|n| format!("id-{n}\n")).collect();
    home.write("legacy.csv", &ids);
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..4 {
        let mut command = keymill(home.path());
        command.args(["import", "legacy", "--keyspace", "links", "legacy.csv", "--server", &server.url()]);
        let out = fs::File::create(home.path().join("partial.csv")).unwrap();
        let mut child = harness::Guarded(command.stdout(out).stderr(Stdio::null()).spawn().unwrap());
        let part = home.path().join("partial.csv");
        let begun = Instant::now();
        while fs::metadata(&part).unwrap().len() < 30_000 * (round + 1) && begun.elapsed() < IMPORTED_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
        if round % 2 == 0 {
            let _ = child.0.kill();
        } else {
            server.kill();
            server = home.start();
        }
        child.wait(IMPORTED_WITHIN).expect("it ends");
        collect(&part, &mut seen);
    }
    println!("{} of {count} IDs had a key before the last run", seen.len());
    assert!(!seen.is_empty() && seen.len() < count);
    let done = run(&home, &server, &["import", "legacy", "--keyspace", "links", "legacy.csv"]).ok();
    let map = mapping(&done);
    assert_eq!((map.len(), map.values().collect::<HashSet<_>>().len()), (count, count));
    for (id, key) in &seen {
        assert_eq!(map.get(id), Some(key), "{id}");
    }
}

/// The whole lines of what was written before the end came.
fn collect(part: &Path, seen: &mut BTreeMap<String, String>) {
    let text = fs::read_to_string(part).unwrap();
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    for (id, key) in mapping(whole) {
        let known = seen.entry(id.clone()).or_insert_with(|| key.clone());
        assert_eq!(*known, key, "{id} has two keys");
    }
}

#[test]
fn a_million_used_codes_do_not_slow_down_what_comes_after() {
    let home = Home::new();
    let server = home.start();
    let count = sized(50_000, 1_000_000);
    let mut codes = String::with_capacity(count * 8);
    for n in 0..count {
        // Spread over the space, as codes of an older shortener are.
        let mut number = (n as u64).wrapping_mul(2_654_435_761) % 62_u64.pow(7);
        for _ in 0..7 {
            codes.push(char::from(
                b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[(number % 62) as usize],
            ));
            number /= 62;
        }
        codes.push('\n');
    }
    home.write("codes.txt", &codes);
    for expected in ["imported", "known"] {
        let done = run(&home, &server, &["import", "used", "--keyspace", "links", "codes.txt", "--json"]);
        println!("{count} codes, {expected}: {:?}", done.took);
        let summary = summary(done);
        let rejected = summary["rejected"].as_u64().unwrap();
        assert!(rejected < 10, "{summary}");
        assert_eq!(summary[expected].as_u64().unwrap() + rejected, count as u64, "{summary}");
    }
    // The witness does not remember them one by one, so reserves stay as cheap as they were.
    let witness = fs::metadata(home.file("witness")).unwrap().len();
    assert!(witness < 1 << 20, "{witness}");
    let begun = Instant::now();
    server.terminate();
    let server = home.start();
    println!("restarted with {count} holes in {:?}", begun.elapsed());
    assert_eq!(server.take("links", 1000).len(), 1000);
}
