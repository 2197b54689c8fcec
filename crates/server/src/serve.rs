//! From a configuration to a running server, and back to nothing held.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, bail};
use keymill_id::{KeyspaceName, Stated};
use keymill_issuer::{
    Node, NodeSettings, NodeState, Wanted,
    clock::{Clock, SystemClock},
    witness::Witness,
};
use keymill_ledger::{Ledger, LedgerId, SqliteStore, ops};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use crate::{
    banner,
    config::{Config, LedgerUrl},
    data_dir::DataDir,
    http::{App, State, listen},
};

/// Runs the server until it is told to stop. `has_file` says whether a config file was read: without
/// one, an empty ledger gets keyspaces to try.
pub async fn serve(config: Config, has_file: bool) -> anyhow::Result<()> {
    let data_dir = DataDir::open(&config.data_dir, &config.node)?;
    let listener = listen::bind(config.http()?, "listen.http", "--http")?;
    let address = listener.local_addr()?;
    let clock = Arc::new(SystemClock::new());
    let ledger = open_ledger(&config, &data_dir, &*clock).await?;
    let mut wanted: Vec<Wanted> = config.keyspace_specs()?.into_iter().map(wanted).collect();
    let first = is_empty(&*ledger, &*clock).await;
    if first && !has_file {
        wanted.extend(to_try());
    }
    let settings = NodeSettings {
        name: data_dir.node.clone(),
        region: config.ledger.region,
        heartbeat: config.ledger.heartbeat.duration(),
        timeout: config.ledger.timeout.duration(),
        keyspaces_max: config.limits.keyspaces,
        tuning: config.tuning()?,
        wanted,
        version: crate::VERSION.to_owned(),
        address: format!("http://{address}"),
        lanes: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let witness = Witness::open(&data_dir.witness(), &data_dir.node)?;
    // Before anyone can know that we are here: a stop that comes at once is a clean one too.
    let stops = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    let node = Node::start(ledger, clock, witness, settings).context("the mill could not be started")?;
    data_dir.announce(&address.to_string())?;

    let (stop, stopping) = watch::channel(false);
    let state = Arc::new(State::new(node.clone(), config.clone()));
    let http = tokio::spawn(listen::serve(listener, App::new(state), config.limits.clone(), stopping));

    let ended = run(&node, &config, address, stops).await;
    let begun = Instant::now();
    let _ = stop.send(true);
    node.drain();
    let _ = http.await;
    let left = config.limits.drain_timeout.duration().saturating_sub(begun.elapsed());
    let stopped = node.stop(left).await;
    data_dir.withdraw();
    if ended.is_ok() {
        tracing::info!(
            given_back = stopped.given_back,
            burned = stopped.burned,
            "stopped: {} numbers given back, {} burned",
            stopped.given_back,
            stopped.burned
        );
    }
    ended
}

/// Until a signal, or until the node must not go on.
async fn run(
    node: &Arc<Node>,
    config: &Config,
    address: std::net::SocketAddr,
    [mut terminate, mut interrupt]: [Signal; 2],
) -> anyhow::Result<()> {
    let mut state = node.state();
    let (mut greeted, mut warned) = (false, false);
    loop {
        let now = state.borrow_and_update().clone();
        match now {
            NodeState::Serving if !greeted => {
                greeted = true;
                banner::print(node, config, address);
            }
            NodeState::Halted { reason } if !warned => {
                warned = true;
                banner::print_halted(node, address, &reason);
            }
            NodeState::Dead { reason } => bail!(reason),
            _ => {}
        }
        tokio::select! {
            changed = state.changed() => changed.context("the node is gone")?,
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

async fn open_ledger(
    config: &Config,
    data_dir: &DataDir,
    clock: &dyn Clock,
) -> anyhow::Result<Arc<dyn Ledger>> {
    let LedgerUrl::Sqlite(path) = config.ledger_url()?;
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| anyhow::anyhow!("no randomness to be had: {error}"))?;
    let id = LedgerId(id.iter().map(|byte| format!("{byte:02x}")).collect());
    let (holder, at) = (format!("node {}", data_dir.node), clock.wall());
    let shown = path.display().to_string();
    let opened =
        tokio::task::spawn_blocking(move || SqliteStore::open_ledger(&path, &holder, id, at)).await?;
    let (ledger, created) = opened.with_context(|| format!("the ledger {shown} could not be opened"))?;
    if created {
        tracing::info!(ledger = shown, "made a new ledger at {shown}");
    }
    Ok(ledger)
}

/// No keyspace was ever created here. A ledger that cannot say is not empty.
async fn is_empty(ledger: &dyn Ledger, clock: &dyn Clock) -> bool {
    let survey = ledger.survey(ops::Survey { at: clock.wall() }).await;
    survey.is_ok_and(|survey| survey.head.keyspaces == 0)
}

fn wanted(spec: keymill_api::KeyspaceSpec) -> Wanted {
    Wanted { name: spec.name, stated: spec.stated, tuning: spec.tuning }
}

/// What a first start without a config file creates, so that there is something to try.
fn to_try() -> impl Iterator<Item = Wanted> {
    let keyspaces = [
        ("links", serde_json::json!({"scheme": "pool", "root": true})),
        ("tickets", serde_json::json!({"scheme": "sequence"})),
        ("events", serde_json::json!({"scheme": "snowflake"})),
    ];
    keyspaces.into_iter().map(|(name, stated)| Wanted {
        name: KeyspaceName::parse(name).expect("a valid name"),
        stated: serde_json::from_value::<Stated>(stated).expect("a valid definition"),
        tuning: Default::default(),
    })
}
