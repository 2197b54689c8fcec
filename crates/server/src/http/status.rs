//! Whether the process lives, and whether it is of use.

use std::sync::Arc;

use axum::{extract::State as With, http::StatusCode};
use keymill_api::{Health, HealthLedger, Readiness, Reason, rfc3339};
use keymill_issuer::{Node, NodeState};

use super::{State, answer::Json, readiness};

#[utoipa::path(get, path = "/healthz", tag = "status", summary = "The process lives",
    responses((status = 200, body = Health)))]
pub(crate) async fn healthz(With(state): With<Arc<State>>) -> Json<Health> {
    Json(StatusCode::OK, health(&state))
}

pub(super) fn health(state: &State) -> Health {
    let ledger = state.node.ledger();
    let node_state = state.node.state().borrow().clone();
    let identity = state.node.ledger_identity();
    Health {
        status: "ok".to_owned(),
        version: crate::VERSION.to_owned(),
        node: state.node.name().to_string(),
        ledger: HealthLedger {
            region: identity.as_ref().and_then(|identity| identity.region),
            id: identity.map(|identity| identity.id.0),
            store: ledger.store().to_owned(),
            grade: ledger.grade(),
            state: match node_state {
                NodeState::Halted { .. } => "halted",
                // It was never reached, so nothing is known of it.
                NodeState::Starting { .. } => "unreachable",
                _ if state.node.ledger_answers() => "ok",
                _ => "unreachable",
            }
            .to_owned(),
            answered_at: state.node.pen().answered_at().map(rfc3339),
        },
    }
}

#[utoipa::path(get, path = "/readyz", tag = "status", summary = "The node serves keys",
    responses((status = 200, body = Readiness), (status = 503, body = Readiness)))]
pub(crate) async fn readyz(With(state): With<Arc<State>>) -> Json<Readiness> {
    let mut checks = readiness::checks(&state.node);
    let reasons: Vec<Reason> = checks.iter().filter_map(readiness::Looked::reason).collect();
    checks.push(readiness::configuration(state.readings.last()));
    let ready = reasons.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let checks = checks.into_iter().map(Into::into).collect();
    Json(status, Readiness { ready, reasons, checks })
}

/// Why the node does not serve keys, if it does not.
pub(crate) fn unready(node: &Node) -> Option<Reason> {
    readiness::checks(node).iter().find_map(readiness::Looked::reason)
}
