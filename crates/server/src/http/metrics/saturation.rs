//! How full the places are where requests wait, and how busy the threads that serve them.

use keymill_issuer::Served;
use std::sync::Arc;

use super::{super::State, page::Page};

pub(super) fn render(page: &mut Page, state: &State, known: &[Arc<Served>]) {
    let measures = &state.measures;
    page.family("connections_open", "gauge", "Connections; gRPC shares those of HTTP.");
    for protocol in [&measures.http, &measures.resp] {
        page.sample("connections_open", &[("protocol", protocol.name)], &protocol.connections());
    }
    page.family("connections_limit", "gauge", "limits.connections and limits.resp_connections.");
    let limits = &state.config.limits;
    for (protocol, limit) in [(&measures.http, limits.connections), (&measures.resp, limits.resp_connections)]
    {
        page.sample("connections_limit", &[("protocol", protocol.name)], &limit);
    }

    page.family("waiting_takes", "gauge", "Callers who wait for keys that are not ready.");
    for served in known {
        page.sample("waiting_takes", &[("keyspace", served.name.as_str())], &served.waiting());
    }
    page.single(
        "waiting_takes_limit",
        "gauge",
        "limits.waiting_takes, of each keyspace.",
        &limits.waiting_takes,
    );
    let [ledger, names] = state.under_way();
    page.single("admin_requests_under_way", "gauge", "Requests that wait for the ledger.", &ledger);
    page.single("admin_requests_limit", "gauge", "limits.admin_requests.", &limits.admin_requests);
    page.single("name_requests_under_way", "gauge", "Requests for names, links and references.", &names);
    page.single("name_requests_limit", "gauge", "limits.name_requests.", &limits.name_requests);

    let threads = measures.threads();
    page.family(
        "threads",
        "gauge",
        "Threads that serve a protocol; those of http serve gRPC and all else too.",
    );
    for (protocol, threads) in &threads {
        page.sample("threads", &[("protocol", protocol)], &threads.count());
    }
    page.family("threads_busy_seconds_total", "counter", "How long they were busy, added up.");
    for (protocol, threads) in &threads {
        page.sample("threads_busy_seconds_total", &[("protocol", protocol)], &threads.busy().as_secs_f64());
    }
    page.family("tasks", "gauge", "Tasks that are not over: connections, requests, chores.");
    for (protocol, threads) in &threads {
        page.sample("tasks", &[("protocol", protocol)], &threads.tasks());
    }
    page.family("tasks_queued", "gauge", "Tasks that no thread has taken up yet.");
    for (protocol, threads) in &threads {
        page.sample("tasks_queued", &[("protocol", protocol)], &threads.queued());
    }
}
