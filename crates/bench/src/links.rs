//! Links: what following one costs next to taking a key, and next to the engine's own look-up of a row; what
//! making one costs next to the engine's own insert.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use keymill_engines::postgres::{Postgres, program};
use serde_json::Value;

use crate::{compare, process::Server};

/// With `--full` ten times as many.
const LINKS: usize = 1_000_000;
const LINKS_FULL: usize = 10_000_000;
const POSTGRES_LINKS: usize = 100_000;
const BATCH: usize = 1_000;
const IMPORTERS: usize = 4;
/// Keys that everyone asks for.
const HOT: usize = 1_000;
const CLIENTS: usize = 16;
const SECONDS: u64 = 5;
const ROUNDS: usize = 3;
const INSERTS: u32 = 2_000;
/// After a load of this size.
const VISITS_WRITTEN_WITHIN: Duration = Duration::from_secs(25);

pub(crate) fn run() -> anyhow::Result<()> {
    let full = std::env::args().any(|argument| argument == "--full");
    let dir = tempfile::tempdir()?;
    embedded(dir.path(), if full { LINKS_FULL } else { LINKS })?;
    postgres(&dir.path().join("postgres"))
}

fn embedded(dir: &Path, links: usize) -> anyhow::Result<()> {
    let scripts = Scripts::new(dir)?;
    let data = dir.join("data");
    let server = Server::keymill(&data)?;
    let single = load(&server, "/v1/keyspaces/links/links", &scripts.create, CLIENTS)?;
    let inserts = own_inserts(&dir.join("own.db"))?;
    compare(
        "make a link, SQLite",
        single.per_second,
        "links/s",
        "own inserts",
        single.per_second / inserts,
        ">= 0.5x",
    );
    let begun = Instant::now();
    let keys = populate(&server, links)?;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let batched = links as f64 / begun.elapsed().as_secs_f64();
    compare("make links by the thousand", batched, "links/s", "own inserts", batched / inserts, ">= 10x");
    drop(server);

    // Without room to remember, every look-up goes to the file.
    let config = dir.join("forgetful.toml");
    fs::write(&config, "[registry]\ncache_entries = 1\n[limits]\nmisses = 0\n")?;
    let forgetful = Server::keymill_with(&data, &["--config", &config.to_string_lossy()])?;
    let follow_any = scripts.follow(dir, "any", &keys)?;
    let cold = load(&forgetful, "/", &follow_any, CLIENTS)?;
    println!("cold: p99 {} of a first look at {} links", cold.p99, keys.len());
    // Visits are written down some seconds after they happened: a take in between would pay for them.
    thread::sleep(VISITS_WRITTEN_WITHIN);
    let loads = |path, script: &Path| -> anyhow::Result<f64> {
        let micros = (0..ROUNDS).map(|_| Ok(load(&forgetful, path, script, CLIENTS)?.micros));
        Ok(middle(micros.collect::<anyhow::Result<_>>()?))
    };
    let taken = loads("/v1/keyspaces/links/keys", &scripts.take)?;
    let looked_up = loads("/", &follow_any)?;
    compare("follow, looked up, CPU a request", looked_up, "us", "one take", looked_up / taken, "<= 2.5x");
    drop(forgetful);

    let server = Server::keymill(&data)?;
    let follow_hot = scripts.follow(dir, "hot", &keys[..HOT.min(keys.len())])?;
    let (mut remembered, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        taken.push(load(&server, "/v1/keyspaces/links/keys", &scripts.take, CLIENTS)?.micros);
        remembered.push(load(&server, "/", &follow_hot, CLIENTS)?.micros);
    }
    let (remembered, taken) = (middle(remembered), middle(taken));
    compare(
        "follow, remembered, CPU a request",
        remembered,
        "us",
        "one take",
        remembered / taken,
        "<= 1.15x",
    );
    Ok(())
}

