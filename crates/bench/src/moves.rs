//! Whether a move of rows stays as fast as it was while the log grows: a minute of moves by a node's own code, and
//! a minute by the engine's benchmark with the statement that is documented, each into an empty log; and another minute by a
//! node's own code, into the log that its first one left.
//!
//! A rate depends on who else uses the machine and its disk. What the engine's process spends on a key does so much
//! less, and is printed beside it.

use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use keymill_engines::postgres::{Postgres, program};
use keymill_id::{KeyspaceName, Number, Rows};
use keymill_issuer::rowed::{Era, RowHome, RowPool};
use keymill_ledger::{LedgerId, NodeName, Tls};
use keymill_pool::{TableHome, TablePool};
use keymill_sql::{Address, Database};

use crate::{compare, process::cpu_seconds_of, rows::SETTINGS};

/// Rows of one move, and of all that a minute can need.
const MOVED: u32 = 1_000;
const STOCK: u32 = 9_000_000;
const SECONDS: u32 = 60;
const WINDOW_SECONDS: u32 = 10;
/// Looked at this much before a window's end: whoever moves ends with the last one.
const BEFORE: Duration = Duration::from_millis(300);

pub(crate) fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let engine = Postgres::start_with(SETTINGS)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let pool = table_pool(&engine)?;
    runtime.block_on(pool.begin(None, Era { advances: 0, term: 1 }, Number::ZERO))?;
    empty(&engine)?;
    restock(&engine, 0)?;
    let theirs = Minute::watch(&engine, || pgbench(&engine, dir.path()))?;
    empty(&engine)?;
    restock(&engine, 0)?;
    let ours = Minute::watch(&engine, || runtime.block_on(pop_for_a_minute(&pool)))?;
    restock(&engine, 1)?;
    let later = Minute::watch(&engine, || runtime.block_on(pop_for_a_minute(&pool)))?;
    let (all, theirs_all) = (mean(&ours.seconds), mean(&theirs.seconds));
    compare(
        "move 1000 rows, over a minute",
        all,
        "keys/s",
        &format!("pgbench ({theirs_all:.0})"),
        all / theirs_all,
        ">= 0.8x",
    );
    let (cost, theirs_cost) = (mean(&ours.costs), mean(&theirs.costs));
    let against = format!("pgbench ({theirs_cost:.2})");
    compare("the engine's CPU for it", cost, "us/key", &against, cost / theirs_cost, "-");
    ours.print("our", "-");
    later.print("our second minute's", "about 1x");
    theirs.print("pgbench's", "-");
    Ok(())
}

fn empty(engine: &Postgres) -> anyhow::Result<()> {
    engine.sql("TRUNCATE available_keys, used_keys RESTART IDENTITY").map(drop)
}

/// Rows for a minute, other ones for each `series`.
fn restock(engine: &Postgres, series: u32) -> anyhow::Result<()> {
    for statement in [
        "TRUNCATE available_keys",
        &format!(
            "INSERT INTO available_keys (key) SELECT substr(md5('{series}.' || n), 1, 12) \
             FROM generate_series(1, {STOCK}) n ON CONFLICT DO NOTHING"
        ),
        "VACUUM ANALYZE available_keys, used_keys",
        "CHECKPOINT",
    ] {
        engine.sql(statement)?;
    }
    Ok(())
}

#[derive(Debug)]
struct Minute {
    /// Keys moved in each second of it.
    seconds: Vec<f64>,
    /// Microseconds of the engine's process a key, in each window.
    costs: Vec<f64>,
}

impl Minute {
    fn watch(engine: &Postgres, work: impl FnOnce() -> anyhow::Result<Vec<f64>>) -> anyhow::Result<Self> {
        let begun = Instant::now();
        thread::scope(|scope| {
            let looks = scope.spawn(|| looks(engine, begun));
            let seconds = work()?;
            let looks = looks.join().ok().context("whoever looked panicked")??;
            let cost = |pair: &[Look]| (pair[1].cpu - pair[0].cpu) * 1e6 / (pair[1].moved - pair[0].moved);
            Ok(Self { seconds, costs: looks.windows(2).map(cost).collect() })
        })
    }

