//! `GET /v1/stream`: a snapshot every second, as server-sent events.
//!
//! A snapshot is made once for all who watch, and only while someone does; whoever may not see every keyspace gets
//! a copy without the rest.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use axum::{
    Extension,
    extract::State as With,
    http::{HeaderValue, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hyper::header::CACHE_CONTROL;
use keymill_api::{
    Code, IncidentView, KeyspaceGlance, NodeGlance, Refusal, Snapshot, WorkerMap, WorkerView, rfc3339,
};
use keymill_id::Definition;
use keymill_issuer::{NodeState, Served, quantity::Mark};
use keymill_ledger::{LeaseRow, LedgerError, NodeRow, Timestamp, Track, TrackRow, ops};
use tokio::sync::watch;

use super::{
    State,
    answer::{NO_STORE, Refused},
    incidents, status,
};
use crate::{
    auth::Caller,
    level::{SILENT_AFTER_MS, level, rate},
    measures::Protocol,
};

const EVERY: Duration = Duration::from_secs(1);
/// Who may watch at a time.
const VIEWERS_MAX: usize = 1000;
/// Leases change slowly, and there may be many: they are looked at once in so many snapshots.
const LEASES_EVERY: u32 = 5;

/// Where snapshots are shown.
#[derive(Debug)]
pub(crate) struct Stage {
    latest: watch::Sender<Option<Arc<Shown>>>,
    /// Whether somebody makes them.
    is_lit: Mutex<bool>,
}

#[derive(Debug)]
struct Shown {
    snapshot: Snapshot,
    /// The same as an event, for those who may see all of it.
    event: Bytes,
}

/// What the ledger said last: it stays in view while the ledger cannot be asked.
#[derive(Debug, Default)]
struct Rows {
    tracks: HashMap<Track, TrackRow>,
    nodes: Vec<NodeRow>,
    leases: Vec<LeaseRow>,
}

impl Default for Stage {
    fn default() -> Self {
        Self { latest: watch::Sender::new(None), is_lit: Mutex::new(false) }
    }
}

impl Stage {
    /// Joins the audience, and sees to it that there is something to see.
    fn join(state: &Arc<State>) -> Result<watch::Receiver<Option<Arc<Shown>>>, Refusal> {
        let stage = &state.stage;
        if stage.latest.receiver_count() >= VIEWERS_MAX {
            let detail = format!("{VIEWERS_MAX} others watch already; try again later");
            return Err(Refusal::new(Code::Overloaded, detail));
        }
        let receiver = stage.latest.subscribe();
        let mut is_lit = stage.is_lit.lock().expect("nothing panics while it holds this");
        if !std::mem::replace(&mut *is_lit, true) {
            tokio::spawn(play(Arc::downgrade(state)));
        }
        Ok(receiver)
    }
}

/// Makes snapshots until nobody looks.
async fn play(state: Weak<State>) {
    let mut rows = Rows::default();
    for round in 0_u32.. {
        let Some(state) = state.upgrade() else { return };
        {
            let mut is_lit = state.stage.is_lit.lock().expect("nothing panics while it holds this");
            if state.stage.latest.receiver_count() == 0 {
                *is_lit = false;
                return;
            }
        }
        let patience = state.config.ledger.timeout.duration();
        // What cannot be had in time is shown as it was.
        let _ = tokio::time::timeout(patience, rows.renew(&state, round % LEASES_EVERY == 0)).await;
        let snapshot = snapshot(&state, &rows);
        let event = event(&snapshot);
        state.stage.latest.send_replace(Some(Arc::new(Shown { snapshot, event })));
        drop(state);
        tokio::time::sleep(EVERY).await;
    }
}

impl Rows {
    async fn renew(&mut self, state: &State, leases: bool) -> Result<(), LedgerError> {
        let ledger = state.node.ledger();
        self.tracks = ledger.tracks().await?.into_iter().collect();
        self.nodes = ledger.nodes().await?;
        if leases {
            let mut found = Vec::new();
            for served in state.node.all_known().iter().filter(|served| served.time_glance().is_some()) {
                found.extend(ledger.workers(ops::Workers { keyspace: served.name.clone() }).await?);
            }
            self.leases = found;
        }
        Ok(())
    }
}

fn snapshot(state: &State, rows: &Rows) -> Snapshot {
    let node = &state.node;
    let incidents: Vec<IncidentView> = incidents::open(&state.board);
    let low: HashSet<&str> = incidents.iter().filter_map(|incident| incident.keyspace.as_deref()).collect();
    let mut known = node.all_known();
    known.sort_by(|a, b| a.name.cmp(&b.name));
    let health = status::health(state);
    Snapshot {
        time: rfc3339(node.now()),
        node: health.node,
        version: health.version,
        ledger: health.ledger,
        reasons: status::unready(node).into_iter().collect(),
        keyspaces: known.iter().map(|served| keyspace(state, rows, served, &low)).collect(),
        nodes: rows.nodes.iter().map(|row| node_glance(row, node.now())).collect(),
        workers: known.iter().filter_map(|served| workers(state, rows, served)).collect(),
        incidents,
        refusals: refusals(state),
    }
}

fn refusals(state: &State) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for (code, count) in state.measures.all().into_iter().flat_map(Protocol::refusals) {
        *sum.entry(code.as_str().to_owned()).or_default() += count;
    }
    sum
}

