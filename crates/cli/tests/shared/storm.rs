//! Three nodes over one engine, all killed again and again under parallel load: no key is seen twice.
//!
//! `KEYMILL_FULL=1` kills more often and takes ten million keys, `KEYMILL_SEED` repeats a run's kill times.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, RwLock},
    thread,
    time::Duration,
};

use keymill_engines::{etcd::Etcd, mariadb::MariaDb, postgres::Postgres};

use crate::{
    harness::{Connection, Home, Server, dice::Dice, keys::Seen, sized},
    node,
};

const NODES: usize = 3;
/// What clients ask for, over and over: few keys, and more than fit in one answer, which are streamed.
const ERRANDS: [(&str, u32); 3] = [("links", 100), ("tickets", 500), ("links", 20_000)];
/// How long a client waits before it tries a node that is down, or has none.
const RETRY: Duration = Duration::from_millis(10);

/// The engine under the nodes, and how it is hurt.
trait Engine {
    fn url(&self) -> String;
    /// Kills all of it or a member, and starts that again.
    fn hurt(&mut self, dice: &mut Dice);
}

impl Engine for Postgres {
    fn url(&self) -> String {
        self.url()
    }
    fn hurt(&mut self, dice: &mut Dice) {
        self.crash().unwrap();
        thread::sleep(Duration::from_millis(dice.below(500)));
        self.restart().unwrap();
    }
}

impl Engine for MariaDb {
    fn url(&self) -> String {
        self.url()
    }
    fn hurt(&mut self, dice: &mut Dice) {
        self.crash().unwrap();
        thread::sleep(Duration::from_millis(dice.below(500)));
        self.restart().unwrap();
    }
}

/// One member at a time, the leader for preference: the others go on.
impl Engine for Etcd {
    fn url(&self) -> String {
        format!("etcd://{}", self.addresses())
    }
    fn hurt(&mut self, dice: &mut Dice) {
        let member = self.leader().unwrap();
        self.kill_member(member).unwrap();
        thread::sleep(Duration::from_millis(dice.below(1_500)));
        self.restart_member(member).unwrap();
    }
}

/// Clients of one node, at whatever address it has at the moment.
struct Clients {
    at: Arc<RwLock<Option<SocketAddr>>>,
    threads: Vec<thread::JoinHandle<Seen>>,
}

impl Clients {
    fn start(stop: &Arc<Mutex<bool>>) -> Self {
        let at = Arc::new(RwLock::new(None));
        let client = |errand: (&'static str, u32)| {
            let (at, stop) = (at.clone(), stop.clone());
            thread::spawn(move || run(errand, &at, &stop))
        };
        let threads = ERRANDS.into_iter().map(client).collect();
        Self { at, threads }
    }

    fn aim(&self, at: Option<SocketAddr>) {
        *self.at.write().unwrap() = at;
    }
}

fn run((keyspace, count): (&'static str, u32), at: &RwLock<Option<SocketAddr>>, stop: &Mutex<bool>) -> Seen {
    let path = format!("/v1/keyspaces/{keyspace}/keys");
    let body = format!("{{\"count\":{count}}}");
    // A longer test asks less often, so that its memory holds what it saw.
    let rest = Duration::from_millis(sized(50, 250) as u64);
    let (mut seen, mut connection) = (Seen::default(), None);
    while !*stop.lock().unwrap() {
        if connection.is_none() {
            let address = *at.read().unwrap();
            connection = address.and_then(|address| Connection::open(address).ok());
        }
        let Some(open) = &mut connection else {
            thread::sleep(RETRY);
            continue;
        };
        match open.send("POST", &path, &[("Accept", "text/plain")], body.as_bytes()) {
            Ok(answer) if answer.status == 200 => {
                // Whole lines were seen, even of an answer that was cut off.
                seen.log(keyspace, &answer.lines());
                if !answer.whole {
                    connection = None;
                }
            }
            Ok(answer) => {
                assert_eq!(answer.status, 503, "{answer:?}");
                assert!(answer.header("retry-after").is_some(), "{answer:?}");
                thread::sleep(RETRY);
            }
            Err(_) => connection = None,
        }
        thread::sleep(rest);
    }
    seen
}

fn storm(engine: &mut dyn Engine) {
    let (kills, hurt_every) = (sized(9, 51), sized(4, 5));
    let wanted = sized(20_000, 10_000_000) as u64;
    let mut dice = Dice::thrown();
    let homes: Vec<Home> = (0..NODES).map(|_| Home::new()).collect();
    let url = engine.url();
    let start = |home: &Home| node(home, &url).start_unready();
    let mut servers: Vec<Option<Server>> = homes.iter().map(|home| Some(start(home))).collect();
    servers.iter().flatten().for_each(Server::until_ready);
    let stop = Arc::new(Mutex::new(false));
    let clients: Vec<Clients> = servers.iter().map(|_| Clients::start(&stop)).collect();
    for (clients, server) in clients.iter().zip(&servers) {
        clients.aim(server.as_ref().map(|server| server.address));
    }
    let mut hurts = 0;
    for kill in 0..kills {
        thread::sleep(Duration::from_millis(100 + dice.below(700)));
        let one = usize::try_from(dice.below(NODES as u64)).unwrap();
        clients[one].aim(None);
        servers[one].take().expect("it was started").kill();
        if kill % hurt_every == 0 {
            engine.hurt(&mut dice);
            hurts += 1;
        }
        let server = start(&homes[one]);
        clients[one].aim(Some(server.address));
        servers[one] = Some(server);
    }
    servers.iter().flatten().for_each(Server::until_ready);
    thread::sleep(Duration::from_millis(500));
    let mut seen = Seen::default();
    *stop.lock().unwrap() = true;
    for client in clients.into_iter().flat_map(|clients| clients.threads) {
        seen.join(client.join().expect("a client saw what it must not see"));
    }
    while seen.total() < wanted {
        for server in servers.iter().flatten() {
            let body = r#"{"count":200000}"#;
            let path = "/v1/keyspaces/links/keys";
            let answer = server.connect().send("POST", path, &[("Accept", "text/plain")], body.as_bytes());
            seen.log("links", &answer.expect("it answers").lines());
        }
    }
    let duplicates = seen.duplicates();
    println!(
        "{kills} nodes killed, {hurts} times the engine, {} keys, {duplicates} duplicates",
        seen.total()
    );
    assert_eq!(duplicates, 0);
}

#[test]
fn three_nodes_on_postgres_repeat_nothing() {
    storm(&mut Postgres::start().unwrap());
}

#[test]
fn three_nodes_on_three_etcds_repeat_nothing() {
    storm(&mut Etcd::cluster(3).unwrap());
}

#[test]
fn three_nodes_on_mariadb_repeat_nothing() {
    storm(&mut MariaDb::start().unwrap());
}
