//! Pools as rows, next to the engines' own ways to load the same keys: what the filler reaches, and what a row at a
//! time does.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::ensure;
use keymill_engines::{
    postgres::{Postgres, program},
    redis::{DURABLE, Redis},
};

use crate::{best, compare, process::Server};

/// As a server has it that somebody set up for this: what a minute of moves works on fits its memory.
pub(crate) const SETTINGS: &[&str] = &["shared_buffers=2GB", "max_wal_size=4GB"];
const KEYS: u32 = 500_000;
const SINGLY: usize = 3_000;
const ROUNDS: usize = 3;
const KEYS_OF_ONE_COMMAND: usize = 1_000;
const PATIENCE: Duration = Duration::from_secs(120);
/// Seldom enough to disturb nobody.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    fill_postgres(dir.path())?;
    fill_redis(dir.path())
}

/// Creates a pool and waits until it holds so many keys, by what the engine says. Seconds.
fn filled(
    server: &Server,
    keyspace: &serde_json::Value,
    mut level: impl FnMut() -> Option<u32>,
) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let answer = server.post("/v1/keyspaces", "Content-Type: application/json\r\n", &keyspace.to_string())?;
    ensure!(answer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer));
    while level() != Some(KEYS) {
        ensure!(begun.elapsed() < PATIENCE, "the pool is not filled");
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn fill_postgres(dir: &Path) -> anyhow::Result<()> {
    let engine = Postgres::start_with(SETTINGS)?;
    let server = Server::keymill_with(&dir.join("tables"), &["--ledger", &engine.url()])?;
    let keys = dir.join("keys.txt");
    let (mut filled_in, mut copied_in) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (table, keyspace) = (format!("r{round}_available_keys"), pool(round, "table"));
        let counted = format!("SELECT next_number FROM r{round}_key_pool");
        filled_in.push(filled(&server, &keyspace, || engine.sql(&counted).ok()?.trim().parse().ok())?);
        // The same keys in the same order, into the same columns and indexes.
        fs::write(&keys, engine.sql(&format!("SELECT key FROM {table} ORDER BY id"))?)?;
        engine.sql(&format!("CREATE TABLE copied (LIKE {table} INCLUDING ALL)"))?;
        let begun = Instant::now();
        psql(&engine, &["-c", "COPY copied (key) FROM STDIN"], Some(&keys))?;
        copied_in.push(begun.elapsed().as_secs_f64());
        engine.sql(&format!("DROP TABLE copied; TRUNCATE {table}"))?;
    }
    let (filled, copied) = (per_second(KEYS, &filled_in), per_second(KEYS, &copied_in));
    compare(
        "fill a table pool",
        filled,
        "keys/s",
        &format!("COPY ({copied:.0})"),
        filled / copied,
        ">= 0.7x",
    );
    let singly = one_by_one(&engine, dir, &fs::read_to_string(&keys)?)?;
    compare("the same", filled, "keys/s", &format!("row by row ({singly:.0})"), filled / singly, ">= 50x");
    Ok(())
}

fn pool(round: usize, store: &str) -> serde_json::Value {
    let mut keyspace = serde_json::json!({
        "name": format!("{store}{round}"), "scheme": "pool", "store": store, "capacity": KEYS,
    });
    if store == "table" {
        keyspace["table_prefix"] = format!("r{round}_").into();
    }
    keyspace
}

/// What an application without a bulk path does.
fn one_by_one(engine: &Postgres, dir: &Path, keys: &str) -> anyhow::Result<f64> {
    let script = dir.join("singly.sql");
    let insert = |key: &str| format!("INSERT INTO singly (key) VALUES ('{key}') ON CONFLICT DO NOTHING;\n");
    fs::write(&script, keys.lines().take(SINGLY).map(insert).collect::<String>())?;
    engine.sql("CREATE TABLE singly (LIKE r0_available_keys INCLUDING ALL)")?;
    let begun = Instant::now();
    psql(engine, &[], Some(&script))?;
    Ok(per_second(u32::try_from(SINGLY)?, &[begun.elapsed().as_secs_f64()]))
}

fn psql(engine: &Postgres, arguments: &[&str], input: Option<&Path>) -> anyhow::Result<()> {
    let mut command = Command::new(program("psql")?);
    command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]).arg(engine.url()).args(arguments);
    if let Some(input) = input {
        command.stdin(File::open(input)?);
    }
    ensure!(command.stdout(Stdio::null()).status()?.success(), "psql failed");
    Ok(())
}

fn fill_redis(dir: &Path) -> anyhow::Result<()> {
    let engine = Redis::start(DURABLE)?;
    let server = Server::keymill(&dir.join("lists"))?;
    let commands = dir.join("commands.txt");
    let (mut filled_in, mut piped_in) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut keyspace = pool(round, "redis");
        keyspace["redis_url"] = format!("redis://127.0.0.1:{}", engine.port()).into();
        let list = format!("redis{round}");
        filled_in
            .push(filled(&server, &keyspace, || engine.cli(&["llen", &list]).ok()?.trim().parse().ok())?);
        let keys = engine.cli(&["lrange", &list, "0", "-1"])?;
        fs::write(&commands, pushes(&keys.lines().collect::<Vec<_>>()))?;
        let begun = Instant::now();
        let mut pipe = Command::new("redis-cli");
        pipe.args(["-p", &engine.port().to_string(), "--pipe"]).stdin(File::open(&commands)?);
        ensure!(pipe.stdout(Stdio::null()).status()?.success(), "redis-cli failed");
        piped_in.push(begun.elapsed().as_secs_f64());
        ensure!(
            engine.cli(&["llen", "piped"])?.trim() == KEYS.to_string(),
            "redis-cli pushed something else"
        );
        engine.cli(&["del", "piped", &list])?;
    }
    let (filled, piped) = (per_second(KEYS, &filled_in), per_second(KEYS, &piped_in));
    compare("fill a Redis pool", filled, "keys/s", &format!("RPUSH ({piped:.0})"), filled / piped, ">= 0.7x");
    Ok(())
}

/// `RPUSH`es of a thousand keys, as the protocol spells them.
fn pushes(keys: &[&str]) -> String {
    let mut commands = String::new();
    for keys in keys.chunks(KEYS_OF_ONE_COMMAND) {
        commands.push_str(&format!("*{}\r\n$5\r\nRPUSH\r\n$5\r\npiped\r\n", keys.len() + 2));
        for key in keys {
            commands.push_str(&format!("${}\r\n{key}\r\n", key.len()));
        }
    }
    commands
}

/// The best of several runs: the least disturbed one.
fn per_second(keys: u32, seconds: &[f64]) -> f64 {
    let mut seconds = seconds.iter();
    f64::from(keys) / best(seconds.len(), || *seconds.next().unwrap_or(&f64::INFINITY))
}