fn postgres(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir)?;
    let engine = Postgres::start()?;
    let scripts = Scripts::new(dir)?;
    let config = dir.join("forgetful.toml");
    fs::write(
        &config,
        "[registry]\ncache_entries = 1\n[limits]\nmisses = 0\n[keyspaces.links]\nscheme = \"pool\"\nroot = true\n",
    )?;
    let more = ["--ledger", &engine.url(), "--config", &config.to_string_lossy()];
    let server = Server::keymill_with(&dir.join("data"), &more)?;
    let keys = populate(&server, POSTGRES_LINKS)?;
    let follow = scripts.follow(dir, "any", &keys)?;
    let (mut selects, mut followed) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        selects.push(pgbench(&engine, dir, "-S", None)?);
        followed.push(load(&server, "/", &follow, CLIENTS)?.per_second);
    }
    let (selects, followed) = (middle(selects), middle(followed));
    compare(
        "follow, looked up, PostgreSQL",
        followed,
        "links/s",
        "pgbench -S",
        followed / selects,
        ">= 0.5x",
    );
    engine.sql(
        "CREATE TABLE own_links (keyspace TEXT, name TEXT, target TEXT, PRIMARY KEY (keyspace, name))",
    )?;
    let insert =
        "INSERT INTO own_links VALUES ('links', md5(random()::text), 'https://example.com/a/long/path');\n";
    let (mut inserts, mut made) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        inserts.push(pgbench(&engine, dir, "", Some(insert))?);
        made.push(load(&server, "/v1/keyspaces/links/links", &scripts.create, CLIENTS)?.per_second);
    }
    let (inserts, made) = (middle(inserts), middle(made));
    compare("make a link, PostgreSQL", made, "links/s", "own inserts", made / inserts, ">= 0.5x");
    Ok(())
}

/// What `wrk` is told to send.
struct Scripts {
    take: PathBuf,
    create: PathBuf,
}

impl Scripts {
    fn new(dir: &Path) -> anyhow::Result<Self> {
        let (take, create) = (dir.join("take.lua"), dir.join("create.lua"));
        fs::write(&take, "wrk.method = \"POST\"\n")?;
        fs::write(
            &create,
            "wrk.method = \"POST\"\nlocal n = 0\nrequest = function()\n  n = n + 1\n  \
             return wrk.format(nil, nil, nil, '{\"url\":\"https://example.com/a/long/path?n=' .. n .. '\"}')\nend\n",
        )?;
        Ok(Self { take, create })
    }

    /// One of `keys` after another, in no order.
    fn follow(&self, dir: &Path, name: &str, keys: &[String]) -> anyhow::Result<PathBuf> {
        let list = dir.join(format!("{name}.txt"));
        // By name they are in no order of their numbers, so that whoever walks along the list jumps about in the file. To jump
        // about in the list would cost the server, which shares its processors with the client.
        let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        keys.sort_unstable();
        fs::write(&list, keys.join("\n"))?;
        let script = dir.join(format!("follow-{name}.lua"));
        fs::write(
            &script,
            format!(
                "local keys = {{}}\nfor line in io.lines(\"{}\") do keys[#keys + 1] = \"/\" .. line end\n\
                 math.randomseed(os.time())\nlocal n = math.random(#keys)\n\
                 request = function() n = n % #keys + 1; return wrk.format(\"GET\", keys[n]) end\n",
                list.display()
            ),
        )?;
        Ok(script)
    }
}

/// Makes links by the thousand, as a few programs at a time would, and answers their keys.
fn populate(server: &Server, links: usize) -> anyhow::Result<Vec<String>> {
    let made = thread::scope(|scope| {
        let importer = |first| scope.spawn(move || import(server, (first..links / BATCH).step_by(IMPORTERS)));
        let importers: Vec<_> = (0..IMPORTERS).map(importer).collect();
        importers.into_iter().map(|importer| importer.join().expect("it does not panic")).collect::<Vec<_>>()
    });
    let mut keys = Vec::with_capacity(links);
    for made in made {
        keys.extend(made?);
    }
    anyhow::ensure!(keys.len() == links / BATCH * BATCH, "{} of {links} links were made", keys.len());
    Ok(keys)
}

