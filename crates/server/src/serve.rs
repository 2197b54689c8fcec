//! From a configuration to a running server, and back to nothing held.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use anyhow::{Context, bail};
use keymill_id::{KeyspaceName, Stated};
use keymill_issuer::{
    Node, NodeSettings, NodeState, Wanted,
    clock::{Clock, SystemClock},
    witness::Witness,
};
use keymill_ledger::{Ledger, SqliteStore};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use crate::{
    banner,
    config::{Config, LedgerUrl},
    data_dir::DataDir,
    descriptors,
    http::{App, State, listen},
    ledgers, peers,
    resp::{self, Front, listen::Threads},
};

/// The real addresses; a configured port may have been 0.
#[derive(Debug)]
pub(crate) struct Listening {
    pub http: SocketAddr,
    pub resp: Option<SocketAddr>,
}

/// Runs the server until it is told to stop. `has_file` says whether a config file was read: without
/// one, an empty ledger gets keyspaces to try.
pub async fn serve(config: Config, has_file: bool) -> anyhow::Result<()> {
    descriptors::raise_limit();
    let data_dir = DataDir::open(&config.data_dir, &config.node)?;
    let listener = listen::bind(config.http()?, "listen.http", "--http")?;
    let address = listener.local_addr()?;
    let resp = config.resp()?.map(|at| listen::bind(at, "listen.resp", "--resp")).transpose()?;
    let listening = Listening {
        http: address,
        resp: resp.as_ref().map(tokio::net::TcpListener::local_addr).transpose()?,
    };
    let clock = Arc::new(SystemClock::new());
    let ledger = open_ledger(&config, &data_dir, &*clock).await?;
    let settings = NodeSettings {
        name: data_dir.node.clone(),
        region: config.ledger.region,
        heartbeat: config.ledger.heartbeat.duration(),
        timeout: config.ledger.timeout.duration(),
        keyspaces_max: config.limits.keyspaces,
        waiting_takes: config.limits.waiting_takes,
        tuning: config.tuning()?,
        wanted: config.keyspace_specs()?.into_iter().map(wanted).collect(),
        if_empty: if has_file { Vec::new() } else { to_try().collect() },
        elsewhere: peers::ask(&config.ledger.peers).await,
        version: crate::VERSION.to_owned(),
        address: format!("http://{address}"),
        lanes: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let witness = Witness::open(&data_dir.witness(), &data_dir.node)?;
    // Before anyone can know that we are here: a stop that comes at once is a clean one too.
    let stops = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    let node = Node::start(ledger, clock, witness, settings).context("the mill could not be started")?;
    data_dir.announce(&listening)?;

    let (stop, stopping) = watch::channel(false);
    let state = Arc::new(State::new(node.clone(), config.clone()));
    let http =
        tokio::spawn(listen::serve(listener, App::new(state), config.limits.clone(), stopping.clone()));
    let resp = resp.zip(listening.resp).map(|(listener, at)| {
        let front = Front::new(node.clone(), config.limits.clone(), at);
        let threads = Threads::start(&front, &stopping)?;
        anyhow::Ok(tokio::spawn(resp::listen::serve(listener, front, threads, stopping)))
    });
    let resp = resp.transpose()?;

    let ended = run(&node, &config, &listening, stops).await;
    let begun = Instant::now();
    let _ = stop.send(true);
    node.drain();
    let _ = http.await;
    if let Some(resp) = resp {
        let _ = resp.await;
    }
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
    listening: &Listening,
    [mut terminate, mut interrupt]: [Signal; 2],
) -> anyhow::Result<()> {
    let mut state = node.state();
    let (mut greeted, mut warned) = (false, false);
    loop {
        let now = state.borrow_and_update().clone();
        match now {
            NodeState::Serving if !greeted => {
                greeted = true;
                banner::print(node, config, listening);
            }
            NodeState::Halted { reason } if !warned => {
                warned = true;
                banner::print_halted(node, listening.http, &reason);
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
    let id = ledgers::new_id().context("no randomness to be had")?;
    let path = match config.ledger_url()? {
        LedgerUrl::Sqlite(path) => path,
        LedgerUrl::Shared(url) => {
            return Ok(ledgers::open(&url, ledgers::options(&config.ledger, id, clock.wall()))?);
        }
    };
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
