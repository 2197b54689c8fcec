//! The Redis protocol on the real binary: raw bytes of every kind, and the clients people use.
//!
//! Proven here: an application that pops its keys from Redis only changes an address; whatever is sent, in
//! whatever pieces, is answered or refused by name, within bounded memory and without harm to others; no
//! key comes twice, whoever takes it over whichever protocol.
//!
//! `KEYMILL_FULL=1` opens ten times as many connections.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader},
    net::{Shutdown, SocketAddr},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

mod clients;
mod harness;

use clients::raw::{Raw, Reply, array};
use harness::{Connection, Guarded, Home, PATIENCE, Server, sized};

const LOOK_EVERY: Duration = Duration::from_millis(3);

impl Server {
    #[track_caller]
    fn redis(&self) -> Raw {
        Raw::open(self.redis_at())
    }

    fn redis_at(&self) -> SocketAddr {
        self.resp.expect("it speaks the Redis protocol")
    }

    /// Memory in use.
    fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.pid())).unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    }
}

/// The prefix of the error that a command gets.
#[track_caller]
fn refused(client: &mut Raw, command: &str) -> String {
    client.ask(command).error().0
}

#[track_caller]
fn assert_refused(client: &mut Raw, command: &str, prefix: &str, says: &str) {
    let (got, text) = client.ask(command).error();
    assert_eq!(got, prefix, "{command}: {text}");
    assert!(text.contains(says), "{command}: {text}");
}

