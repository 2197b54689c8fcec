//! What people use today – a Redis list of keys, a Redis counter – next to the same commands asked of
//! Keymill, with redis-benchmark and in turns.
//!
//! Server CPU per command is the figure. Keymill's includes making the keys; Redis' list is filled before,
//! which is not counted. PING shows what a command costs that does nothing.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Context;

use crate::{
    compare,
    process::{Server, free_port},
};

/// Interleaved, so that a slow minute of the machine hits both.
const ROUNDS: usize = 3;
/// Callers at a time.
const CLIENTS: &str = "50";
/// Keys in one push of the filler.
const PUSH: u32 = 1000;

/// The same thing asked of both.
struct Case {
    what: &'static str,
    redis: &'static [&'static str],
    keymill: &'static [&'static str],
    /// Commands sent at a time, how many in all, and how many times Redis' cost is allowed.
    loads: &'static [(u32, u32, &'static str)],
    /// Keys that one command takes out of Redis' list.
    keys: u32,
}

const CASES: [Case; 5] = [
    Case {
        what: "PING",
        redis: &["PING"],
        keymill: &["PING"],
        loads: &[(1, 200_000, "-"), (16, 1_000_000, "-"), (64, 2_000_000, "-")],
        keys: 0,
    },
    Case {
        what: "LPOP, shuffled pool",
        redis: &["LPOP", "keys"],
        keymill: &["LPOP", "links"],
        loads: &[(1, 200_000, "<= 1.0x"), (16, 1_000_000, "<= 0.75x"), (64, 2_000_000, "<= 0.6x")],
        keys: 1,
    },
    Case {
        what: "LPOP 100, shuffled pool",
        redis: &["LPOP", "keys", "100"],
        keymill: &["LPOP", "links", "100"],
        loads: &[(16, 40_000, "<= 1.0x")],
        keys: 100,
    },
    Case {
        what: "LPOP 100, sequential pool",
        redis: &["LPOP", "keys", "100"],
        keymill: &["LPOP", "plain", "100"],
        loads: &[(16, 40_000, "<= 0.3x")],
        keys: 100,
    },
    Case {
        what: "INCR",
        redis: &["INCR", "counter"],
        keymill: &["INCR", "tickets"],
        loads: &[(1, 200_000, "<= 1.0x"), (16, 1_000_000, "<= 0.9x"), (64, 2_000_000, "<= 0.8x")],
        keys: 0,
    },
];

pub(crate) fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let redis = Asked::redis(dir.path())?;
    let keymill = Asked::keymill(&dir.path().join("data"))?;
    for Case { what, redis: asked, keymill: same, loads, keys } in &CASES {
        for (depth, commands, goal) in *loads {
            let mut figures = [Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                redis.fill(commands * keys)?;
                figures[0].push(redis.load(*depth, *commands, asked)?);
                figures[1].push(keymill.load(*depth, *commands, same)?);
            }
            let [theirs, ours] = figures.map(median);
            let label = |who: &str| format!("{what} -P {depth}, {who}");
            compare(&label("redis"), theirs.micros, "us", &theirs.rest(), 1.0, "-");
            let ratio = ours.micros / theirs.micros;
            compare(&label("keymill"), ours.micros, "us", &ours.rest(), ratio, goal);
        }
    }
    Ok(())
}

/// What one run cost the server, and how it looked from outside.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub micros: f64,
    per_second: f64,
    p99_ms: f64,
}

impl Load {
    fn rest(&self) -> String {
        format!("({:.0}/s, p99 {:.2} ms)", self.per_second, self.p99_ms)
    }
}

fn median(mut loads: Vec<Load>) -> Load {
    loads.sort_by(|a, b| a.micros.total_cmp(&b.micros));
    loads.swap_remove(loads.len() / 2)
}

/// Pairs of loads whose median counts.
const PAIRS: usize = 9;

