//! A disk that lies, fills up or fails: the server serves what it may, or refuses or stops by name.
//!
//! Proven here on the real binary: whatever bit of the database is flipped and wherever it is cut off,
//! no key comes again and nobody waits for ever; a full disk is survived on stock and recovered from;
//! the n-th sync or write that fails stops the server with a named error, and after a restart no key
//! comes again.
//!
//! `KEYMILL_FULL=1` does more of each, `KEYMILL_SEED` repeats a run.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

mod harness;
use harness::{Connection, Finished, Guarded, Home, PATIENCE, Server, Starting, dice::Dice, sized};

const KEYSPACES: [&str; 3] = ["links", "tickets", "tiny"];
/// Keys taken from each keyspace after a fault: more than were left unissued before it.
const AFTER: u32 = 20;

/// What a data dir holds, and every key that was issued from it.
struct Past {
    files: Vec<(String, Vec<u8>)>,
    seen: HashSet<String>,
}

impl Past {
    /// Serves for a while, stops cleanly, serves again, and ends as told.
    fn make(killed: bool) -> Self {
        let home = Home::new();
        let mut seen = HashSet::new();
        let server = home.start();
        server.create(
            json!({"name": "tiny", "scheme": "pool", "alphabet": "base36", "length": 3, "grow": true}),
        );
        take_new(&server, 700, &mut seen);
        server.terminate();
        let server = home.start();
        take_new(&server, 1500, &mut seen);
        if killed {
            server.kill();
        } else {
            server.terminate();
        }
        let files = fs::read_dir(home.data()).unwrap().map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
        });
        // What the kernel shares between processes is made anew.
        let kept = files.filter(|(name, _)| !name.ends_with("-shm") && name != "server.json");
        Self { files: kept.collect(), seen }
    }

    /// A data dir as it was, but for one file.
    fn lay_out(&self, changed: &str, bytes: &[u8]) -> Home {
        let home = Home::new();
        fs::create_dir(home.data()).unwrap();
        for (name, kept) in &self.files {
            fs::write(home.file(name), if name == changed { bytes } else { kept }).unwrap();
        }
        home
    }

    fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(file, _)| file == name).map(|(_, bytes)| bytes.as_slice())
    }
}

/// Keys of every keyspace, none of which may have been seen before.
#[track_caller]
fn take_new(server: &Server, count: u32, seen: &mut HashSet<String>) {
    for keyspace in KEYSPACES {
        note(keyspace, server.take(keyspace, count), seen);
    }
}

#[track_caller]
fn note(keyspace: &str, keys: Vec<String>, seen: &mut HashSet<String>) {
    for key in keys {
        assert!(seen.insert(format!("{keyspace} {key}")), "{keyspace} key {key} came again");
    }
}

/// Starts a server on a damaged data dir; callers of what it cannot refill need not wait long.
fn start_on(home: &Home) -> Starting {
    home.server().environment("KEYMILL_LIMITS__TAKE_TIMEOUT", "300ms").spawn()
}

/// How a start on a damaged data dir went. Whatever came of it, no key came again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It serves every keyspace.
    Serves,
    /// It serves some, and refuses the others by a code.
    ServesSome,
    Halted,
    /// It ended with code 1 and said why.
    Refused,
}

fn outcome(starting: Starting, past: &HashSet<String>) -> Outcome {
    let mut server = match starting.listening() {
        Ok(server) => server,
        Err(ended) => return refused(&ended),
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        // It may stop while we ask.
        let asked = Connection::open(server.address).and_then(|mut open| open.ask("GET", "/readyz", None));
        match asked {
            Ok(answer) if answer.status == 200 => break,
            Ok(answer) if answer.json()["reasons"][0]["code"] == "ledger_halted" => return Outcome::Halted,
            _ => {}
        }
        if server.has_ended(Duration::from_millis(2)).is_some() {
            return refused(&server.ended());
        }
        assert!(Instant::now() < deadline, "it is neither ready, nor halted, nor gone: {}", server.log());
    }
    let mut seen = HashSet::new();
    let mut outcome = Outcome::Serves;
    for keyspace in KEYSPACES {
        let body = format!("{{\"count\":{AFTER}}}");
        let path = format!("/v1/keyspaces/{keyspace}/keys");
        let taken =
            Connection::open(server.address).and_then(|mut open| open.ask("POST", &path, Some(&body)));
        match taken {
            Ok(answer) if answer.status == 200 => {
                for key in answer.keys() {
                    let key = format!("{keyspace} {key}");
                    assert!(!past.contains(&key), "{key} came again: {}", server.log());
                    assert!(seen.insert(key));
                }
            }
            Ok(answer) => {
                assert!(!answer.code().is_empty(), "{answer:?}");
                outcome = Outcome::ServesSome;
            }
            Err(_) if server.has_ended(PATIENCE).is_some() => return refused(&server.ended()),
            Err(error) => panic!("it neither answers nor ends: {error}\n{}", server.log()),
        }
    }
    outcome
}