#[test]
fn it_answers_what_redis_would() {
    let home = Home::new();
    let server = home.start();
    let mut client = server.redis();
    assert_eq!(client.ask("PING"), Reply::Simple("PONG".into()));
    assert_eq!(client.ask("ping hello"), Reply::Bulk("hello".into()));
    assert_eq!(client.ask("ECHO hello"), Reply::Bulk("hello".into()));

    let mut keys = HashSet::new();
    for command in ["LPOP links", "rpop links", "SPop links"] {
        keys.insert(client.ask(command).key());
    }
    for command in ["LPOP links 50", "RPOP links 50", "SPOP links 50"] {
        let popped = client.ask(command).keys();
        assert_eq!(popped.len(), 50);
        keys.extend(popped);
    }
    assert_eq!(keys.len(), 153);
    assert!(keys.iter().all(|key| key.len() == 7 && key.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    assert_eq!(client.ask("LPOP links 0"), Reply::Array(Vec::new()));
    assert_eq!(client.ask("LPOP events").key().parse::<u64>().unwrap() >> 63, 0);
    assert_eq!(client.ask("LPOP events 10").keys().len(), 10);

    assert_eq!(client.ask("INCR tickets"), Reply::Integer(1));
    assert_eq!(client.ask("INCRBY tickets 1"), Reply::Integer(2));
    assert_eq!(client.ask("INCRBY tickets 10"), Reply::Integer(12), "the last of ten");
    assert_eq!(client.ask("LPOP tickets").key(), "13");
    assert_eq!(client.ask("INCR tickets"), Reply::Integer(14));

    let level: i64 = server.show("links")["level"].as_str().unwrap().parse().unwrap();
    assert_eq!(client.ask("LLEN links").integer(), level);
    assert_eq!(client.ask("SCARD links").integer(), level);
    assert!(client.ask("LLEN events").integer() > 0);
    for (command, expected) in [("TYPE links", "list"), ("TYPE tickets", "string"), ("TYPE events", "list")] {
        assert_eq!(client.ask(command), Reply::Simple(expected.into()), "{command}");
    }
    assert_eq!(client.ask("TYPE nothing"), Reply::Simple("none".into()));
    assert_eq!(client.ask("EXISTS links tickets nothing links"), Reply::Integer(3));
    assert_eq!(client.ask("SELECT 0"), Reply::Simple("OK".into()));
    assert_eq!(client.ask("AUTH any token"), Reply::Simple("OK".into()));
    assert_eq!(client.ask("QUIT"), Reply::Simple("OK".into()));
    assert!(client.ends());
}

#[test]
fn a_connection_says_who_it_is_and_which_version_it_speaks() {
    let home = Home::new();
    let server = home.start();
    let mut client = server.redis();
    let id = client.ask("CLIENT ID").integer();
    assert!(id > 0 && server.redis().ask("CLIENT ID").integer() > id);
    assert_eq!(client.ask("CLIENT GETNAME"), Reply::Null);
    assert_eq!(client.ask("client setname shop"), Reply::Simple("OK".into()));
    assert_eq!(client.ask("CLIENT GETNAME"), Reply::Bulk("shop".into()));
    assert_eq!(client.ask("CLIENT SETINFO LIB-NAME x"), Reply::Simple("OK".into()));
    assert_eq!(client.ask("CLIENT NO-EVICT on"), Reply::Simple("OK".into()));
    assert!(matches!(client.ask("HELLO 2"), Reply::Array(fields) if fields.len() == 14));

    let Reply::Map(hello) = client.ask("HELLO 3 AUTH any token SETNAME till") else { panic!("not a map") };
    assert!(hello.windows(2).any(|pair| pair == [Reply::Bulk("proto".into()), Reply::Integer(3)]));
    assert_eq!(client.ask("CLIENT GETNAME"), Reply::Bulk("till".into()));
    assert!(matches!(client.ask("SPOP links 3"), Reply::Set(keys) if keys.len() == 3));
    assert!(matches!(client.ask("LPOP links 3"), Reply::Array(keys) if keys.len() == 3));
    assert!(matches!(client.ask("CONFIG GET save"), Reply::Map(fields) if fields.len() == 2));
    for (command, prefix) in [("HELLO 4", "NOPROTO"), ("HELLO x", "ERR"), ("HELLO 3 AUTH any", "ERR")] {
        assert_eq!(refused(&mut client, command), prefix, "{command}");
    }
    assert!(matches!(client.ask("SPOP links 3"), Reply::Set(_)), "a refused HELLO changes nothing");
    assert_eq!(client.ask("RESET"), Reply::Simple("RESET".into()));
    assert!(matches!(client.ask("SPOP links 3"), Reply::Array(_)));
    assert_eq!(client.ask("CLIENT GETNAME"), Reply::Null);

    let Reply::Bulk(info) = client.ask("INFO") else { panic!("not a text") };
    for line in ["redis_version:7.0.0", "keymill_version:", "loading:0", "role:master", "db0:keys=3"] {
        assert!(info.lines().any(|found| found.starts_with(line)), "{line} is not in {info}");
    }
    assert!(matches!(client.ask("INFO keyspace"), Reply::Bulk(text) if !text.contains("redis_version")));
    let count = usize::try_from(client.ask("COMMAND COUNT").integer()).unwrap();
    assert!(matches!(client.ask("COMMAND"), Reply::Array(all) if all.len() == count));
    assert!(matches!(client.ask("COMMAND DOCS lpop nothing"), Reply::Array(found) if found.len() == 2));
    assert!(
        matches!(client.ask("COMMAND INFO lpop nothing"), Reply::Array(found) if found[1] == Reply::Null)
    );
}

#[test]
fn refusals_carry_the_prefix_of_the_table_and_change_nothing() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "bills", "scheme": "sequence", "prefix": "INV-"}));
    server.create(json!({"name": "padded", "scheme": "sequence", "length": 8}));
    server.create(json!({"name": "odd", "scheme": "sequence", "step": 2}));
    server.until_stocked(&["links", "tickets", "bills", "odd"]);
    let before = server.stock("tickets");
    let mut client = server.redis();
    for (command, prefix, says) in [
        ("LPOP nothing", "NOTFOUND", "no keyspace `nothing`"),
        ("LPOP NO/SUCH", "NOTFOUND", "POST /v1/keyspaces"),
        ("LLEN nothing", "NOTFOUND", "nothing"),
        ("INCR nothing", "NOTFOUND", "nothing"),
        ("INCR links", "WRONGTYPE", "no sequence"),
        ("INCR events", "WRONGTYPE", "no sequence"),
        ("INCR bills", "WRONGTYPE", "prefix"),
        ("INCR padded", "WRONGTYPE", "length"),
        ("INCRBY odd 2", "WRONGTYPE", "steps of 2"),
        ("INCRBY tickets 0", "ERR", "from 1 to 10000"),
        ("INCRBY tickets -1", "ERR", "limits.count_max"),
        ("INCRBY tickets 10001", "ERR", "limits.count_max"),
        ("INCRBY tickets 1.5", "ERR", "not an integer"),
        ("INCRBY tickets +1", "ERR", "not an integer"),
        ("LPOP links 10001", "ERR", "limits.count_max"),
        ("LPOP links 99999999999999999999", "ERR", "not an integer"),
        ("LPOP links -1", "ERR", "must be positive"),
        ("LPOP links x", "ERR", "not an integer"),
        ("LPOP", "ERR", "wrong number of arguments for 'lpop' command"),
        ("LPOP links 1 2", "ERR", "wrong number of arguments"),
        ("SET abc http://example.com", "ERR", "NX"),
        ("SET abc http://example.com NX EX 0", "ERR", "invalid expire time"),
        ("SET abc javascript:x NX", "ERR", "http://"),
        ("SET nowhere:abc http://example.com NX", "NOTFOUND", "KEYSPACE:KEY"),
        ("AUTH token", "ERR", "called without any password configured for the default user"),
        ("SELECT 1", "ERR", "DB index is out of range"),
        ("SELECT x", "ERR", "not an integer"),
        ("CLIENT KILL 1", "ERR", "unknown subcommand"),
        ("CLIENT SETNAME a\nb", "ERR", "Client names cannot contain"),
        ("CONFIG SET save x", "ERR", "only knows GET"),
        ("FLUSHALL", "ERR", "unknown command 'FLUSHALL'"),
        ("a\r\n+OK b", "ERR", "unknown command 'a\\r\\n+OK'"),
        ("MULTI", "ERR", "unknown command 'MULTI'"),
    ] {
        assert_refused(&mut client, command, prefix, says);
    }
    assert_eq!(client.ask("INCR tickets"), Reply::Integer(1), "and it is none the worse for it");
    assert_eq!(client.ask("INCR odd"), Reply::Integer(1));
    assert_eq!(client.ask("INCRBY odd 1"), Reply::Integer(3));
    assert_eq!(server.stock("tickets"), before - 1);
}