fn import(server: &Server, batches: impl Iterator<Item = usize>) -> anyhow::Result<Vec<String>> {
    let mut keys = Vec::new();
    for batch in batches {
        let urls: Vec<String> = (0..BATCH)
            .map(|n| format!("{{\"url\":\"https://example.com/a/long/path?n={}\"}}", batch * BATCH + n))
            .collect();
        let body = format!("{{\"links\":[{}]}}", urls.join(","));
        let answer = server.post("/v1/keyspaces/links/links/batch", "", &body)?;
        let text = String::from_utf8(answer)?;
        let body = text.split_once("\r\n\r\n").context("an answer has a body")?.1;
        let answer: Value = serde_json::from_str(body).with_context(|| format!("batch: {text:.300}"))?;
        let made = answer["links"].as_array().context("links")?;
        keys.extend(made.iter().filter_map(|link| link["key"].as_str().map(str::to_owned)));
    }
    Ok(keys)
}

struct Load {
    micros: f64,
    per_second: f64,
    p99: String,
}

fn load(server: &Server, path: &str, script: &Path, clients: usize) -> anyhow::Result<Load> {
    let before = server.cpu_seconds()?;
    let output = Command::new("wrk")
        .args(["-t1", &format!("-c{clients}"), "-d", &format!("{SECONDS}s"), "--latency", "-s"])
        .arg(script)
        .arg(format!("http://{}{path}", server.address))
        .output()
        .context("wrk could not be started")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    anyhow::ensure!(output.status.success() && !text.contains("Non-2xx"), "wrk said: {text}");
    let words = |mark: &str| -> anyhow::Result<Vec<String>> {
        let line =
            text.lines().find(|line| line.contains(mark)).with_context(|| format!("wrk said: {text}"))?;
        Ok(line.split_whitespace().map(str::to_owned).collect())
    };
    let figure = |mark: &str| -> anyhow::Result<f64> {
        let word = words(mark)?.into_iter().find_map(|word| word.parse().ok());
        word.with_context(|| format!("wrk said: {text}"))
    };
    Ok(Load {
        micros: (server.cpu_seconds()? - before) * 1e6 / figure("requests in")?,
        per_second: figure("Requests/sec:")?,
        p99: words("99%")?.pop().unwrap_or_default(),
    })
}

/// Rows a second that SQLite itself inserts, each in a transaction of its own, as durable as ours.
fn own_inserts(path: &Path) -> anyhow::Result<f64> {
    let connection = rusqlite::Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE links (keyspace TEXT, name TEXT, target TEXT, PRIMARY KEY (keyspace, name)) WITHOUT ROWID",
    )?;
    let mut insert =
        connection.prepare("INSERT INTO links VALUES ('links', ?1, 'https://example.com/a/long/path')")?;
    let begun = Instant::now();
    for n in 0..INSERTS {
        insert.execute([format!("{:x}", n.wrapping_mul(2_654_435_761))])?;
    }
    Ok(f64::from(INSERTS) / begun.elapsed().as_secs_f64())
}

/// Transactions a second by the engine's own benchmark: a built-in script, or one of ours. Its statements are prepared,
/// as ours are, by as many clients, on the same cores; they come without HTTP, which ours has to pay for.
fn pgbench(engine: &Postgres, dir: &Path, built_in: &str, ours: Option<&str>) -> anyhow::Result<f64> {
    let mut command = Command::new(program("pgbench")?);
    match ours {
        Some(text) => {
            let script = dir.join("own.sql");
            fs::write(&script, text)?;
            command.arg("-n").arg("-f").arg(script);
        }
        None => {
            let made = Command::new(program("pgbench")?).args(["-i", "-q"]).arg(engine.url()).output()?;
            anyhow::ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            command.arg(built_in);
        }
    }
    let output = command
        .args(["-M", "prepared", "-j", "1", "-c", &CLIENTS.to_string(), "-T", &SECONDS.to_string()])
        .arg(engine.url())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let tps = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    tps.with_context(|| format!("pgbench said: {said}{}", String::from_utf8_lossy(&output.stderr)))
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