/// The same pops from both, by turns: the CPU that `other` needs for one, and how that compares with `plain`.
pub(crate) fn by_turns(
    plain: &Asked,
    other: &Asked,
    depth: u32,
    commands: u32,
) -> anyhow::Result<(f64, f64)> {
    let (mut ratios, mut micros) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let against = plain.load(depth, commands, &["LPOP", "links"])?.micros;
        let needed = other.load(depth, commands, &["LPOP", "links"])?.micros;
        ratios.push(needed / against);
        micros.push(needed);
    }
    ratios.sort_by(f64::total_cmp);
    micros.sort_by(f64::total_cmp);
    Ok((micros[PAIRS / 2], ratios[PAIRS / 2]))
}

/// A server that speaks the Redis protocol.
pub(crate) struct Asked {
    pub server: Server,
    port: String,
    /// What callers have to show.
    token: Option<String>,
}

impl Asked {
    fn redis(dir: &Path) -> anyhow::Result<Self> {
        let port = free_port()?.to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
        let server = Server::start(command.arg(dir), format!("127.0.0.1:{port}"))?;
        Ok(Self { server, port, token: None })
    }

    fn keymill(data_dir: &Path) -> anyhow::Result<Self> {
        let server = Server::keymill(data_dir)?;
        let plain = r#"{"name":"plain","scheme":"pool","order":"sequential"}"#;
        server.post("/v1/keyspaces", "Content-Type: application/json\r\n", plain)?;
        Self::on(server, data_dir, None)
    }

    /// A Keymill that runs already.
    pub(crate) fn on(server: Server, data_dir: &Path, token: Option<String>) -> anyhow::Result<Self> {
        let file = std::fs::read(data_dir.join("server.json"))?;
        let file: serde_json::Value = serde_json::from_slice(&file)?;
        let resp = file["resp"].as_str().context("keymill did not say where it speaks the Redis protocol")?;
        let port = resp.rsplit_once(':').context("an address has a port")?.1.to_owned();
        Ok(Self { server, port, token })
    }

    pub(crate) fn load(&self, depth: u32, commands: u32, command: &[&str]) -> anyhow::Result<Load> {
        let before = self.server.cpu_seconds()?;
        let output = Command::new("redis-benchmark")
            .args(["-p", &self.port, "-c", CLIENTS, "--csv"])
            .args(["-P", &depth.to_string(), "-n", &commands.to_string()])
            .args(self.token.iter().flat_map(|token| ["-a", token]))
            .args(command)
            .output()
            .context("redis-benchmark could not be started")?;
        let seconds = self.server.cpu_seconds()? - before;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::ensure!(output.status.success() && !text.contains("Error"), "redis-benchmark said: {text}");
        // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",…
        let last = text.lines().last().unwrap_or_default();
        let figures: Vec<f64> =
            last.split(',').filter_map(|field| field.trim_matches('"').parse().ok()).collect();
        let [per_second, _, _, _, _, p99_ms, ..] = figures[..] else {
            anyhow::bail!("redis-benchmark said: {text}")
        };
        Ok(Load { micros: seconds * 1e6 / f64::from(commands), per_second, p99_ms })
    }

    /// Fills the list the way a filler would: pipelined, in large pushes.
    fn fill(&self, keys: u32) -> anyhow::Result<()> {
        let mut child = Command::new("redis-cli")
            .args(["-p", &self.port, "--pipe"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("redis-cli could not be started")?;
        let mut input = child.stdin.take().context("stdin was piped")?;
        writeln!(input, "DEL keys\r")?;
        for start in (0..keys).step_by(PUSH as usize) {
            let mut push = String::from("RPUSH keys");
            for key in start..start + PUSH {
                let _ = write!(push, " k{key:06}");
            }
            writeln!(input, "{push}\r")?;
        }
        drop(input);
        anyhow::ensure!(child.wait()?.success(), "redis-cli failed");
        Ok(())
    }
}