#[test]
fn the_last_keys_come_in_a_short_answer_and_then_it_says_exhausted() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "tiny", "scheme": "pool", "alphabet": "base36", "length": 2}));
    let mut client = server.redis();
    let mut keys = HashSet::new();
    loop {
        match client.ask("LPOP tiny 100") {
            Reply::Array(popped) => {
                assert!(!popped.is_empty(), "nothing is said by an error, not by an empty array");
                for key in popped {
                    let key = key.key();
                    assert!(keys.insert(key.clone()), "{key} came again");
                }
            }
            other => {
                assert_eq!(other.error().0, "EXHAUSTED");
                break;
            }
        }
    }
    assert_eq!(keys.len(), 36 * 36, "fewer only at the end, and none is left");
    assert_refused(&mut client, "LPOP tiny", "EXHAUSTED", "grow");
    assert_eq!(client.ask("LLEN tiny"), Reply::Integer(0));

    let last = i64::MAX;
    server.create(json!({"name": "late", "scheme": "sequence", "offset": (last - 7).to_string()}));
    assert_eq!(client.ask("INCRBY late 5").integer(), last - 3);
    assert_refused(&mut client, "INCRBY late 5", "EXHAUSTED", "");
    assert_eq!(client.ask("INCR late").integer(), last - 2, "a run that cannot be had burns nothing");
}

#[test]
fn a_connection_notices_that_its_keyspace_is_retired_or_new() {
    let home = Home::new();
    let server = home.start();
    let mut client = server.redis();
    assert_eq!(refused(&mut client, "LPOP promo"), "NOTFOUND");
    server.create(json!({"name": "promo", "scheme": "pool"}));
    client.ask("LPOP promo").key();
    let retired = server.ask("DELETE", "/v1/keyspaces/promo", None);
    assert_eq!(retired.status, 200, "{retired:?}");
    assert_eq!(refused(&mut client, "LPOP promo"), "RETIRED");
    assert_eq!(refused(&mut client, "LPOP promo 3"), "RETIRED");
    assert_eq!(client.ask("TYPE promo"), Reply::Simple("none".into()));
    assert_eq!(client.ask("EXISTS promo"), Reply::Integer(0));
}

#[test]
fn a_halted_ledger_is_said_and_the_same_connection_goes_on_after_advance() {
    let home = Home::new();
    let server = home.start();
    let mut seen: HashSet<String> = server.redis().ask("LPOP links 100").keys().into_iter().collect();
    server.terminate();
    let copied = home.copy_database();
    let server = home.start();
    seen.extend(server.redis().ask("LPOP links 5000").keys());
    server.kill();
    home.restore_database(&copied);
    let server = home.server().start_unready();
    server.until_unready("ledger_halted");
    let mut client = server.redis();
    assert_refused(&mut client, "LPOP links", "HALTED", "keymill ledger advance");
    assert_refused(&mut client, "INCR tickets", "HALTED", "");
    home.ledger(&["advance", "--yes"]).ok();
    server.until_ready();
    for key in client.ask("LPOP links 5000").keys() {
        assert!(seen.insert(key.clone()), "{key} came again");
    }
}

/// Tickets prove order: the n-th answer is n.
fn expect_tickets(client: &mut Raw, count: i64) {
    for expected in 1..=count {
        assert_eq!(client.reply().unwrap(), Reply::Integer(expected));
    }
}