#[track_caller]
fn refused(ended: &Finished) -> Outcome {
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let named = ended.stderr.lines().any(|line| line.starts_with("keymill: "));
    assert!(named, "it did not say why: {ended:#?}");
    Outcome::Refused
}

fn count(tally: &mut BTreeMap<Outcome, u32>, outcome: Outcome) {
    *tally.entry(outcome).or_default() += 1;
}

#[test]
fn flipped_bits_never_bring_a_key_again() {
    let mut dice = Dice::thrown();
    let pasts = [Past::make(false), Past::make(true)];
    let mut tally = BTreeMap::new();
    for trial in 0..sized(240, 1500) {
        let past = &pasts[trial % 2];
        let name = if trial % 4 == 1 { "keymill.db-wal" } else { "keymill.db" };
        let mut bytes = past.file(name).expect("a kill leaves the log").to_vec();
        let mut at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
        if trial % 3 != 0 {
            // Most of a small database is unused and zero; aim at the rest.
            at = (at..bytes.len()).chain(0..at).find(|at| bytes[*at] != 0).expect("it is not empty");
        }
        bytes[at] ^= 1 << dice.below(8);
        let home = past.lay_out(name, &bytes);
        count(&mut tally, outcome(start_on(&home), &past.seen));
    }
    println!("bit flips: {tally:?}");
    assert!(tally.len() > 1, "some flips hit something");
}

#[test]
fn a_database_that_was_cut_off_never_brings_a_key_again() {
    let mut dice = Dice::thrown();
    let pasts = [Past::make(false), Past::make(true)];
    let mut tally = BTreeMap::new();
    for trial in 0..sized(60, 300) {
        let past = &pasts[trial % 2];
        let name = if trial % 4 == 1 { "keymill.db-wal" } else { "keymill.db" };
        let bytes = past.file(name).expect("a kill leaves the log");
        let mut length = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
        match trial % 10 {
            // Nothing at all, and whole pages.
            0 => length = 0,
            1..5 => length -= length % 4096,
            _ => {}
        }
        let home = past.lay_out(name, &bytes[..length]);
        count(&mut tally, outcome(start_on(&home), &past.seen));
    }
    println!("truncations: {tally:?}");
    assert!(
        tally.contains_key(&Outcome::Refused),
        "an empty database is refused by who remembers a full one"
    );
}

/// A small disk of its own: a tmpfs that only this process tree sees, gone with its holder.
struct SmallDisk {
    holder: Guarded,
    folder: PathBuf,
}

impl SmallDisk {
    fn mount(folder: &Path, size: &str) -> Self {
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        let script =
            "mount -t tmpfs -o \"size=$2\" tmpfs \"$1\" && cd \"$1\" && echo mounted && exec sleep 600";
        command
            .args(["sh", "-c", script, "sh"])
            .arg(folder)
            .arg(size)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut holder = Guarded(command.spawn().expect("unshare, of util-linux"));
        let mut said = String::new();
        BufReader::new(holder.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said.trim(), "mounted", "a mount namespace is needed: root, or user namespaces");
        Self { holder, folder: folder.to_owned() }
    }

    /// The folder, seen from outside.
    fn seen_at(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/cwd", self.holder.0.id()))
    }

