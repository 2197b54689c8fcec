//! `/metrics`: what the node measures of itself, in Prometheus' text format.
//!
//! Nothing is counted on the path of a take: keys are counted by the shelf's own positions.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use axum::{
    Extension,
    extract::State as With,
    http::{HeaderValue, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use keymill_issuer::{NodeState, Served, TimeGlance, WorkerGlance, rowed::FillGlance};

use super::State;
use crate::auth::Caller;

mod page;
mod process;
mod saturation;

use page::Page;

pub(crate) async fn metrics(With(state): With<Arc<State>>, Extension(caller): Extension<Caller>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(CONTENT_TYPE, kind)], render(&state, &caller)).into_response()
}

fn render(state: &State, caller: &Caller) -> String {
    let mut page = Page::default();
    let node = &state.node;
    let mut known = node.all_known();
    known.retain(|served| caller.sees(served.name.as_str()));
    known.sort_by(|a, b| a.name.cmp(&b.name));
    keys(&mut page, &known);
    let reserves = node.reserves();
    page.family("reserve_duration_seconds", "histogram", "What a reserve takes, the witness included.");
    page.durations("reserve_duration_seconds", &[], &reserves.durations.read());
    let failed = reserves.failed.load(Ordering::Relaxed);
    page.single("reserve_failures_total", "counter", "Reserves that the ledger did not grant.", &failed);
    answers(&mut page, state);
    let timed: Vec<_> =
        known.iter().filter_map(|served| Some((served.name.as_str(), served.time_glance()?))).collect();
    times(&mut page, &timed);
    levels(&mut page, state, caller);
    rows(&mut page, &known);
    names(&mut page, state);
    saturation::render(&mut page, state, &known);
    let halted = matches!(&*node.state().borrow(), NodeState::Halted { .. });
    page.single("ledger_halted", "gauge", "1 while the ledger is halted.", &u8::from(halted));
    let ledger = node.ledger();
    page.family("ledger_info", "gauge", "The store and what its promises are worth.");
    page.sample("ledger_info", &[("store", ledger.store()), ("grade", &ledger.grade().to_string())], &1);
    page.family("build_info", "gauge", "The version that runs.");
    page.sample("build_info", &[("version", crate::VERSION)], &1);
    process::render(&mut page);
    page.text
}

/// What became of each keyspace's numbers.
fn keys(page: &mut Page, known: &[Arc<Served>]) {
    type Read = fn(&Served) -> u64;
    let families: [(&str, &str, &str, Read); 4] = [
        ("keys_issued_total", "counter", "Keys this process issued.", |served| served.glance().issued),
        ("stock_keys", "gauge", "Numbers in this process's memory.", |served| served.glance().stock),
        (
            "numbers_burned_total",
            "counter",
            "Numbers lost for ever: blocked words, refused hauls, rows that were dropped.",
            |served| served.glance().burned,
        ),
        (
            "numbers_given_back_total",
            "counter",
            "Numbers that went back unused; a clean stop does that.",
            Served::given_back,
        ),
    ];
    for (name, kind, help, read) in families {
        page.family(name, kind, help);
        for served in known {
            page.sample(name, &[("keyspace", served.name.as_str())], &read(served));
        }
    }
}

/// What the front ends answered, how long that took, and what they refused.
fn answers(page: &mut Page, state: &State) {
    let measures = &state.measures;
    page.family("request_duration_seconds", "histogram", "From a request that is there to its answer.");
    for protocol in measures.all() {
        if let Some(durations) = protocol.durations() {
            page.durations("request_duration_seconds", &[("protocol", protocol.name)], &durations);
        }
    }
    page.family("http_answers_total", "counter", "Answers by class of status.");
    for (class, count) in state.measures.classes() {
        page.sample("http_answers_total", &[("code", &format!("{class}xx"))], &count);
    }
    page.family("refusals_total", "counter", "Requests refused, by protocol and code.");
    for protocol in measures.all() {
        for (code, count) in protocol.refusals() {
            page.sample("refusals_total", &[("protocol", protocol.name), ("code", code.as_str())], &count);
        }
    }
}

/// What the watcher measured at its last look; what it could not measure is left out.
fn levels(page: &mut Page, state: &State, caller: &Caller) {
    let mut levels = state.board.levels();
    levels.retain(|(keyspace, _)| caller.sees(keyspace));
    page.family("level_keys", "gauge", "Keys left: numbers never reserved plus this node's stock, or rows.");
    for (keyspace, standing) in &levels {
        page.sample("level_keys", &[("keyspace", keyspace)], &standing.level);
    }
    page.family(
        "runway_seconds",
        "gauge",
        "How long they last at the current rate; absent while nobody takes any.",
    );
    for (keyspace, standing) in &levels {
        if let Some(seconds) = standing.runway {
            page.sample("runway_seconds", &[("keyspace", keyspace)], &seconds);
        }
    }
    let open = state.board.incidents().iter().filter(|incident| incident.resolved_at.is_none()).count();
    page.single("incidents_open", "gauge", "Incidents of the watcher that are not over.", &open);
}

