//! Three nodes on one PostgreSQL, next to what is commonly done without them: every client moves one row at a
//! time from the unused keys to the used ones. And what a reserve costs there with a million claims.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use keymill_engines::postgres::{Postgres, program};
use keymill_id::KeyspaceName;
use keymill_ledger::{Ledger, LedgerId, SqlStore, StoreOptions, Timestamp, Tls, Track, ops};

use crate::{
    compare,
    ledger::{TestNode, median, metric},
    process::Server,
};

const NODES: usize = 3;
/// For the rows and for the nodes alike.
const CLIENTS: usize = 48;
const SECONDS: u64 = 10;
const ROWS: u32 = 400_000;
const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;
const BATCH: u32 = 1_000;
const WARM_UP_SECONDS: u64 = 3;
const RESERVES_TIMED: usize = 301;
const ISSUED: &str = "keymill_keys_issued_total{keyspace=\"links\"}";
const RESERVES: &str = "keymill_reserve_duration_seconds_count";

pub(crate) fn run() -> anyhow::Result<()> {
    let engine = Postgres::start()?;
    let dir = tempfile::tempdir()?;
    let rows = one_row_at_a_time(&engine, dir.path())?;
    compare("one row at a time, SKIP LOCKED", rows, "keys/s", "", 1.0, "-");

    let mut nodes = Vec::new();
    for node in 0..NODES {
        let name = format!("n{node}");
        let more = ["--ledger", &engine.url(), "--node", &name];
        nodes.push(Server::keymill_with(&dir.path().join(&name), &more)?);
    }
    let (singly, _) = take(&nodes, 1, dir.path())?;
    compare("three nodes, one key a request", singly, "keys/s", "rows", singly / rows, ">= 10x");
    let (batches, reserves) = take(&nodes, BATCH, dir.path())?;
    compare("three nodes, 1000 keys a request", batches, "keys/s", "rows", batches / rows, ">= 100x");
    println!(
        "reserves of all nodes and keyspaces while that ran: {reserves} in {SECONDS} s (a stock is for 60 s)"
    );
    drop(nodes);
    reserves_among_claims(&engine)
}

/// What an application does with two tables and no Keymill, by the engine's own benchmark.
fn one_row_at_a_time(engine: &Postgres, dir: &Path) -> anyhow::Result<f64> {
    engine.sql(&format!(
        "CREATE TABLE available_keys (id BIGSERIAL PRIMARY KEY, key TEXT UNIQUE NOT NULL);
         CREATE TABLE used_keys (id BIGSERIAL PRIMARY KEY, key TEXT UNIQUE NOT NULL, used_at TIMESTAMPTZ NOT NULL DEFAULT now());
         INSERT INTO available_keys (key) SELECT md5(n::text) FROM generate_series(1, {ROWS}) n;
         ANALYZE;"
    ))?;
    let script = dir.join("move.sql");
    fs::write(
        &script,
        "WITH moved AS (DELETE FROM available_keys WHERE id = \
         (SELECT id FROM available_keys ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING key) \
         INSERT INTO used_keys (key) SELECT key FROM moved RETURNING key;\n",
    )?;
    let output = Command::new(program("pgbench")?)
        .args([
            "--no-vacuum",
            "-M",
            "prepared",
            "-j",
            "1",
            "-c",
            &CLIENTS.to_string(),
            "-T",
            &SECONDS.to_string(),
        ])
        .arg("-f")
        .arg(&script)
        .arg(engine.url())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let tps = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    tps.with_context(|| format!("pgbench said: {said}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Keys a second through all nodes, and how often they reserved meanwhile.
fn take(nodes: &[Server], count: u32, dir: &Path) -> anyhow::Result<(f64, f64)> {
    let script = dir.join(format!("take-{count}.lua"));
    fs::write(&script, format!("wrk.method = \"POST\"\nwrk.body = '{{\"count\":{count}}}'\n"))?;
    // The first seconds teach the nodes how much is asked for.
    load_all(nodes, &script, WARM_UP_SECONDS)?;
    let before = [sum(nodes, ISSUED)?, sum(nodes, RESERVES)?];
    let begun = Instant::now();
    load_all(nodes, &script, SECONDS)?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(((sum(nodes, ISSUED)? - before[0]) / seconds, sum(nodes, RESERVES)? - before[1]))
}

fn load_all(nodes: &[Server], script: &Path, seconds: u64) -> anyhow::Result<()> {
    let clients = format!("-c{}", CLIENTS / NODES);
    let load = |node: &Server| {
        Command::new("wrk")
            .args(["-t1", &clients, "-d", &format!("{seconds}s"), "-s"])
            .arg(script)
            .arg(format!("http://{}/v1/keyspaces/links/keys", node.address))
            .stdout(Stdio::null())
            .spawn()
    };
    let loads: Vec<Child> = nodes.iter().map(load).collect::<Result<_, _>>().context("wrk")?;
    for mut load in loads {
        anyhow::ensure!(load.wait()?.success(), "wrk failed");
    }
    Ok(())
}

fn sum(nodes: &[Server], name: &str) -> anyhow::Result<f64> {
    nodes.iter().map(|node| metric(node, name)).sum()
}

/// The same reserve, with a thousand claims behind it and with a million.
fn reserves_among_claims(engine: &Postgres) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let options = StoreOptions {
        lossy_accepted: false,
        migrate: true,
        timeout: Duration::from_secs(5),
        tls: Tls::default(),
        create: true,
        new_id: LedgerId("bench".to_owned()),
        at: Timestamp(0),
    };
    let store = SqlStore::new(&format!("{}?table_prefix=claims", engine.url()), options)?;
    let name = KeyspaceName::parse("links")?;
    let track = Track::of(name.clone());
    let mut node = runtime.block_on(TestNode::register(&store, "bench"))?;
    let create = ops::CreateKeyspace {
        stamp: node.stamp(),
        name,
        definition: "{}".into(),
        fingerprint: String::new(),
        tuning: serde_json::Map::new(),
        root: false,
        withheld: Vec::new(),
        limit: 10,
    };
    runtime.block_on(store.create_keyspace(create))?;
    engine.sql(&format!("UPDATE claims_tracks SET next_number = {}", 2 * MANY))?;
    let mut figures = Vec::new();
    for (from, to) in [(0, FEW), (FEW, MANY)] {
        engine.sql(&format!(
            "INSERT INTO claims_claims (track, first_number, end_number, node, epoch, reserved_at, issued_up_to, state, unissued, pending)
             SELECT '{track}', n, n + 1, 'other', 1, 0, n + 1, 'open', '[]', false FROM generate_series({from}, {to} - 1) n;
             ANALYZE claims_claims;"
        ))?;
        let mut reserves = Vec::new();
        for _ in 0..RESERVES_TIMED {
            let begun = Instant::now();
            runtime.block_on(store.reserve(node.reserve(&track)))?;
            reserves.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        figures.push(median(reserves));
    }
    let [few, many] = figures[..] else { unreachable!("two figures") };
    let against = format!("1 000 claims ({few:.0} us)");
    compare("reserve, 1 000 000 claims", many, "us", &against, many / few, "about 1x");
    Ok(())
}
