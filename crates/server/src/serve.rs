//! From a configuration to a running server, and back to nothing held.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use futures_util::future::select_all;
use keymill_id::{KeyspaceName, Stated};
use keymill_issuer::{
    Node, NodeSettings, NodeState, Wanted,
    clock::{Clock, SystemClock},
    key_log::KeyLog,
    witness::Witness,
};
use keymill_ledger::{Ledger, SqliteStore};
use keymill_pool::{Pools, TableHome};
use keymill_registry::Registry;
use keymill_sql::Sqlite;
use tokio::{
    net::TcpListener,
    runtime::Handle,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use crate::{
    auth::{self, Guard},
    banner,
    config::{Config, LedgerUrl},
    data_dir::DataDir,
    descriptors,
    http::{App, State, listen},
    key_log::RegistryLog,
    ledgers,
    measures::Measures,
    names::{self, Names},
    notify,
    observers::Observers,
    peers, registries,
    reload::{Origin, Readings, Reloader},
    resp::{self, Front, listen::Threads},
    telemetry::LogLevel,
    tls::{self, Tls},
    trace::Traces,
};

/// How long the last visits may take to be written down.
const CHORES_WITHIN: Duration = Duration::from_secs(2);

/// How long the last spans may take to be sent: nothing depends on them.
const TRACES_WITHIN: Duration = Duration::from_secs(2);

/// The real addresses; a configured port may have been 0.
#[derive(Debug)]
pub(crate) struct Listening {
    pub http: SocketAddr,
    pub resp: Option<SocketAddr>,
    pub admin: Option<SocketAddr>,
    /// They speak TLS.
    pub tls: bool,
}

impl Listening {
    fn all(&self) -> Vec<SocketAddr> {
        [Some(self.http), self.resp, self.admin].into_iter().flatten().collect()
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

/// Runs the server until it is told to stop. Where no config file was read, an empty ledger gets keyspaces to try.
pub async fn serve(config: Config, origin: Origin, log_level: LogLevel) -> anyhow::Result<()> {
    descriptors::raise_limit();
    let tls = Tls::open(&config.listen, config.limits.request_timeout.duration())?;
    let data_dir = DataDir::open(&config.data_dir, &config.node)?;
    let listener = listen::bind(config.http()?, "listen.http", "--http")?;
    let address = listener.local_addr()?;
    let resp = config.resp()?.map(|at| listen::bind(at, "listen.resp", "--resp")).transpose()?;
    let admin =
        config.admin()?.map(|at| listen::bind(at, "listen.admin", "KEYMILL_LISTEN__ADMIN")).transpose()?;
    let listening = Listening {
        http: address,
        resp: resp.as_ref().map(TcpListener::local_addr).transpose()?,
        admin: admin.as_ref().map(TcpListener::local_addr).transpose()?,
        tls: tls.is_some(),
    };
    let clock = Arc::new(SystemClock::new());
    let witness = Witness::open(&data_dir.witness(), &data_dir.node)?;
    let is_new = witness.memory().ledger.is_none();
    let (ledger, file) = open_ledger(&config, &data_dir, &*clock, is_new).await?;
    let traces = Traces::open(&config.trace, data_dir.node.as_str())?;
    let ledger = traces.as_ref().map_or(ledger.clone(), |traces| traces.around(ledger));
    let database = registries::open(&config, file)?;
    let migrate = config.ledger.migrate;
    let registry = database.clone().map(|database| Registry::new(database, migrate));
    let tables = database.map(|database| TableHome { database, migrate, node: data_dir.node.clone() });
    let guard = post_guard(&config, &listening, &*ledger, clock.clone()).await?;
    let settings = NodeSettings {
        name: data_dir.node.clone(),
        region: config.ledger.region,
        heartbeat: config.ledger.heartbeat.duration(),
        timeout: config.ledger.timeout.duration(),
        keyspaces_max: config.limits.keyspaces,
        waiting_takes: config.limits.waiting_takes,
        wanted: config.wanted()?,
        if_empty: if origin.file.is_some() { Vec::new() } else { to_try().collect() },
        elsewhere: peers::ask(&config).await?,
        version: crate::VERSION.to_owned(),
        address: format!("{}://{address}", listening.scheme()),
        lanes: std::thread::available_parallelism().map_or(1, usize::from),
        row_pools: Arc::new(Pools { tables }),
        key_log: registry.clone().map(|registry| -> Arc<dyn KeyLog> {
            Arc::new(RegistryLog { registry, node: data_dir.node.clone() })
        }),
    };
    // Before anyone can know that we are here: a stop that comes at once is a clean one too.
    let mut stops = vec![signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    let hangups = signal(SignalKind::hangup())?;
    let node = Node::start(ledger, clock, witness, settings).context("the mill could not be started")?;
    data_dir.announce(&listening)?;
    notify::start(&node);

    let (stop, stopping) = watch::channel(false);
    if guard.is_on() {
        tokio::spawn(auth::keep(guard.clone(), Arc::downgrade(&node)));
    }
    if let Some(tls) = &tls {
        tokio::spawn(tls::watch(Arc::downgrade(tls)));
    }
    let names = Arc::new(Names::new(node.clone(), registry, &config, address));
    let chores = tokio::spawn(names::keep(
        Arc::downgrade(&names),
        config.registry.sweep_interval.duration(),
        stopping.clone(),
    ));
    let measures = Arc::new(Measures::new(config.metrics.durations));
    measures.served_by(&measures.http, vec![Handle::current().metrics()]);
    let readings = Arc::<Readings>::default();
    let reloading = match origin.file {
        Some(file) => {
            let reloader = Reloader {
                file,
                read: origin.read,
                config: config.clone(),
                log_level,
                traces: traces.clone(),
                node: Arc::downgrade(&node),
                readings: readings.clone(),
            };
            Some(tokio::spawn(reloader.run(hangups)))
        }
        // There is nothing to read again: the terminal is gone, and so is whoever tried this out.
        None => {
            stops.push(hangups);
            None
        }
    };
    let (board, watching) = crate::watch::start(&node, &config.watch)?;
    let observers = Observers { board, measures, traces: traces.clone(), readings };
    let app = App::new(Arc::new(State::new(
        node.clone(),
        names.clone(),
        config.clone(),
        guard.clone(),
        observers.clone(),
        listening.admin,
    )));
    let listen = |listener, app| {
        tokio::spawn(listen::serve(listener, app, config.limits.clone(), tls.clone(), stopping.clone()))
    };
    let admin = admin.map(|listener| listen(listener, app.for_admins()));
    let http = listen(listener, app);
    let resp = resp.zip(listening.resp).map(|(listener, at)| {
        let (node, names, limits) = (node.clone(), names.clone(), config.limits.clone());
        let front = Front::new(node, names, limits, guard.clone(), &observers, tls.clone(), at);
        let threads = Threads::start(&front, &stopping)?;
        anyhow::Ok(tokio::spawn(resp::listen::serve(listener, front, threads, stopping.clone())))
    });
    let resp = resp.transpose()?;

    let ended = run(&node, &config, &listening, guard.is_on(), stops).await;
    let begun = Instant::now();
    notify::stopping();
    // First of all nobody is sent here any more.
    node.drain();
    let _ = stop.send(true);
    // What a stop leaves behind is no trouble.
    watching.abort();
    if let Some(reloading) = reloading {
        reloading.abort();
    }
    let _ = http.await;
    for other in [admin, resp].into_iter().flatten() {
        let _ = other.await;
    }
    // Who was answered meanwhile is counted as well.
    let last_chores = async {
        let _ = chores.await;
        names.write_visits().await;
    };
    let left = || config.limits.drain_timeout.duration().saturating_sub(begun.elapsed());
    let _ = tokio::time::timeout(CHORES_WITHIN.min(left() / 2), last_chores).await;
    let stopped = node.stop(left()).await;
    if let Some(traces) = traces {
        traces.close(left().min(TRACES_WITHIN)).await;
    }
    data_dir.withdraw();
    if ended.is_ok() {
        tracing::info!(
            numbers_given_back = stopped.given_back,
            numbers_burned = stopped.burned,
            "stopped: {} numbers given back, {} burned",
            stopped.given_back,
            stopped.burned
        );
    }
    ended
}

/// The tokens as they are now. Where they are needed and there are none, nobody could ask for anything, and the
/// first one has to be made before the start. A ledger that cannot be reached is no reason not to start: until it
/// can be, nobody is let in.
async fn post_guard(
    config: &Config,
    listening: &Listening,
    ledger: &dyn Ledger,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Arc<Guard>> {
    let mode = config.auth.mode;
    let guard = Arc::new(Guard::new(auth::is_needed(mode, &listening.all()), clock));
    let outside = listening.all().into_iter().find(|at| !at.ip().is_loopback());
    if let (false, Some(at)) = (guard.is_on(), outside) {
        tracing::warn!(
            "auth.mode is \"off\", and {at} is not loopback: whoever can reach it may do everything"
        );
    }
    if !guard.is_on() {
        return Ok(guard);
    }
    match guard.read(ledger).await {
        Ok(1..) => Ok(guard),
        Ok(0) => {
            let why = outside.map_or_else(
                || "auth.mode is \"on\"".to_owned(),
                |at| format!("{at} is not loopback (auth.mode is \"{}\")", mode.as_str()),
            );
            bail!(
                "{why}, so callers need a token, and the ledger has none that is still accepted; make the first with \
                 `keymill token create --name admin --scope admin,inspect,take --data-dir {}` (or `--ledger URL`), or \
                 let everyone in with auth.mode = \"off\"",
                config.data_dir.display()
            )
        }
        Err(error) => {
            tracing::warn!(%error, "the tokens cannot be read yet, and nobody is let in until they are: {error}");
            Ok(guard)
        }
    }
}

/// Until a signal, or until the node must not go on.
async fn run(
    node: &Arc<Node>,
    config: &Config,
    listening: &Listening,
    guarded: bool,
    mut stops: Vec<Signal>,
) -> anyhow::Result<()> {
    let mut state = node.state();
    let mut told = select_all(stops.iter_mut().map(|stop| Box::pin(stop.recv())));
    let (mut greeted, mut warned) = (false, false);
    loop {
        let now = state.borrow_and_update().clone();
        match now {
            NodeState::Serving if !greeted => {
                greeted = true;
                banner::print(node, config, listening, guarded);
            }
            NodeState::Halted { reason } if !warned => {
                warned = true;
                banner::print_halted(node, listening, &reason);
            }
            NodeState::Dead { reason } => bail!(reason),
            _ => {}
        }
        tokio::select! {
            changed = state.changed() => changed.context("the node is gone")?,
            _ = &mut told => return Ok(()),
        }
    }
}

/// With the file it lies in, if it does. `is_new`: this node remembers no ledger, and may make one where there is
/// none.
async fn open_ledger(
    config: &Config,
    data_dir: &DataDir,
    clock: &dyn Clock,
    is_new: bool,
) -> anyhow::Result<(Arc<dyn Ledger>, Option<Sqlite>)> {
    let id = ledgers::new_id().context("no randomness to be had")?;
    let path = match config.ledger_url()? {
        LedgerUrl::Sqlite(path) => path,
        LedgerUrl::Shared(url) => {
            let options = ledgers::options(&config.ledger, is_new, id, clock.wall());
            return Ok((ledgers::open(&url, options)?, None));
        }
    };
    let (holder, at) = (format!("node {}", data_dir.node), clock.wall());
    let shown = path.display().to_string();
    if !is_new && !path.exists() {
        bail!(
            "there is no ledger at {shown}, but this node remembers one: restore it and run `keymill ledger advance`, \
             or start with a new data dir to begin anew"
        );
    }
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&path, &holder, id, at)).await?;
    let (store, created) = opened.with_context(|| format!("the ledger {shown} could not be opened"))?;
    if created {
        tracing::info!(ledger = shown, "made a new ledger at {shown}");
    }
    let file = store.file().clone();
    Ok((Arc::new(store), Some(file)))
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