#[test]
fn a_pipeline_is_answered_in_order_however_it_is_cut() {
    let home = Home::new();
    let server = home.start();
    let mut client = server.redis();
    let mut pipeline = Vec::new();
    for round in 0..3000 {
        match round % 3 {
            0 => pipeline.extend(array(&["INCR", "tickets"])),
            1 => pipeline.extend(b"incr tickets\r\n"),
            _ => pipeline.extend(b"  INCR\ttickets \n\r\n*0\r\n"),
        }
    }
    client.send(&pipeline).unwrap();
    expect_tickets(&mut client, 3000);

    server.create(json!({"name": "slow", "scheme": "sequence"}));
    let mut client = server.redis();
    let bytes: Vec<u8> =
        [array(&["INCR", "slow"]), b"INCR slow\r\n".to_vec(), array(&["incr", "slow"])].concat().repeat(5);
    for byte in bytes {
        client.send(&[byte]).unwrap();
    }
    expect_tickets(&mut client, 15);

    // A command that has to wait holds up those behind it, and nothing else.
    let mixed = [array(&["INCR", "slow"]), array(&["LLEN", "links"]), array(&["INCR", "slow"])].concat();
    client.send(&mixed).unwrap();
    assert_eq!(client.reply().unwrap(), Reply::Integer(16));
    assert!(client.reply().unwrap().integer() > 0);
    assert_eq!(client.reply().unwrap(), Reply::Integer(17));
}

#[test]
fn what_is_no_command_is_refused_and_the_connection_ends() {
    let home = Home::new();
    let server = home.start();
    let mut other = server.redis();
    let too_long = format!("*2\r\n$4\r\nECHO\r\n$65536\r\n{}", "x".repeat(1000));
    let endless = "x".repeat(70_000);
    let many = format!("*1025\r\n{}", "$1\r\na\r\n".repeat(1025));
    let deep = "*1\r\n".repeat(100_000);
    for (sent, says) in [
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*x\r\n", "invalid multibulk length"),
        ("*99999999999999999999999999\r\n", "invalid multibulk length"),
        ("*1\r\n$9223372036854775807\r\n", "limits.body_bytes"),
        ("*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
        ("*1\r\n$-5\r\n", "invalid bulk length"),
        ("*1\r\n$4\r\nPINGxx", "expected CRLF"),
        ("ECHO \"a b\"\r\n", "quotes"),
        (&too_long, "limits.body_bytes"),
        (&endless, "limits.body_bytes"),
        (&many, "at most 1024"),
        (&deep, "not nested"),
        ("POST /v1/keyspaces/links/keys HTTP/1.1\r\nHost: x\r\n\r\nLPOP links\r\n", "HTTP"),
    ] {
        let mut client = server.redis();
        // It may have closed before it has read everything.
        let _ = client.send(sent.as_bytes());
        let start = &sent[..sent.len().min(40)];
        let (prefix, text) = client.reply().unwrap_or_else(|error| panic!("{start:?}: {error}")).error();
        assert_eq!(prefix, "ERR", "{start:?}: {text}");
        assert!(text.contains(says), "{start:?}: {text}");
        assert!(client.ends(), "{start:?}");
        assert_eq!(other.ask("PING"), Reply::Simple("PONG".into()), "others are unaffected");
    }
    let mut client = server.redis();
    client.send(&[array(&["INCR", "tickets"]), b"*1\r\n!".to_vec()].concat()).unwrap();
    assert_eq!(client.reply().unwrap(), Reply::Integer(1), "what came before is answered");
    client.reply().unwrap().error();
}

#[test]
fn half_a_command_and_silence_have_a_deadline() {
    let home = Home::new();
    let server = home
        .server()
        .environment("KEYMILL_LIMITS__REQUEST_TIMEOUT", "200ms")
        .environment("KEYMILL_LIMITS__RESP_IDLE_TIMEOUT", "500ms")
        .start();
    let mut half = server.redis();
    half.send(b"*2\r\n$4\r\nLPOP\r\n$5\r\nli").unwrap();
    let (prefix, text) = half.reply().unwrap().error();
    assert_eq!(prefix, "ERR");
    assert!(text.contains("limits.request_timeout"), "{text}");
    assert!(half.ends());

    let mut silent = server.redis();
    assert_eq!(silent.ask("PING"), Reply::Simple("PONG".into()));
    assert!(silent.ends(), "limits.resp_idle_timeout");

    // One that has said all it will say still gets its answers.
    let mut done = server.redis();
    done.send(&array(&["INCR", "tickets"])).unwrap();
    done.stream().shutdown(Shutdown::Write).unwrap();
    assert_eq!(done.reply().unwrap(), Reply::Integer(1));
    assert!(done.ends());
}

#[test]
fn who_does_not_read_is_no_longer_heard_and_costs_little() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LIMITS__REQUEST_TIMEOUT", "3s").start();
    let mut other = server.redis();
    // So that what a busy keyspace holds is there before.
    for _ in 0..20 {
        other.ask("LPOP links 10000").keys();
    }
    let before = server.resident_bytes();
    let one = array(&["LPOP", "links", "10000"]);
    let mut sent = 0;
    let mut greedy: Vec<Raw> = (0..8).map(|_| server.redis()).collect();
    for client in &mut greedy {
        client.stream().set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        // Far more than sockets hold: 64 MB of answers to each, if anyone answered.
        for _ in 0..20 {
            match client.send(&one.repeat(25)) {
                Ok(()) => sent += 25,
                Err(_) => break,
            }
        }
    }
    assert!(sent > 100, "they asked: {sent}");
    for _ in 0..50 {
        assert_eq!(other.ask("LPOP links 10").keys().len(), 10, "others are served");
    }
    let grown = server.resident_bytes().saturating_sub(before);
    println!(
        "{sent} commands that would make {} MB of answers grew it by {} MB",
        sent * 130 / 1000,
        grown >> 20
    );
    assert!(grown < 48 << 20, "it grew by {grown} bytes");
    let deadline = Instant::now() + PATIENCE;
    while !other.ask("INFO clients").key().contains("connected_clients:1\r") {
        assert!(Instant::now() < deadline, "whoever does not read for limits.request_timeout is given up");
        thread::sleep(LOOK_EVERY);
    }
    drop(greedy);
}