    /// A server that lives on this disk.
    fn server(&self) -> harness::Launch {
        let holder = self.holder.0.id().to_string();
        let mut wrapper = vec!["nsenter", "--target", &holder, "--mount"];
        if !rustix::process::geteuid().is_root() {
            wrapper.extend(["--user", "--preserve-credentials"]);
        }
        // The holder's working dir is the mount; a path would be looked up outside of it.
        wrapper.extend(["--wd", "--"]);
        harness::Launch::new(&self.folder).behind(&wrapper).data_seen_at(&self.seen_at().join("keymill-data"))
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let mut ballast = fs::File::create(self.seen_at().join("ballast")).unwrap();
        for size in [64 << 10, 4096, 1] {
            while std::io::Write::write_all(&mut ballast, &vec![0; size]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.seen_at().join("ballast")).unwrap();
    }
}

#[test]
fn a_full_disk_is_survived_on_stock_and_recovered_from() {
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(folder.path(), "8m");
    let mut seen = HashSet::new();
    let launch = disk.server().environment("KEYMILL_LIMITS__TAKE_TIMEOUT", "200ms");
    let mut server = launch.start();
    server.create(json!({"name": "tiny", "scheme": "pool", "alphabet": "base36", "length": 3, "grow": true}));
    for keyspace in KEYSPACES {
        // Little, so that it is soon used up.
        let body = Some(r#"{"stock_max":"2K"}"#);
        assert_eq!(server.ask("PATCH", &format!("/v1/keyspaces/{keyspace}"), body).status, 200);
    }
    take_new(&server, 100, &mut seen);
    for round in 0..sized(3, 10) {
        disk.fill();
        let (mut served, mut refusals) = (0, BTreeMap::<String, u32>::new());
        // Until each keyspace has said no a few times in a row; what is in stock goes out before.
        for keyspace in KEYSPACES {
            let mut in_a_row = 0;
            for _ in 0..20_000 {
                let answer = server.try_take(keyspace, 50);
                if answer.status == 200 {
                    note(keyspace, answer.keys(), &mut seen);
                    (served, in_a_row) = (served + 50, 0);
                } else {
                    assert_eq!(answer.status, 503, "{answer:?}");
                    *refusals.entry(answer.code()).or_default() += 1;
                    in_a_row += 1;
                }
                if in_a_row == 3 {
                    break;
                }
            }
            assert_eq!(in_a_row, 3, "{keyspace} never ran out");
        }
        println!("full disk, round {round}: {served} keys from stock, then {refusals:?}");
        assert!(served > 0, "stock is for this");
        assert!(refusals.keys().all(|code| ["ledger_unavailable", "out_of_stock"].contains(&code.as_str())));
        let health = server.get("/healthz");
        assert_eq!(health.status, 200, "the process lives: {health:?}");
        assert_eq!(health.json()["ledger"]["state"], "unreachable", "and says what is wrong: {health:?}");

        if round % 2 == 1 {
            // Killed while full, and started again before there is room.
            server.kill();
            match launch.spawn().listening() {
                Ok(started) => started.kill(),
                Err(ended) => assert_eq!(refused(&ended), Outcome::Refused),
            }
            disk.free();
            server = launch.start();
        } else {
            disk.free();
        }
        let deadline = Instant::now() + PATIENCE;
        for keyspace in KEYSPACES {
            loop {
                let answer = server.try_take(keyspace, 100);
                if answer.status == 200 {
                    note(keyspace, answer.keys(), &mut seen);
                    break;
                }
                assert!(Instant::now() < deadline, "it did not recover: {answer:?}\n{}", server.log());
            }
        }
    }
    server.kill();
    let server = launch.start();
    take_new(&server, 1000, &mut seen);
    server.terminate();
}

#[test]
fn a_quiet_server_says_when_its_ledger_is_gone_and_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(folder.path(), "8m");
    let server = disk.server().environment("KEYMILL_LEDGER__HEARTBEAT", "100ms").start();
    let until = |expected: &str| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let health = server.get("/healthz").json();
            if health["ledger"]["state"] == expected {
                return;
            }
            assert!(Instant::now() < deadline, "not {expected}: {health}\n{}", server.log());
            thread::sleep(Duration::from_millis(10));
        }
    };
    for _ in 0..2 {
        until("ok");
        disk.fill();
        until("unreachable");
        let ready = server.get("/readyz");
        assert_eq!(ready.status, 200, "there is stock");
        let checks = ready.json()["checks"].as_array().unwrap().clone();
        let ledger = checks.iter().find(|check| check["check"] == "ledger").unwrap();
        assert_eq!(ledger["state"], "warning", "{checks:?}");
        assert!(ledger["next"].as_str().unwrap().contains("bring its engine back"), "{ledger}");
        assert_eq!(server.take("tickets", 1).len(), 1);
        disk.free();
    }
    until("ok");
}

/// Which call fails, on which file of the data dir, when, and with what.
struct Fault {
    calls: &'static str,
    error: &'static str,
    file: Option<&'static str>,
    when: &'static str,
}

/// Runs a server whose system calls fail as told, under load, until it ends or has had enough of it.
/// Says whether a call failed, and whether it ended.
fn run_with(fault: &Fault, home: &Home, seen: &mut HashSet<String>) -> (bool, bool) {
    let trace = home.path().join("strace");
    let Fault { calls, error, file, when } = fault;
    let mut wrapper = ["strace", "-f", "--seccomp-bpf", "-D", "-qq", "-o", trace.to_str().unwrap()]
        .map(str::to_owned)
        .to_vec();
    wrapper.extend(["-e".to_owned(), format!("trace={calls}")]);
    wrapper.extend(["-e".to_owned(), format!("inject={calls}:error={error}:when={when}")]);
    if let Some(file) = file {
        wrapper.extend(["-P".to_owned(), home.file(file).display().to_string()]);
    }
    let launch = home.server().behind(&wrapper).environment("KEYMILL_LIMITS__TAKE_TIMEOUT", "300ms");
    let ended = match launch.spawn().listening() {
        Err(ended) => {
            assert_eq!(ended.code, Some(1), "{ended:#?}");
            true
        }
        Ok(server) => drive(server, seen),
    };
    let traced = fs::read_to_string(&trace).unwrap_or_default();
    (traced.contains("(INJECTED)"), ended)
}

