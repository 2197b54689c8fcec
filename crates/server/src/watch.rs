//! The watcher of this node: looks at what it serves and at its ledger, from inside.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::join_all;
use keymill_id::Definition;
use keymill_issuer::{Node, NodeState, Served};
use keymill_ledger::{LedgerError, NodeRow, Timestamp, Track, TrackRow, ops};
use keymill_watch::{
    Board, Ground, GroundState, Look, Marks, Reading, RestartFiller, Sample, Seen, Supply, Target, Watcher,
};
use tokio::task::JoinHandle;

use crate::{
    config::WatchConfig,
    connect::Trust,
    level::{level, rate},
    web::WebClient,
};

/// Starts to watch. The watch ends with its task.
pub(crate) fn start(node: &Arc<Node>, config: &WatchConfig) -> anyhow::Result<(Arc<Board>, JoinHandle<()>)> {
    let interval = config.interval.duration();
    let board = Arc::new(Board::new(interval));
    let trust = Trust::default();
    let inside = Arc::new(Inside { node: Arc::downgrade(node) });
    let watcher = Watcher {
        target: inside.clone(),
        filler: Some(inside),
        sinks: config.sinks()?,
        heartbeat_url: config.heartbeat_url()?,
        web: Arc::new(WebClient::new(config.is_secure().then_some(&trust))?),
        interval,
        board: board.clone(),
    };
    Ok((board, tokio::spawn(watcher.run())))
}

/// The node as its own watcher sees it.
#[derive(Debug)]
struct Inside {
    node: Weak<Node>,
}

#[async_trait]
impl Target for Inside {
    async fn look(&self, patience: Duration) -> Look {
        let Some(node) = self.node.upgrade() else {
            return told(String::new(), unmeasured("the node is gone"), Vec::new());
        };
        let scope = node.ledger_identity().map_or_else(|| node.name().to_string(), |ledger| ledger.id.0);
        match tokio::time::timeout(patience, measure(&node)).await {
            Ok(Ok((state, seen))) => told(scope, state, seen),
            Ok(Err(error)) => told(scope, unmeasured(error), Vec::new()),
            Err(_) => told(scope, unmeasured(format!("no answer within {patience:?}")), Vec::new()),
        }
    }
}

fn told(scope: String, state: GroundState, seen: Vec<Seen>) -> Look {
    Look { scope, ground: Ground { name: "ledger", state }, seen }
}

fn unmeasured(why: impl std::fmt::Display) -> GroundState {
    GroundState::Unmeasured { why: why.to_string() }
}

/// The ledger, and then every active keyspace that has a level.
async fn measure(node: &Arc<Node>) -> Result<(GroundState, Vec<Seen>), LedgerError> {
    if let Some(trouble) = trouble(&node.state().borrow()) {
        return Ok((trouble, Vec::new()));
    }
    let ledger = node.ledger();
    let survey = ledger.survey(ops::Survey { at: node.now() }).await?;
    if let Some(halt) = survey.head.halted {
        return Ok((GroundState::Halted { reason: halt.reason }, Vec::new()));
    }
    let mut watched = node.all_known();
    watched.retain(|served| !served.is_retired() && has_level(&served.definition));
    if watched.is_empty() {
        return Ok((GroundState::Fine, Vec::new()));
    }
    let tracks: HashMap<Track, TrackRow> = ledger.tracks().await?.into_iter().collect();
    let nodes = ledger.nodes().await?;
    let look = |served: Arc<Served>| {
        let track = tracks.get(&Track::of(served.name.clone())).copied().unwrap_or_default();
        let nodes = &nodes;
        async move {
            let reading = read(node, &served, &track, nodes).await;
            Seen { keyspace: served.name.to_string(), marks: marks(&served), reading }
        }
    };
    Ok((GroundState::Fine, join_all(watched.into_iter().map(look)).await))
}

/// Why a node cannot see its ledger, if it cannot.
fn trouble(state: &NodeState) -> Option<GroundState> {
    match state {
        NodeState::Serving | NodeState::Draining => None,
        NodeState::Starting { why: None } => Some(unmeasured("the node has not joined it yet")),
        NodeState::Starting { why: Some(why) } | NodeState::Dead { reason: why } => Some(unmeasured(why)),
        NodeState::Halted { reason } => Some(GroundState::Halted { reason: reason.clone() }),
    }
}

fn marks(served: &Served) -> Marks {
    let tuned = served.settings().tuned;
    Marks { restart_below: tuned.restart_below, page_below: tuned.page_below }
}

/// Random IDs and digests use nothing up.
fn has_level(definition: &Definition) -> bool {
    matches!(definition, Definition::Pool(_) | Definition::Sequence(_) | Definition::Snowflake(_))
}

async fn read(node: &Node, served: &Served, track: &TrackRow, nodes: &[NodeRow]) -> Reading {
    let glance = served.glance();
    let now = node.now();
    let rate = rate(node, &served.name, glance.rate, nodes, now);
    let sample = |level, supply, stock| {
        let (rate, issued) = (Some(rate), Some(glance.issued));
        Reading::Measured(Sample { level, supply, rate, issued, stock })
    };
    // What lies elsewhere and is watched is counted there, now: what was known of it before is no measurement.
    if marks(served).is_set()
        && let Some(counted) = served.count_rows().await
    {
        return match counted {
            Ok(rows) => sample(rows, Supply::Pool, None),
            Err(error) => Reading::Unmeasured { why: error.to_string() },
        };
    }
    match level(&served.definition, Some(served), track, now) {
        Some(level) => {
            let supply = supply(&served.definition, now);
            sample(level, supply, Some(glance.stock).filter(|_| supply == Supply::Keyspace))
        }
        None => Reading::Unmeasured { why: "its level is not known".to_owned() },
    }
}

fn supply(definition: &Definition, now: Timestamp) -> Supply {
    match definition {
        Definition::Snowflake(snowflake) => {
            let left = snowflake.layout().ends_at_ms().saturating_sub(now.0);
            Supply::Epoch { left: Duration::from_millis(left) }
        }
        _ => Supply::Keyspace,
    }
}

#[async_trait]
impl RestartFiller for Inside {
    async fn restart(&self, keyspace: &str) -> Result<(), String> {
        let served = self.node.upgrade().and_then(|node| node.known(keyspace));
        served.map(|served| served.restart_filler()).ok_or_else(|| "it is not served here".to_owned())
    }
}