/// As many open files as this process may have.
fn raise_file_limit(wanted: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    assert!(maximum.is_none_or(|most| most >= wanted), "`ulimit -Hn` must be at least {wanted}");
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
}

#[test]
fn idle_connections_cost_little_and_hinder_nobody() {
    let count = sized(1000, 10_000);
    raise_file_limit(count as u64 + 500);
    let home = Home::new();
    let server = home.start();
    let mut busy = server.redis();
    busy.ask("LPOP links").key();
    let before = server.resident_bytes();
    let mut idle: Vec<Raw> = (0..count).map(|_| server.redis()).collect();
    for client in &mut idle {
        client.send(&array(&["LPOP", "links"])).unwrap();
    }
    let keys: HashSet<String> = idle.iter_mut().map(|client| client.reply().unwrap().key()).collect();
    assert_eq!(keys.len(), count);
    let grown = server.resident_bytes().saturating_sub(before);
    println!("{count} idle connections, {} bytes each", grown / count as u64);
    // What the mill made meanwhile is not theirs.
    assert!(grown < (16 << 20) + count as u64 * (4 << 10), "{grown} bytes for {count}");
    let info = busy.ask("INFO clients").key();
    assert!(info.contains(&format!("connected_clients:{}", count + 1)), "{info}");
    busy.ask("LPOP links").key();
    server.take("links", 10);
    // Half of them vanish without a word, the others are still served.
    idle.truncate(count / 2);
    idle.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), Reply::Simple("PONG".into())));
    server.terminate();
}

#[test]
fn each_front_end_has_seats_of_its_own_and_says_when_they_are_taken() {
    let home = Home::new();
    let server = home
        .server()
        .environment("KEYMILL_LIMITS__RESP_CONNECTIONS", "2")
        .environment("KEYMILL_LIMITS__CONNECTIONS", "2")
        .start();
    let mut seated: Vec<Raw> = (0..2).map(|_| server.redis()).collect();
    seated.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), Reply::Simple("PONG".into())));
    for _ in 0..5 {
        let mut third = server.redis();
        let _ = third.send(&array(&["LPOP", "links"]));
        let (prefix, text) = third.reply().unwrap().error();
        assert_eq!(prefix, "TRYAGAIN");
        assert!(text.contains("limits.resp_connections"), "{text}");
        assert!(third.ends());
    }
    assert_eq!(server.take("links", 1).len(), 1, "HTTP has its own");
    let _http: Vec<Connection> = (0..2).map(|_| server.connect()).collect();
    assert_eq!(seated[0].ask("LPOP links").key().len(), 7, "and so has this one");
    drop(seated.pop());
    let deadline = Instant::now() + PATIENCE;
    while server.redis().ask("PING") != Reply::Simple("PONG".into()) {
        assert!(Instant::now() < deadline, "a seat that is free is given again");
    }
}

/// Holds the ledger's write lock, as an engine that is stuck does, until it is dropped.
struct StuckLedger {
    _holder: Guarded,
}