#[expect(clippy::cast_precision_loss, reason = "a runway is an estimate")]
fn keyspace(state: &State, rows: &Rows, served: &Served, low: &HashSet<&str>) -> KeyspaceGlance {
    let now = state.node.now();
    let glance = served.glance();
    let track = rows.tracks.get(&Track::of(served.name.clone())).copied().unwrap_or_default();
    let left = level(&served.definition, Some(served), &track, now);
    let rate = rate(&state.node, &served.name, glance.rate, &rows.nodes, now);
    let runway = match &served.definition {
        Definition::Snowflake(snowflake) => {
            Some(snowflake.layout().ends_at_ms().saturating_sub(now.0) as f64 / 1000.0)
        }
        _ => left.filter(|_| rate > 0.0).map(|left| left as f64 / rate),
    };
    let in_keys = |mark: Option<Mark>| match mark? {
        Mark::Keys(keys) => Some(keys.0 as f64),
        Mark::Time(time) => (rate > 0.0).then(|| rate * time.duration().as_secs_f64()),
    };
    let tuned = served.settings().tuned;
    KeyspaceGlance {
        name: served.name.to_string(),
        scheme: served.definition.scheme().to_string(),
        state: if served.is_retired() { "retired" } else { "active" }.to_owned(),
        level: left.map(|left| left.to_string()),
        stock: glance.stock.to_string(),
        rate: (rate * 1000.0).round() / 1000.0,
        runway_seconds: runway.map(|seconds| (seconds * 10.0).round() / 10.0),
        restart_keys: in_keys(tuned.restart_below),
        page_keys: in_keys(tuned.page_below),
        below: low.contains(served.name.as_str()),
    }
}

fn node_glance(row: &NodeRow, now: Timestamp) -> NodeGlance {
    let reports = &row.report.keyspaces;
    let is_silent = now.since(row.last_seen) >= SILENT_AFTER_MS;
    let state = match (row.stopped, is_silent) {
        (true, _) => "stopped",
        (false, true) => "silent",
        (false, false) => "live",
    };
    NodeGlance {
        name: row.name.to_string(),
        state: state.to_owned(),
        last_seen: rfc3339(row.last_seen),
        version: row.report.version.clone(),
        address: row.report.address.clone(),
        stock: reports.iter().map(|report| report.stock).sum::<u64>().to_string(),
        rate: if state == "live" { reports.iter().map(|report| report.rate).sum() } else { 0.0 },
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn workers(state: &State, rows: &Rows, served: &Served) -> Option<WorkerMap> {
    let glance = served.time_glance()?;
    let now = state.node.now();
    let held = rows.leases.iter().filter(|lease| lease.keyspace == served.name);
    Some(WorkerMap {
        keyspace: served.name.to_string(),
        capacity: glance.capacity,
        window_seconds: glance
            .workers
            .iter()
            .map(|worker| worker.window_left_ms as f64 / 1000.0)
            .reduce(f64::min),
        clock_behind_ms: served.unfit().unwrap_or(0),
        workers: held.cloned().map(|lease| WorkerView::new(lease, now)).collect(),
    })
}

fn event(snapshot: &Snapshot) -> Bytes {
    let data = serde_json::to_string(snapshot).expect("a snapshot is plain data");
    format!("event: snapshot\ndata: {data}\n\n").into()
}

/// What `caller` may see of it.
fn event_for(caller: &Caller, shown: &Shown) -> Bytes {
    if caller.sees_everything() {
        return shown.event.clone();
    }
    let mut snapshot = shown.snapshot.clone();
    snapshot.keyspaces.retain(|keyspace| caller.sees(&keyspace.name));
    snapshot.workers.retain(|map| caller.sees(&map.keyspace));
    snapshot.incidents.retain(|incident| incident.keyspace.as_deref().is_none_or(|name| caller.sees(name)));
    // Sums over keyspaces that are not theirs would tell of them.
    for node in &mut snapshot.nodes {
        (node.stock, node.rate) = ("0".to_owned(), 0.0);
    }
    event(&snapshot)
}

#[utoipa::path(get, path = "/v1/stream", tag = "status", summary = "A snapshot every second",
    description = "Server-sent events: `event: snapshot`, with a Snapshot as `data`.",
    responses((status = 200, description = "text/event-stream, until either side leaves")))]
pub(crate) async fn stream(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Refused> {
    let receiver = Stage::join(&state)?;
    let events =
        futures_util::stream::unfold((receiver, state, caller), |(mut receiver, state, caller)| async {
            let mut node = state.node.state();
            let leaving =
                node.wait_for(|state| matches!(state, NodeState::Draining | NodeState::Dead { .. }));
            tokio::select! {
                changed = receiver.changed() => changed.ok()?,
                // A stream must not keep the server from stopping.
                _ = leaving => return None,
            }
            if !caller.stands() {
                return None;
            }
            let event = receiver.borrow_and_update().as_ref().map(|shown| event_for(&caller, shown));
            let event: Result<Bytes, std::convert::Infallible> = Ok(event.unwrap_or_default());
            Some((event, (receiver, state, caller)))
        });
    let kind = HeaderValue::from_static("text/event-stream");
    let body = axum::body::Body::from_stream(events);
    Ok(([(CONTENT_TYPE, kind), (CACHE_CONTROL, NO_STORE)], body).into_response())
}
