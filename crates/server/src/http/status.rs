//! Whether the process lives, and whether it is of use.

use std::sync::Arc;

use axum::{extract::State as With, http::StatusCode};
use keymill_api::{Code, Health, HealthLedger, Readiness, Reason, rfc3339};
use keymill_issuer::{Node, NodeState};

use super::{State, answer::Json};

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
    let reason = unready(&state.node);
    let status = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Json(status, Readiness { ready: reason.is_none(), reasons: reason.into_iter().collect() })
}

/// Why the node does not serve keys, if it does not.
pub(crate) fn unready(node: &Node) -> Option<Reason> {
    let reason = |code, detail: String| Some(Reason { code, detail });
    match node.state().borrow().clone() {
        // A clock that may not go on is a reason to send callers elsewhere, and so is an empty stock that
        // nobody fills.
        NodeState::Serving => node.all_known().iter().find_map(|served| {
            if let Some(by) = served.unfit() {
                let detail = format!("the clock is {by} ms behind IDs of `{}`", served.name);
                return reason(Code::ClockBehind, detail);
            }
            let is_cut_off = !node.ledger_answers() && served.has_run_dry();
            let detail = format!("the ledger does not answer, and the stock of `{}` is used up", served.name);
            is_cut_off.then_some(Reason { code: Code::LedgerUnavailable, detail })
        }),
        NodeState::Starting { why: None } => reason(Code::Starting, "the node is registering".to_owned()),
        NodeState::Starting { why: Some(why) } => reason(Code::LedgerUnavailable, why),
        NodeState::Halted { reason: why } => reason(
            Code::LedgerHalted,
            format!("{why}; see `keymill ledger show`, then `keymill ledger advance`"),
        ),
        NodeState::Draining => reason(Code::Draining, "the node is stopping".to_owned()),
        NodeState::Dead { reason: why } => reason(Code::Draining, why),
    }
}