impl StuckLedger {
    fn new(home: &Home) -> Self {
        const HOLD: &str = "import sqlite3, sys\n\
                            ledger = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)\n\
                            ledger.execute('BEGIN IMMEDIATE')\n\
                            print('held', flush=True)\n\
                            sys.stdin.read()";
        let child = Command::new("python3")
            .args(["-c", HOLD])
            .arg(home.file("keymill.db"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is missing: `cargo xtask test` installs it");
        let mut holder = Guarded(child);
        let mut said = String::new();
        BufReader::new(holder.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said.trim(), "held");
        Self { _holder: holder }
    }
}

#[test]
fn a_stuck_ledger_starves_one_keyspace_at_most_and_callers_beyond_the_limit_hear_at_once() {
    const WAITING: usize = 5;
    let home = Home::new();
    let server = home
        .server()
        .environment("KEYMILL_LIMITS__WAITING_TAKES", &WAITING.to_string())
        .environment("KEYMILL_LIMITS__TAKE_TIMEOUT", "15s")
        .start();
    server.create(json!({"name": "dry", "scheme": "pool", "stock_min": 64, "stock_max": 64}));
    server.until_stocked(&["dry", "links", "tickets"]);
    let stuck = StuckLedger::new(&home);
    // Some get what there is, as many as may wait do, and the others hear at once.
    let mut callers: Vec<Raw> = (0..WAITING * 4).map(|_| server.redis()).collect();
    for client in &mut callers {
        client.send(&array(&["LPOP", "dry", "64"])).unwrap();
    }
    let deadline = Instant::now() + PATIENCE;
    while callers.iter().filter(|client| client.is_answered()).count() < callers.len() - WAITING {
        assert!(Instant::now() < deadline, "more than {WAITING} wait");
        thread::sleep(LOOK_EVERY);
    }
    let (answered, mut waiting): (Vec<Raw>, Vec<Raw>) = callers.into_iter().partition(Raw::is_answered);
    assert_eq!(waiting.len(), WAITING);
    let mut served = 0;
    for mut client in answered {
        match client.reply().unwrap() {
            Reply::Array(_) => served += 1,
            other => {
                let (prefix, text) = other.error();
                assert_eq!(prefix, "TRYAGAIN", "{text}");
                assert!(text.contains("too many callers wait"), "{text}");
            }
        }
    }
    println!("{served} were served from stock, {WAITING} wait");
    let mut next = server.redis();
    for _ in 0..50 {
        assert_refused(&mut next, "LPOP dry 64", "TRYAGAIN", "too many callers wait");
    }
    let refused = server.try_take("dry", 64);
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"), "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    // Nobody else is the worse for it.
    assert_eq!(next.ask("LPOP links 50").keys().len(), 50);
    assert_eq!(next.ask("INCR tickets"), Reply::Integer(1));
    assert_eq!(server.take("links", 50).len(), 50);
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/metrics").status, 200);
    drop(stuck);
    for client in &mut waiting {
        assert_eq!(client.reply().unwrap().keys().len(), 64, "who could wait is served in the end");
    }
}

#[test]
fn a_stuck_ledger_holds_so_many_admin_requests_and_no_takes() {
    let home = Home::new();
    let server = home
        .server()
        .environment("KEYMILL_LIMITS__ADMIN_REQUESTS", "2")
        .environment("KEYMILL_LEDGER__TIMEOUT", "15s")
        .start();
    server.until_stocked(&["links", "tickets"]);
    let stuck = StuckLedger::new(&home);
    let callers: Vec<_> = (0..8)
        .map(|index| {
            let at = server.address;
            thread::spawn(move || {
                let body = format!(r#"{{"name":"new{index}","scheme":"pool"}}"#);
                Connection::open(at).unwrap().ask("POST", "/v1/keyspaces", Some(&body)).unwrap()
            })
        })
        .collect();
    let deadline = Instant::now() + PATIENCE;
    while callers.iter().filter(|caller| caller.is_finished()).count() < 6 {
        assert!(Instant::now() < deadline, "only two may wait");
        thread::sleep(LOOK_EVERY);
    }
    assert_eq!(server.take("links", 20).len(), 20, "taking is not affected");
    assert_eq!(server.redis().ask("INCR tickets"), Reply::Integer(1));
    assert_eq!(server.get("/healthz").status, 200);
    drop(stuck);
    let answers: Vec<_> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    let refused =
        answers.iter().filter(|answer| (answer.status, answer.code().as_str()) == (503, "overloaded"));
    assert_eq!(refused.count(), 6, "{answers:?}");
}

#[test]
fn out_of_stock_is_said_when_patience_ends() {
    let home = Home::new();
    let server = home.server().environment("KEYMILL_LIMITS__TAKE_TIMEOUT", "200ms").start();
    server.create(json!({"name": "dry", "scheme": "pool", "stock_min": 64, "stock_max": 64}));
    server.until_stocked(&["dry"]);
    let stuck = StuckLedger::new(&home);
    let mut client = server.redis();
    let mut answer = client.ask("LPOP dry");
    for _ in 0..200 {
        if !matches!(answer, Reply::Bulk(_)) {
            break;
        }
        answer = client.ask("LPOP dry");
    }
    assert_eq!(answer.error().0, "TRYAGAIN");
    assert_eq!(refused(&mut client, "LPOP dry 3"), "TRYAGAIN");
    drop(stuck);
    let deadline = Instant::now() + PATIENCE;
    while !matches!(client.ask("LPOP dry"), Reply::Bulk(_)) {
        assert!(Instant::now() < deadline, "it recovers by itself");
    }
}

#[test]
fn a_run_of_tickets_has_no_gap_and_belongs_to_one_caller() {
    let home = Home::new();
    let server = home.start();
    let at = server.redis_at();
    let clients: Vec<_> = [1_i64, 2, 7, 60, 100, 900, 3000, 10_000]
        .into_iter()
        .map(|count| {
            thread::spawn(move || {
                let mut client = Raw::open(at);
                let rounds = (20_000 / count).min(200);
                let command =
                    if count == 1 { "INCR tickets".into() } else { format!("INCRBY tickets {count}") };
                let last = |_| client.ask(&command).integer();
                (0..rounds).map(last).map(|last| (last - count + 1, last)).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut runs = Vec::new();
    for client in clients {
        let own = client.join().unwrap();
        assert!(own.windows(2).all(|pair| pair[0].1 < pair[1].0), "tickets rise for each caller");
        runs.extend(own);
    }
    runs.sort_unstable();
    assert!(runs.windows(2).all(|pair| pair[0].1 < pair[1].0), "no ticket is in two runs");
    let issued: i64 = runs.iter().map(|(first, last)| last - first + 1).sum();
    let end = runs.last().unwrap().1;
    println!("{} runs, {issued} tickets of {end}", runs.len());
    assert_eq!((runs[0].0, issued), (1, end), "one node alone leaves no gap either");
    server.terminate();
    let server = home.start();
    assert_eq!(server.redis().ask("INCR tickets").integer(), end + 1, "what was held went back exactly");
}

#[test]
fn no_key_comes_twice_whoever_takes_it_over_whichever_protocol() {
    let home = Home::new();
    let server = home.start();
    let (redis, http) = (server.redis_at(), server.address);
    let pipelined = move |command: &'static str, rounds: usize, depth: usize| {
        thread::spawn(move || {
            let mut client = Raw::open(redis);
            let words: Vec<&str> = command.split(' ').collect();
            let pipeline = array(&words).repeat(depth);
            let mut keys = Vec::new();
            for _ in 0..rounds {
                client.send(&pipeline).unwrap();
                for _ in 0..depth {
                    match client.reply().unwrap() {
                        Reply::Bulk(key) => keys.push(key),
                        other => keys.extend(other.keys()),
                    }
                }
            }
            keys
        })
    };
    let rounds = sized(40, 400);
    let mut clients = vec![
        pipelined("LPOP links", rounds, 64),
        pipelined("LPOP links", rounds, 64),
        pipelined("SPOP links", rounds * 8, 1),
        pipelined("RPOP links 100", rounds, 8),
        pipelined("LPOP links 999", rounds / 4, 3),
    ];
    for count in [1, 150] {
        clients.push(thread::spawn(move || {
            let mut connection = Connection::open(http).unwrap();
            let body = format!("{{\"count\":{count}}}");
            let take = |_| connection.ask("POST", "/v1/keyspaces/links/keys", Some(&body)).unwrap().keys();
            (0..rounds * 4).flat_map(take).collect()
        }));
    }
    let keys: Vec<String> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    let distinct: HashSet<&String> = keys.iter().collect();
    println!("{} keys", keys.len());
    assert_eq!(distinct.len(), keys.len());
    let issued = server.get("/metrics").text();
    let counted = format!("keymill_keys_issued_total{{keyspace=\"links\"}} {}", keys.len());
    assert!(issued.contains(&counted), "every key was counted once: {counted}");
}

#[test]
fn a_stop_answers_what_it_has_read_and_no_key_comes_again() {
    let home = Home::new();
    let server = home.start();
    let at = server.redis_at();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Raw::open(at);
                let pipeline = array(&["LPOP", "links"]).repeat(16);
                let mut keys = Vec::new();
                while client.send(&pipeline).is_ok() {
                    for _ in 0..16 {
                        match client.reply() {
                            Ok(Reply::Bulk(key)) => keys.push(key),
                            // The last pipeline met the end.
                            Ok(Reply::Error(text)) => assert!(text.starts_with("LOADING"), "{text}"),
                            Ok(other) => panic!("{other:?}"),
                            Err(_) => return keys,
                        }
                    }
                }
                keys
            })
        })
        .collect();
    let mut idle = server.redis();
    assert_eq!(idle.ask("PING"), Reply::Simple("PONG".into()));
    thread::sleep(Duration::from_millis(300));
    server.terminate();
    assert!(idle.ends());
    let mut seen: HashSet<String> = HashSet::new();
    let mut count = 0;
    for client in clients {
        let keys = client.join().unwrap();
        count += keys.len();
        seen.extend(keys);
    }
    assert!(count > 100 && seen.len() == count, "{count} keys");
    let server = home.start();
    for key in server.redis().ask("LPOP links 10000").keys() {
        assert!(seen.insert(key.clone()), "{key} came again");
    }
}

#[test]
fn it_listens_where_it_is_told_to_or_says_why_not() {
    let home = Home::new();
    let server = home.start();
    let file: Value = serde_json::from_slice(&std::fs::read(home.file("server.json")).unwrap()).unwrap();
    let address = server.redis_at().to_string();
    assert_eq!(file["resp"], address, "{file}");
    assert!(server.said("Redis").contains(&format!("redis://{address}")));
    let elsewhere = Home::new();
    let refused = elsewhere.server().resp(&address).run();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for named in ["--resp", "listen.resp", &address] {
        assert!(refused.stderr.contains(named), "{named}: {}", refused.stderr);
    }
    let off = elsewhere.server().resp("off").start();
    assert_eq!(off.resp, None);
    assert_eq!(off.take("links", 1).len(), 1);
    off.terminate();
    let wrong = elsewhere.server().resp("nowhere").run();
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stderr.contains("listen.resp") && wrong.stderr.contains("off"), "{}", wrong.stderr);
}

#[test]
fn redis_cli_and_redis_benchmark_work_as_they_are() {
    let home = Home::new();
    let server = home.start();
    let port = server.redis_at().port();
    let cli = |arguments: &[&str]| clients::tool("redis-cli", port, arguments).ok();
    assert_eq!(cli(&["PING"]).trim(), "PONG");
    assert_eq!(cli(&["LPOP", "links", "3"]).lines().count(), 3);
    assert_eq!(cli(&["-3", "SPOP", "links", "3"]).lines().count(), 3);
    assert_eq!(cli(&["INCR", "tickets"]).trim(), "1");
    assert_eq!(cli(&["-r", "5", "INCR", "tickets"]).lines().last(), Some("6"));
    assert!(cli(&["LPOP", "nothing"]).starts_with("NOTFOUND"));
    assert!(cli(&["INFO", "server"]).contains("keymill_version"));
    assert_eq!(cli(&["--user", "any", "--pass", "token", "--no-auth-warning", "PING"]).trim(), "PONG");

    let before = server.redis().ask("INCR tickets").integer();
    for arguments in [
        &["-n", "5000", "-q", "INCR", "tickets"][..],
        &["-n", "20000", "-P", "16", "-q", "INCR", "tickets"],
        &["-n", "20000", "-P", "64", "-q", "LPOP", "links"],
        &["-n", "2000", "-q", "LPOP", "links", "100"],
        &["-n", "2000", "-q", "-t", "ping"],
    ] {
        let benchmark = clients::tool("redis-benchmark", port, arguments);
        assert!(!benchmark.stderr.contains("WARNING"), "{benchmark:?}");
        let said = benchmark.ok();
        assert!(said.contains("requests per second") && !said.contains("Error"), "{arguments:?}: {said}");
    }
    assert_eq!(server.redis().ask("INCR tickets").integer(), before + 25_001, "one ticket for each request");
}

#[test]
fn redis_py_works_as_it_is() {
    let home = Home::new();
    clients::python("redis_py.py", home.start().redis_at().port());
}

#[test]
fn ioredis_works_as_it_is() {
    let home = Home::new();
    clients::node("ioredis.js", home.start().redis_at().port());
}

#[test]
fn the_redis_crate_works_as_it_is() -> redis::RedisResult<()> {
    use redis::Commands;

    let home = Home::new();
    let server = home.start();
    let port = server.redis_at().port();
    for url in [
        format!("redis://127.0.0.1:{port}/0"),
        format!("redis://127.0.0.1:{port}/0?protocol=resp3"),
        format!("redis://any:token@127.0.0.1:{port}"),
    ] {
        let mut connection = redis::Client::open(url)?.get_connection()?;
        let key: String = connection.lpop("links", None)?;
        assert_eq!(key.len(), 7);
        let keys: HashSet<String> = connection.lpop("links", std::num::NonZeroUsize::new(100))?;
        assert_eq!(keys.len(), 100);
        let one: String = connection.spop("links")?;
        assert_eq!(one.len(), 7);
        let first: i64 = connection.incr("tickets", 1)?;
        assert_eq!(connection.incr::<_, _, i64>("tickets", 10)?, first + 10);
        assert!(connection.llen::<_, i64>("links")? > 1_000_000_000);
        assert!(connection.exists::<_, bool>("links")?);
        let mut pipeline = redis::pipe();
        (0..200).for_each(|_| {
            pipeline.lpop("links", None);
        });
        let popped: HashSet<String> = pipeline.query(&mut connection)?;
        assert_eq!(popped.len(), 200);
        let refused = connection.lpop::<_, String>("nothing", None).unwrap_err();
        assert_eq!(refused.code(), Some("NOTFOUND"), "{refused}");
    }
    Ok(())
}
