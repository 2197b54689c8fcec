//! What it costs that a server is watched: the same pops from one that times requests, watches its levels, logs and is
//! scraped, and from one that does none of it.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    compare,
    process::Server,
    resp::{Asked, by_turns},
};

/// Prometheus asks four times a minute, as it is usually set up.
const SCRAPED_EVERY: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const KEYSPACES: &str = "[keyspaces.links]\nscheme = \"pool\"\n";
const UNWATCHED: &str =
    "[metrics]\ndurations = false\n[watch]\ninterval = \"1h\"\n[log]\nlevel = \"error\"\n";

pub(crate) fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let unwatched = start(&dir.path().join("unwatched"), UNWATCHED)?;
    let watched = start(&dir.path().join("watched"), "")?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| scrape(&watched, &over));
        let measured = [(1, 200_000), (16, 1_000_000)].into_iter().try_for_each(|(depth, commands)| {
            let (micros, ratio) = by_turns(&unwatched, &watched, depth, commands)?;
            let what = format!("LPOP -P {depth} timed, watched, logged, scraped");
            compare(&what, micros, "us", "without", ratio, "<= 1.05x");
            anyhow::Ok(())
        });
        over.store(true, Ordering::Relaxed);
        measured
    })
}

fn start(data_dir: &Path, settings: &str) -> anyhow::Result<Asked> {
    let config = data_dir.with_extension("toml");
    fs::write(&config, format!("{settings}{KEYSPACES}"))?;
    let server = Server::keymill_with(data_dir, &["--config", &config.to_string_lossy()])?;
    Asked::on(server, data_dir, None)
}

fn scrape(watched: &Asked, over: &AtomicBool) {
    let mut next = Instant::now();
    while !over.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            next += SCRAPED_EVERY;
            // A page that could not be had costs the server nothing, which the figure would show.
            let _ = watched.server.get("/metrics");
        }
        thread::sleep(LOOK_EVERY);
    }
}
