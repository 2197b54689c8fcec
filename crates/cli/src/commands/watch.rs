//! `keymill watch`: looks from outside at a server, a Redis list or a table, and calls someone.

use std::{sync::Arc, time::SystemTime};

use anyhow::{Context, bail, ensure};
use keymill_server::{
    config::{Config, Layers},
    connect::Trust,
    web::WebClient,
};
use keymill_watch::{
    Address, Board, Finding, Glance, GroundState, Keymill, Marks, Moment, RedisPool, RestartCommand,
    RestartFiller, SinkKind, SqlPool, Subject, Target, Watch, Watcher, exhausted_at, patience, rfc3339,
};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::Global,
    client::Client,
    output::{self, say},
    watch_args as args,
};

/// What `--once` prints.
#[derive(Debug, Serialize)]
struct Report {
    samples: Vec<SampleView>,
    findings: Vec<FindingView>,
}

#[derive(Debug, Serialize)]
struct SampleView {
    /// Or `server`, where nothing could be learnt of any.
    keyspace: String,
    level: Option<String>,
    rate: Option<f64>,
    runway_seconds: Option<f64>,
    exhausted_at: Option<String>,
    measured_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unmeasured: Option<String>,
}

#[derive(Debug, Serialize)]
struct FindingView {
    #[serde(skip_serializing_if = "Option::is_none")]
    keyspace: Option<String>,
    #[serde(flatten)]
    finding: Finding,
}

/// Says whether all is well; a watcher that goes on says so when it is stopped.
pub(crate) async fn run(global: &Global, args: &args::Watch) -> anyhow::Result<bool> {
    let config = configure(args)?;
    let marks = Marks { restart_below: args.restart_below, page_below: args.page_below };
    if let Some(problem) = marks.contradiction() {
        bail!(problem);
    }
    let target = target(global, args, marks)?;
    if args.once {
        let report = look_once(&*target, &config).await?;
        let is_well =
            report.findings.is_empty() && report.samples.iter().all(|sample| sample.unmeasured.is_none());
        print(&report, global.json);
        return Ok(is_well);
    }
    keymill_server::start_logging(&config.log)?;
    watch(target, args, &config).await?;
    Ok(true)
}

/// The `[watch]` of the config file if one is named, with flags over it.
fn configure(args: &args::Watch) -> anyhow::Result<Config> {
    let mut layers = Layers::default();
    if let Some(file) = &args.config {
        layers.file(file)?;
    }
    layers.environment(std::env::vars());
    layers.flag("--interval", "watch.interval", args.interval.as_deref());
    layers.flag("--heartbeat-url", "watch.heartbeat_url", args.heartbeat_url.as_deref());
    let (mut config, _) = layers.finish()?;
    let template = match &args.template {
        None => String::new(),
        Some(file) => {
            std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?
        }
    };
    for sink in &args.sinks {
        let mut sink = sink.clone();
        if sink.kind == SinkKind::Webhook {
            sink.template.clone_from(&template);
        }
        sink.open().context("--sink")?;
        config.watch.sinks.push(sink);
    }
    Ok(config)
}

fn target(global: &Global, args: &args::Watch, marks: Marks) -> anyhow::Result<Arc<dyn Target>> {
    let url = args.target.as_deref().unwrap_or_default();
    let scheme = url.split_once("://").map_or(url, |(scheme, _)| scheme);
    if matches!(scheme, "" | "http" | "https") {
        return server(global, args, marks);
    }
    ensure!(
        args.keyspaces.is_empty(),
        "--keyspace is for servers; a Redis or SQL target names its own in the URL"
    );
    ensure!(marks.is_set(), "when is it low? Give --page-below, or --restart-below with --restart-command");
    ensure!(
        args.restart_command.is_none() || marks.restart_below.is_some(),
        "--restart-command needs --restart-below: when should it run?"
    );
    let wrong = |problem: String| anyhow::anyhow!("--target {problem}");
    Ok(match scheme {
        "redis" | "rediss" => Arc::new(RedisPool::parse(url, marks).map_err(wrong)?),
        "postgres" | "postgresql" | "mysql" | "mariadb" => {
            Arc::new(SqlPool::parse(url, marks).map_err(wrong)?)
        }
        _ => bail!("--target is none of http(s)://, redis(s)://, postgres://, mysql://"),
    })
}

