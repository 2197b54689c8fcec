//! What the watcher found wrong, for people and dashboards.

use std::sync::Arc;

use axum::{Extension, extract::State as With, http::StatusCode};
use keymill_api::{IncidentList, IncidentView};
use keymill_watch::{Board, Incident, Subject, rfc3339};

use super::{State, answer::Json};
use crate::auth::Caller;

#[utoipa::path(get, path = "/v1/incidents", tag = "status", summary = "What the watcher found wrong",
    responses((status = 200, body = IncidentList)))]
pub(crate) async fn list(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
) -> Json<IncidentList> {
    let is_seen = |incident: &Incident| match &incident.subject {
        Subject::Keyspace(name) => caller.sees(name),
        Subject::Ground(_) => true,
    };
    let incidents = state.board.incidents().into_iter().filter(is_seen).map(view).collect();
    Json(StatusCode::OK, IncidentList { incidents })
}

/// Those that are not over.
pub(super) fn open(board: &Board) -> Vec<IncidentView> {
    board.incidents().into_iter().filter(|incident| incident.resolved_at.is_none()).map(view).collect()
}

fn view(incident: Incident) -> IncidentView {
    IncidentView {
        id: incident.id,
        state: if incident.resolved_at.is_some() { "resolved" } else { "open" }.to_owned(),
        keyspace: match incident.subject {
            Subject::Keyspace(name) => Some(name),
            Subject::Ground(_) => None,
        },
        kind: incident.kind.as_str().to_owned(),
        severity: incident.severity.as_str().to_owned(),
        summary: incident.summary,
        since: rfc3339(incident.since),
        resolved_at: incident.resolved_at.map(rfc3339),
        notified: incident.notified_at.is_some(),
        notified_at: incident.notified_at.map(rfc3339),
        dedup_key: incident.dedup_key,
    }
}