/// How the rows of row pools fare, and what draws in their place cost.
fn rows(page: &mut Page, known: &[Arc<Served>]) {
    type Read = fn(&FillGlance) -> u64;
    let rowed: Vec<_> =
        known.iter().filter_map(|served| Some((served.name.as_str(), served.fill_glance()?))).collect();
    let families: [(&str, &str, Read); 4] = [
        ("rows_pushed_total", "Keys this process pushed into a row pool.", |glance| glance.pushed),
        (
            "rows_begun_anew_total",
            "Times a row pool's store may have forgotten something, and was begun anew.",
            |glance| glance.begun_anew,
        ),
        ("random_draws_total", "Numbers drawn because a row pool was dry.", |glance| glance.draws),
        ("random_collisions_total", "Numbers drawn that were taken.", |glance| glance.collisions),
    ];
    for (name, help, read) in families {
        page.family(name, "counter", help);
        for (keyspace, glance) in &rowed {
            page.sample(name, &[("keyspace", keyspace)], &read(glance));
        }
    }
}

/// What the names desk counts.
fn names(page: &mut Page, state: &State) {
    let counters = &state.names.counters;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    page.family("registry_lookups_total", "counter", "Links asked for, by where the answer came from.");
    for (code, counter) in [("remembered", &counters.remembered), ("looked_up", &counters.found)] {
        page.sample("registry_lookups_total", &[("code", code)], &read(counter));
    }
    for (name, help, counter) in [
        ("registry_misses_total", "Links asked for that are not there.", &counters.absent),
        ("registry_visits_total", "Links followed, as far as they were written down.", &counters.visits),
        ("registry_swept_total", "Links and names whose time was over, cleared away.", &counters.swept),
        ("digest_collisions_total", "Content-derived keys that were taken.", &counters.collisions),
    ] {
        page.single(name, "counter", help, &read(counter));
    }
    let lost = "Visits that were not counted: too many links at once.";
    page.single("registry_visits_lost_total", "counter", lost, &state.names.uncounted());
}

/// What time-ordered keyspaces measure of their workers and clocks.
#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn times(page: &mut Page, timed: &[(&str, TimeGlance)]) {
    type Read = fn(&TimeGlance) -> f64;
    let counters: [(&str, &str, &str, Read); 9] = [
        ("workers_leased", "gauge", "Worker ids that any node holds.", |glance| glance.leased as f64),
        ("workers_capacity", "gauge", "Worker ids the layout has room for.", |glance| glance.capacity.into()),
        ("sequence_overflows_total", "counter", "Ticks whose sequence was used up.", |glance| {
            glance.overflows as f64
        }),
        ("clock_rollbacks_total", "counter", "Takes that met a clock behind its IDs.", |glance| {
            glance.rollbacks as f64
        }),
        ("clock_rollback_seconds", "gauge", "The largest such step.", |glance| {
            glance.rollback_ms_max as f64 / 1e3
        }),
        ("lease_renewals_total", "counter", "Leases renewed.", |glance| glance.renewals as f64),
        (
            "lease_losses_total",
            "counter",
            "Leases that were another's when they were to be renewed.",
            |glance| glance.losses as f64,
        ),
        ("lease_conflicts_total", "counter", "Workers that could not be had.", |glance| {
            glance.conflicts as f64
        }),
        ("epoch_remaining_seconds", "gauge", "Until the layout's time runs out.", |glance| {
            glance.epoch_left_ms as f64 / 1e3
        }),
    ];
    for (name, kind, help, read) in counters {
        page.family(name, kind, help);
        for (keyspace, glance) in timed {
            page.sample(name, &[("keyspace", keyspace)], &read(glance));
        }
    }
    type ReadWorker = fn(&WorkerGlance) -> f64;
    let workers: [(&str, &str, &str, ReadWorker); 3] = [
        ("worker_ids_issued_total", "counter", "IDs by worker.", |worker| worker.issued as f64),
        ("window_remaining_seconds", "gauge", "How far a worker's window reaches ahead.", |worker| {
            worker.window_left_ms as f64 / 1e3
        }),
        ("logical_offset_seconds", "gauge", "How far a worker's last ID was ahead of the clock.", |worker| {
            worker.ahead_ms as f64 / 1e3
        }),
    ];
    for (name, kind, help, read) in workers {
        page.family(name, kind, help);
        for (keyspace, glance) in timed {
            for worker in &glance.workers {
                let labels = [("keyspace", *keyspace), ("worker", &worker.worker.to_string())];
                page.sample(name, &labels, &read(worker));
            }
        }
    }
}