fn server(global: &Global, args: &args::Watch, marks: Marks) -> anyhow::Result<Arc<dyn Target>> {
    let client = Client::new(global, None)?;
    let url = args.target.as_deref().unwrap_or_else(|| client.server());
    let server = Address::parse(url).with_context(|| format!("--target {url}"))?;
    let trust =
        Trust { ca: global.tls_ca.clone(), identity: global.tls_cert.clone().zip(global.tls_key.clone()) };
    Ok(Arc::new(Keymill {
        web: Arc::new(WebClient::new(server.is_secure().then_some(&trust))?),
        server,
        bearer: client.token(),
        keyspaces: args.keyspaces.clone(),
        marks,
        restarts: args.restart_command.is_some(),
    }))
}

/// Watches until it is told to stop.
async fn watch(target: Arc<dyn Target>, args: &args::Watch, config: &Config) -> anyhow::Result<()> {
    let mut stops = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    let interval = config.watch.interval.duration();
    let command = args.restart_command.clone();
    let filler = command.map(|command| RestartCommand::new(command, args.restart_timeout.duration()));
    let sinks = config.watch.sinks()?;
    let heartbeat_url = config.watch.heartbeat_url()?;
    if sinks.is_empty() && heartbeat_url.is_none() {
        tracing::warn!("nobody will be told: there is neither --sink nor --heartbeat-url");
    }
    let first = target.look(patience(interval)).await;
    if first.seen.is_empty() && first.ground.state == GroundState::Fine {
        tracing::warn!("no keyspace has restart_below or page_below, so only the server itself is watched");
    }
    tracing::info!(keyspaces = first.seen.len(), scope = first.scope, "watching {}", first.scope);
    let watcher = Watcher {
        target,
        filler: filler.map(|filler| Arc::new(filler) as Arc<dyn RestartFiller>),
        sinks,
        heartbeat_url,
        web: Arc::new(WebClient::new(config.watch.is_secure().then_some(&Trust::default()))?),
        interval,
        board: Arc::new(Board::new(interval)),
    };
    let [terminate, interrupt] = &mut stops;
    tokio::select! {
        () = watcher.run() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// One look; two where a mark is in time and the rate is only told by what left in between.
async fn look_once(target: &dyn Target, config: &Config) -> anyhow::Result<Report> {
    let interval = config.watch.interval.duration();
    let (begun, mut watch) = (std::time::Instant::now(), Watch::new(interval));
    let mut look = target.look(patience(interval)).await;
    let now = || Moment { elapsed: begun.elapsed(), wall: SystemTime::now() };
    let mut glances = watch.glance(&look, now());
    let lacks_rate =
        glances.iter().any(|glance| glance.standing.is_some_and(|standing| standing.rate.is_none()));
    if lacks_rate && look.seen.iter().any(|seen| seen.marks.needs_rate()) {
        tokio::time::sleep(interval).await;
        look = target.look(patience(interval)).await;
        glances = watch.glance(&look, now());
    }
    if glances.is_empty() {
        bail!("nothing to watch: no keyspace has restart_below or page_below, and neither was given");
    }
    let at = SystemTime::now();
    let findings = glances.iter().filter_map(|glance| {
        let keyspace = match &glance.subject {
            Subject::Keyspace(name) => Some(name.clone()),
            Subject::Ground(_) => None,
        };
        Some(FindingView { keyspace, finding: glance.finding.clone()? })
    });
    let findings = findings.collect();
    Ok(Report { findings, samples: glances.into_iter().map(|glance| sample(glance, at)).collect() })
}

fn sample(glance: Glance, at: SystemTime) -> SampleView {
    let standing = glance.standing;
    let runway = standing.and_then(|standing| standing.runway);
    let rounded = |value: f64| (value * 10.0).round() / 10.0;
    SampleView {
        keyspace: glance.subject.to_string(),
        level: standing.map(|standing| standing.level.to_string()),
        rate: standing.and_then(|standing| standing.rate).map(rounded),
        runway_seconds: runway.map(rounded),
        exhausted_at: exhausted_at(runway, at).map(rfc3339),
        measured_at: standing.map(|_| rfc3339(at)),
        unmeasured: glance.unmeasured,
    }
}

fn print(report: &Report, json: bool) {
    if json {
        return output::json(report);
    }
    let mut table = output::Table::new(&["keyspace", "level", "keys/s", "runway", "exhausted at"]);
    let unknown = || "-".to_owned();
    for sample in &report.samples {
        table.row([
            sample.keyspace.clone(),
            sample.level.as_deref().map_or_else(|| "not measured".to_owned(), output::grouped),
            sample.rate.map_or_else(unknown, |rate| format!("{rate:.1}")),
            sample.runway_seconds.map_or_else(unknown, output::spoken),
            sample.exhausted_at.clone().unwrap_or_else(unknown),
        ]);
    }
    table.print();
    for FindingView { finding, .. } in &report.findings {
        say!("{}: {}", finding.severity.as_str(), finding.summary);
    }
}
