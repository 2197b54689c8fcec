//! One key a request over HTTP, next to a bare axum handler that returns an atomic counter.

use std::{
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Context;

use crate::{
    compare,
    process::{Server, free_port},
};

const SECONDS: &str = "4s";
/// Interleaved, so that a slow minute of the machine hits both.
const ROUNDS: usize = 3;

pub(crate) fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let script = dir.path().join("post.lua");
    fs::write(&script, "wrk.method = \"POST\"\n")?;
    let port = free_port()?;
    let address = format!("127.0.0.1:{port}");
    let bare = Server::start(
        Command::new(std::env::current_exe()?).args(["bare-axum", &port.to_string()]),
        address,
    )?;
    let keymill = Server::keymill(&dir.path().join("data"))?;
    let path = "/v1/keyspaces/links/keys";
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (server, costs) in [&bare, &keymill].into_iter().zip(&mut costs) {
            costs.push(load(server, path, &script)?);
        }
    }
    let median = |costs: &mut Vec<Load>| {
        costs.sort_by(|a, b| a.micros.total_cmp(&b.micros));
        costs[costs.len() / 2].clone()
    };
    let [mut bare, mut keymill] = costs;
    let (bare, keymill) = (median(&mut bare), median(&mut keymill));
    compare("bare axum handler, CPU a request", bare.micros, "us", &bare.rate(), 1.0, "-");
    compare(
        "keymill, one key, CPU a request",
        keymill.micros,
        "us",
        &keymill.rate(),
        bare.micros / keymill.micros,
        ">= 0.85x of bare axum",
    );
    Ok(())
}

#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub micros: f64,
    per_second: f64,
}

impl Load {
    fn rate(&self) -> String {
        format!("({:.0} requests/s)", self.per_second)
    }
}

pub(crate) fn load(server: &Server, path: &str, script: &std::path::Path) -> anyhow::Result<Load> {
    let before = server.cpu_seconds()?;
    let output = Command::new("wrk")
        .args(["-t1", "-c50", "-d", SECONDS, "-s"])
        .arg(script)
        .arg(format!("http://{}{path}", server.address))
        .output()
        .context("wrk could not be started")?;
    anyhow::ensure!(output.status.success(), "wrk failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let figure = |mark: &str| -> anyhow::Result<f64> {
        let line =
            text.lines().find(|line| line.contains(mark)).with_context(|| format!("wrk said: {text}"))?;
        let word = line.split_whitespace().find(|word| word.parse::<f64>().is_ok());
        Ok(word.with_context(|| format!("wrk said: {line}"))?.parse()?)
    };
    anyhow::ensure!(!text.contains("Non-2xx"), "some requests were refused: {text}");
    let requests = figure("requests in")?;
    Ok(Load {
        micros: (server.cpu_seconds()? - before) * 1e6 / requests,
        per_second: figure("Requests/sec:")?,
    })
}

/// What a handler costs that does nothing but count: the floor of this stack.
pub(crate) fn bare_axum() -> anyhow::Result<()> {
    let port = std::env::args().nth(2).context("a port")?;
    let counter = Arc::new(AtomicU64::new(0));
    let handler = move || {
        let counter = counter.clone();
        async move {
            let key = counter.fetch_add(1, Ordering::Relaxed);
            (
                [("content-type", "application/json")],
                format!("{{\"keyspace\":\"links\",\"keys\":[\"{key}\"]}}"),
            )
        }
    };
    let app = axum::Router::new().route("/v1/keyspaces/links/keys", axum::routing::post(handler));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
        axum::serve(listener, app).await
    })?;
    Ok(())
}
