//! Two nodes of one ledger and one pool in Redis: one of them fills, the other takes over, both pop.

use std::{collections::HashSet, thread, time::Instant};

use keymill_engines::{
    postgres::Postgres,
    redis::{DURABLE, Redis},
};
use redis::Commands;
use serde_json::json;

mod harness;
use harness::{Home, PATIENCE, Server, sized};

fn node(home: &Home, postgres: &Postgres, name: &str) -> Server {
    home.server().arguments(&["--ledger", &postgres.url(), "--node", name]).start()
}

#[test]
fn a_standby_takes_over_and_both_nodes_fill_one_pool_without_repeating_a_key() {
    let postgres = Postgres::start().unwrap();
    let redis = Redis::start(DURABLE).unwrap();
    let mut connection =
        redis::Client::open(format!("redis://127.0.0.1:{}", redis.port())).unwrap().get_connection().unwrap();
    let (here, there) = (Home::new(), Home::new());
    let mut nodes = [node(&here, &postgres, "a"), node(&there, &postgres, "b")];
    let capacity = sized(40_000, 400_000);
    nodes[0].create(json!({
        "name": "codes", "scheme": "pool", "store": "redis", "alphabet": "decimal", "length": 8,
        "order": "sequential", "capacity": capacity, "redis_url": format!("redis://127.0.0.1:{}", redis.port()),
    }));
    let (mut popped, mut taken) = (Vec::new(), Vec::new());
    for round in 0..sized(4, 10) {
        let deadline = Instant::now() + PATIENCE;
        while connection.llen::<_, usize>("codes").unwrap() < capacity {
            assert!(Instant::now() < deadline, "nobody fills: {}", nodes[0].log() + &nodes[1].log());
            thread::yield_now();
        }
        for node in &nodes {
            taken.extend(node.take("codes", 100));
        }
        let portion: Vec<String> =
            redis::cmd("LPOP").arg("codes").arg(capacity / 2).query(&mut connection).unwrap();
        popped.extend(portion);
        // Whoever fills is killed, in the middle or before it could begin.
        let filler: Option<String> = connection.get("{codes}:keymill:filler").unwrap();
        let of = usize::from(filler.as_deref() == Some("b"));
        let (home, name) = if of == 0 { (&here, "a") } else { (&there, "b") };
        let [a, b] = nodes;
        let (ended, other) = if of == 0 { (a, b) } else { (b, a) };
        if round % 2 == 0 {
            ended.kill()
        } else {
            ended.terminate()
        }
        let begun_again = node(home, &postgres, name);
        nodes = if of == 0 { [begun_again, other] } else { [other, begun_again] };
    }
    let deadline = Instant::now() + PATIENCE;
    while connection.llen::<_, usize>("codes").unwrap() < capacity {
        assert!(Instant::now() < deadline, "nobody fills: {}", nodes[0].log() + &nodes[1].log());
        thread::yield_now();
    }
    let rest: Vec<String> = connection.lrange("codes", 0, -1).unwrap();
    let numbers: Vec<usize> = popped.iter().chain(&rest).map(|key| key.parse().unwrap()).collect();
    assert!(numbers.is_sorted(), "they were pushed in order");
    let all: HashSet<usize> =
        numbers.iter().copied().chain(taken.iter().map(|key| key.parse().unwrap())).collect();
    assert_eq!(all.len(), numbers.len() + taken.len(), "a key came twice");
}
