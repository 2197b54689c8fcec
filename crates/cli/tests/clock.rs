//! The real binary on a clock that is stepped under it, forwards and backwards, running and across kills:
//! no time-ordered ID comes twice, and each worker's IDs only rise.
//!
//! libfaketime reads an offset from a file at every look at the clock; the monotonic clock stays true.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use keymill_id::Layout;

mod harness;
use harness::{Home, Launch, Server, dice::Dice};

/// Where Debian's `faketime` package puts it.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
const KEYSPACES: [(&str, &str); 3] = [("ev-wait", "wait"), ("ev-logical", "logical"), ("ev-fail", "fail")];

struct Hands {
    file: PathBuf,
}

impl Hands {
    fn new(folder: &Path) -> Self {
        let hands = Self { file: folder.join("offset") };
        hands.set(0.0);
        hands
    }

    /// Written beside and moved, so that nobody reads half of it.
    fn set(&self, seconds: f64) {
        let beside = self.file.with_extension("new");
        std::fs::write(&beside, format!("{seconds:+.3}\n")).unwrap();
        std::fs::rename(&beside, &self.file).unwrap();
    }

    fn launch(&self, home: &Home) -> Launch {
        assert!(Path::new(LIBRARY).exists(), "libfaketime is missing: `cargo xtask test` installs it");
        home.server()
            .environment("LD_PRELOAD", LIBRARY)
            .environment("FAKETIME_TIMESTAMP_FILE", self.file.to_str().unwrap())
            .environment("FAKETIME_NO_CACHE", "1")
            .environment("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .environment("KEYMILL_LIMITS__TAKE_TIMEOUT", "300ms")
    }
}

/// Every ID that was acknowledged, and the last of each worker since the server was started.
#[derive(Default)]
struct Checked {
    seen: HashSet<(String, u64)>,
    last: HashMap<(String, u32), u64>,
    refused: HashMap<String, u64>,
}

impl Checked {
    fn take(&mut self, server: &Server, keyspace: &str, count: u32) {
        let layout = Layout::parse("default", None, None).unwrap();
        let answer = server.try_take(keyspace, count);
        if answer.status != 200 {
            assert_eq!(answer.status, 503, "{answer:?}");
            *self.refused.entry(answer.code()).or_default() += 1;
            return;
        }
        for key in answer.keys() {
            let id: u64 = key.parse().unwrap();
            assert!(self.seen.insert((keyspace.to_owned(), id)), "{keyspace}: ID {id} came twice");
            let worker = layout.decompose(id).expect("an ID of the layout").worker;
            let last = self.last.insert((keyspace.to_owned(), worker), id);
            assert!(last.is_none_or(|last| last < id), "{keyspace}: worker {worker} went back to {id}");
        }
    }
}

#[test]
fn stepping_the_clock_while_running_and_across_kills_repeats_no_id() {
    let full = std::env::var_os("KEYMILL_FULL").is_some();
    let (steps, kill_every) = if full { (500, 5) } else { (30, 6) };
    let home = Home::new();
    let hands = Hands::new(home.path());
    let launch = hands.launch(&home);
    let mut dice = Dice::thrown();
    let mut server = launch.start();
    for (name, strategy) in KEYSPACES {
        let body = format!(
            r#"{{"name":"{name}","scheme":"snowflake","on_rollback":"{strategy}","outage_budget":"3s",
                "rollback_wait":"100ms","recycle_delay":"0ms"}}"#
        );
        let answer = server.post("/v1/keyspaces", &body);
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let mut checked = Checked::default();
    let mut kills = 0;
    for step in 0..steps {
        // ±1 ms to ±1 h, small ones as often as large ones.
        let size = 10_f64.powf(f64::from(u32::try_from(dice.below(6_500)).unwrap()) / 1000.0) / 1000.0;
        let sign = if dice.below(2) == 0 { 1.0 } else { -1.0 };
        hands.set((sign * size).clamp(-3600.0, 3600.0));
        if step % kill_every == kill_every - 1 {
            server.kill();
            kills += 1;
            // Restarted at once, on whatever the clock says now. A new life's workers start anew.
            checked.last.clear();
            server = launch.start();
        }
        for (name, _) in KEYSPACES {
            for count in [1, 50, 700] {
                checked.take(&server, name, count);
            }
        }
        // Half of the time the clock is put right again while it runs.
        if dice.below(2) == 0 {
            hands.set(0.0);
            thread::sleep(Duration::from_millis(20));
            for (name, _) in KEYSPACES {
                checked.take(&server, name, 20);
            }
        }
    }
    // With the clock right, everything heals by itself.
    hands.set(0.0);
    server.kill();
    let server = launch.start();
    checked.last.clear();
    for (name, _) in KEYSPACES {
        let before = checked.seen.len();
        for _ in 0..50 {
            checked.take(&server, name, 10);
            if checked.seen.len() > before {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        assert!(checked.seen.len() > before, "{name} did not come back");
    }
    println!(
        "{steps} clock steps, {kills} kills, {} IDs, 0 duplicates, refused: {:?}",
        checked.seen.len(),
        checked.refused
    );
}

#[test]
fn ten_million_ids_as_fast_as_possible_are_unique_and_ordered() {
    let full = std::env::var_os("KEYMILL_FULL").is_some();
    let requests = if full { 10 } else { 1 };
    let home = Home::new();
    let server = home.start();
    let mut last = 0;
    let mut total = 0_u64;
    for _ in 0..requests {
        let answer = server
            .connect()
            .send("POST", "/v1/keyspaces/events/keys", &[("Accept", "text/plain")], br#"{"count":1000000}"#)
            .unwrap();
        assert_eq!(answer.status, 200);
        for line in answer.lines() {
            let id: u64 = line.parse().unwrap();
            assert!(id > last, "{id} after {last}");
            last = id;
            total += 1;
        }
    }
    assert_eq!(total, requests * 1_000_000);
    println!("{total} IDs, all unique, all rising");
}