/// Takes keys, so that stock is refilled, until the server ends; stops it if it does not.
fn drive(mut server: Server, seen: &mut HashSet<String>) -> bool {
    let mut refused = 0;
    let deadline = Instant::now() + PATIENCE;
    for _ in 0..40 {
        for keyspace in KEYSPACES {
            let path = format!("/v1/keyspaces/{keyspace}/keys");
            let taken = Connection::open(server.address)
                .and_then(|mut open| open.ask("POST", &path, Some("{\"count\":300}")));
            match taken {
                Ok(answer) if answer.status == 200 && answer.whole => note(keyspace, answer.keys(), seen),
                Ok(answer) if answer.code() == "starting" => {
                    assert!(Instant::now() < deadline, "it does not come up: {}", server.log());
                    thread::sleep(Duration::from_millis(20));
                }
                Ok(answer) => {
                    assert!(answer.status >= 500 && !answer.code().is_empty(), "{answer:?}");
                    refused += 1;
                }
                Err(_) => {
                    let status = server.has_ended(PATIENCE);
                    let Some(status) = status else {
                        panic!("it neither answers nor ends: {}", server.log())
                    };
                    assert_eq!(status.code(), Some(1), "{}", server.log());
                    return true;
                }
            }
        }
        if refused > 12 {
            break;
        }
    }
    if server.has_ended(Duration::ZERO).is_some() {
        return true;
    }
    server.signal(rustix::process::Signal::TERM);
    assert!(server.has_ended(PATIENCE).is_some(), "it does not stop: {}", server.log());
    false
}

#[test]
fn the_nth_sync_that_fails_stops_the_server_and_repeats_nothing() {
    assert!(
        Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|status| status.success()),
        "strace is missing: `cargo xtask test` installs it"
    );
    const SYNC: &str = "fsync,fdatasync";
    const WRITE: &str = "write,pwrite64";
    let (wal, witness, database) = (Some("keymill.db-wal"), Some("witness"), Some("keymill.db"));
    let mut faults = Vec::new();
    for when in ["1", "2", "3", "4", "6", "9", "14"] {
        faults.push(Fault { calls: SYNC, error: "EIO", file: wal, when });
    }
    for when in ["1", "2", "3", "5"] {
        faults.push(Fault { calls: SYNC, error: "EIO", file: witness, when });
        faults.push(Fault { calls: SYNC, error: "EIO", file: None, when });
    }
    for when in ["1", "2+"] {
        faults.push(Fault { calls: SYNC, error: "EIO", file: database, when });
        faults.push(Fault { calls: WRITE, error: "EIO", file: witness, when });
    }
    for when in ["1", "5", "8+", "20", "33+"] {
        faults.push(Fault { calls: WRITE, error: "EIO", file: wal, when });
        faults.push(Fault { calls: WRITE, error: "ENOSPC", file: wal, when });
    }
    let past = Past::make(false);
    let (mut hit, mut stopped) = (0, 0);
    for fault in &faults {
        let home = past.lay_out("", &[]);
        let mut seen = past.seen.clone();
        let (injected, ended) = run_with(fault, &home, &mut seen);
        let Fault { calls, error, file, when } = fault;
        let file = file.unwrap_or("any file");
        println!("{calls} on {file}, {error} at {when}: injected {injected}, ended {ended}");
        let log = fs::read_to_string(home.path().join("stderr")).unwrap();
        if ended {
            assert!(injected, "it ended without a fault: {log}");
            let named = log.lines().any(|line| line.starts_with("keymill: "));
            assert!(named, "it did not say why: {log}");
        }
        assert!(!log.contains("panicked"), "{log}");
        if injected && *calls == SYNC && file != "keymill.db" {
            // Never ask a second time: the kernel may have dropped what it could not write.
            assert!(ended, "a sync failed, and it went on: {log}");
        }
        hit += u32::from(injected);
        stopped += u32::from(ended);
        // With a good disk again, it goes on above everything that was seen.
        let server = home.start();
        take_new(&server, 2000, &mut seen);
        server.kill();
    }
    println!("{} faults, {hit} met the server, {stopped} stopped it, no key came again", faults.len());
    assert!(hit as usize * 10 >= faults.len() * 7, "most faults must hit something");
}
