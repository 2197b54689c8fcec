//! Nodes on a three-member etcd: its leader may die or be cut off without any caller noticing, and a restored
//! snapshot is found out.

use std::{
    collections::HashSet,
    fs,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use keymill_engines::etcd::Etcd;

use crate::{
    harness::{Home, Server},
    node, take_new,
};

/// How long a node has to get to know its callers, so that its stock is made for them.
const WARM_UP: Duration = Duration::from_secs(4);
/// How long the leader is away. An election takes half a second.
const AWAY: Duration = Duration::from_secs(5);
const BETWEEN_TAKES: Duration = Duration::from_millis(5);

fn url(etcd: &Etcd) -> String {
    format!("etcd://{}", etcd.addresses())
}

/// Takes tickets until told to stop. Not one may be refused, and none come twice.
fn take_without_pause(server: &Server, seen: &Mutex<HashSet<String>>, stop: &AtomicBool) {
    let mut connection = server.connect();
    while !stop.load(Ordering::Relaxed) {
        let answer = connection.ask("POST", "/v1/keyspaces/tickets/keys", Some("{\"count\":10}")).unwrap();
        assert_eq!(answer.status, 200, "a caller noticed: {answer:?}");
        for key in answer.keys() {
            assert!(seen.lock().unwrap().insert(key.clone()), "ticket {key} came again");
        }
        thread::sleep(BETWEEN_TAKES);
    }
}

#[test]
fn the_leader_dies_or_is_cut_off_and_no_caller_notices() {
    let mut etcd = Etcd::cluster(3).unwrap();
    let homes = [Home::new(), Home::new()];
    let servers = homes.each_ref().map(|home| node(home, &url(&etcd)).start());
    let (seen, stop) = (Mutex::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for server in &servers {
            scope.spawn(|| take_without_pause(server, &seen, &stop));
        }
        thread::sleep(WARM_UP);
        let leader = etcd.leader().unwrap();
        etcd.kill_member(leader).unwrap();
        thread::sleep(AWAY);
        etcd.restart_member(leader).unwrap();

        let leader = etcd.leader().unwrap();
        let cut = etcd.cut_off(leader).unwrap();
        thread::sleep(AWAY);
        drop(cut);
        thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
    });
    let taken = seen.into_inner().unwrap().len();
    println!("{taken} tickets, no refusal");
    assert!(taken > 1_000, "{taken} tickets are no load");
}

/// Ten thousand tickets after the snapshot, which is then put back under the same identity.
fn restored(etcd: &mut Etcd, server: Server) -> HashSet<String> {
    let mut seen = HashSet::new();
    take_new(&server, "tickets", 100, &mut seen);
    let snapshot = etcd.snapshot("yesterday").unwrap();
    for _ in 0..5 {
        take_new(&server, "tickets", 5_000, &mut seen);
    }
    server.kill();
    etcd.restore(&snapshot, "first").unwrap();
    seen
}

#[test]
fn a_restored_snapshot_halts_the_ledger_until_it_is_advanced() {
    let mut etcd = Etcd::cluster(3).unwrap();
    let home = Home::new();
    let launch = node(&home, &url(&etcd));
    let mut seen = restored(&mut etcd, launch.start());
    let server = launch.start_unready();
    let reasons = server.until_unready("ledger_halted");
    assert!(reasons.to_string().contains("went back"), "{reasons}");
    home.run(&["ledger", "advance", "--yes", "--ledger", &url(&etcd)]).ok();
    server.until_ready();
    take_new(&server, "tickets", 5_000, &mut seen);
}

#[test]
fn control_without_a_witness_the_same_snapshot_repeats_tickets() {
    let mut etcd = Etcd::cluster(3).unwrap();
    let home = Home::new();
    let launch = node(&home, &url(&etcd));
    let seen = restored(&mut etcd, launch.start());
    fs::remove_file(home.file("witness")).unwrap();
    let server = launch.start();
    let again =
        server.take("tickets", 5_000).iter().filter(|key| seen.contains(&format!("tickets {key}"))).count();
    println!("guard off: {again} tickets came again");
    assert!(again > 0, "the snapshot lost nothing, and the test above proves nothing");
}