    /// Ten seconds at a time: tables that were empty a moment ago, then ones that fill.
    fn print(&self, whose: &str, goal: &str) {
        let windows = self.seconds.chunks_exact(WINDOW_SECONDS as usize);
        let rates: Vec<f64> = windows.map(mean).collect();
        let listed = |figures: &[f64], unit: f64| {
            figures.iter().map(|figure| format!(" {:.1}", figure / unit)).collect::<String>()
        };
        println!("{whose} windows of ten seconds: {} thousand keys/s", listed(&rates, 1000.0));
        println!("{whose} CPU in them: {} us/key", listed(&self.costs, 1.0));
        for (what, figures, unit, goal) in
            [("last ten seconds", &rates, "keys/s", goal), ("CPU in them", &self.costs, "us/key", "-")]
        {
            let last = figures[figures.len() - 1];
            for (which, before) in [("first", figures[0]), ("second", figures[1])] {
                let against = format!("the {which} ten ({before:.1})");
                compare(&format!("{whose} {what}"), last, unit, &against, last / before, goal);
            }
        }
    }
}

/// What had happened by then.
#[derive(Debug)]
struct Look {
    moved: f64,
    /// CPU seconds of all who are connected.
    cpu: f64,
}

/// At the beginning, and near the end of each window.
fn looks(engine: &Postgres, begun: Instant) -> anyhow::Result<Vec<Look>> {
    let mut looks = vec![look(engine)?];
    for window in 1..=SECONDS / WINDOW_SECONDS {
        let at = begun + Duration::from_secs((window * WINDOW_SECONDS).into()) - BEFORE;
        thread::sleep(at.saturating_duration_since(Instant::now()));
        looks.push(look(engine)?);
    }
    Ok(looks)
}

fn look(engine: &Postgres) -> anyhow::Result<Look> {
    let said = engine.sql(
        "SELECT (SELECT last_value FROM used_keys_id_seq), string_agg(pid::text, ' ') FROM pg_stat_activity \
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
    )?;
    let (moved, ids) = said.trim().split_once('|').context("two columns")?;
    let mut cpu = 0.0;
    for id in ids.split_whitespace() {
        cpu += cpu_seconds_of(id.parse()?)?;
    }
    Ok(Look { moved: moved.parse()?, cpu })
}

#[expect(clippy::cast_precision_loss, reason = "sixty or so")]
fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

fn table_pool(engine: &Postgres) -> anyhow::Result<TablePool> {
    let address = Address::parse(&engine.url(), &Tls::default(), Duration::from_secs(20))?;
    let home = RowHome {
        ledger: LedgerId("bench".to_owned()),
        keyspace: KeyspaceName::parse("codes")?,
        rows: Rows::Table { prefix: String::new() },
    };
    let at = TableHome { database: Database::new(address), migrate: true, node: NodeName::parse("bench")? };
    Ok(TablePool::open(&home, &at)?)
}

async fn pop_for_a_minute(pool: &TablePool) -> anyhow::Result<Vec<f64>> {
    let mut seconds = Vec::new();
    let begun = Instant::now();
    for second in 1..=SECONDS {
        let mut moved = 0;
        while begun.elapsed() < Duration::from_secs(second.into()) {
            let popped = pool.pop(MOVED).await?.keys.len();
            ensure!(popped == MOVED as usize, "the stock is too small");
            moved += MOVED;
        }
        seconds.push(f64::from(moved));
    }
    Ok(seconds)
}

/// One connection, as a node has for its moves.
fn pgbench(engine: &Postgres, dir: &Path) -> anyhow::Result<Vec<f64>> {
    let script = dir.join("moves.sql");
    let statement = format!(
        "WITH taken AS (DELETE FROM available_keys WHERE id IN (SELECT id FROM available_keys WHERE NOT is_reserved \
         ORDER BY id LIMIT {MOVED} FOR UPDATE SKIP LOCKED) RETURNING key) \
         INSERT INTO used_keys (key, used_by) SELECT key, 'shop' FROM taken RETURNING key;\n"
    );
    fs::write(&script, statement)?;
    let output = Command::new(program("pgbench")?)
        .args(["--no-vacuum", "-M", "prepared", "-c", "1", "-P", "1", "-T", &SECONDS.to_string(), "-f"])
        .arg(&script)
        .arg(engine.url())
        .output()?;
    // progress: 1.0 s, 57.0 tps, lat 17.4 ms stddev 4.0, 0 failed
    let said = String::from_utf8_lossy(&output.stderr);
    let tps =
        |line: &str| line.strip_prefix("progress: ")?.split_once(" s, ")?.1.split(' ').next()?.parse().ok();
    let seconds: Vec<f64> = said.lines().filter_map(tps).map(|tps: f64| tps * f64::from(MOVED)).collect();
    ensure!(seconds.len() >= 2 * WINDOW_SECONDS as usize, "pgbench said: {said}");
    Ok(seconds)
}
