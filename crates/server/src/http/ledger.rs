//! The ledger, its nodes and claims, for people; and the two things an operator does to it.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State as With},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use keymill_api::{
    AdvanceAnswer, AdvanceRequest, ClaimList, Code, LedgerView, NodeList, Problem, Refusal, TrackView,
    WorkerList, WorkerView,
};
use keymill_id::{Definition, Number};
use keymill_ledger::{NodeName, Track, WorkerId, ops};
use serde::Deserialize;

use super::{
    State,
    answer::{Json, NO_STORE, Refused},
    body, keyspaces,
    query::Query,
};
use crate::auth::Caller;

type Answer = Result<Response, Refused>;

#[utoipa::path(get, path = "/v1/ledger", tag = "ledger", summary = "Show the ledger",
    responses((status = 200, body = LedgerView)))]
pub(crate) async fn show(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
) -> Json<LedgerView> {
    let ledger = state.node.ledger();
    let mut view = LedgerView {
        id: None,
        store: ledger.store().to_owned(),
        grade: ledger.grade(),
        incarnation: None,
        state: "unreachable".to_owned(),
        reason: None,
        region: None,
        tracks: Vec::new(),
    };
    let seen = async {
        let survey = ledger.survey(ops::Survey { at: state.node.now() }).await?;
        Ok::<_, keymill_ledger::LedgerError>((survey, ledger.tracks().await?))
    };
    match seen.await {
        Ok((survey, tracks)) => {
            view.state = if survey.head.halted.is_some() { "halted" } else { "ok" }.to_owned();
            view.reason = survey.head.halted.map(|halt| halt.reason);
            view.id = Some(survey.head.id.0);
            view.incarnation = Some(survey.incarnation);
            view.region = survey.head.region;
            let track = |(track, row): (Track, keymill_ledger::TrackRow)| TrackView {
                track: track.to_string(),
                cursor: row.cursor.to_string(),
                revision: row.revision,
            };
            let seen = tracks.into_iter().filter(|(track, _)| caller.sees(track.keyspace.as_str()));
            view.tracks = seen.map(track).collect();
        }
        Err(error) => view.reason = Some(error.to_string()),
    }
    Json(StatusCode::OK, view)
}

#[utoipa::path(post, path = "/v1/ledger/advance", tag = "ledger", summary = "Lift a halted ledger above all witnesses",
    request_body(content = Option<AdvanceRequest>),
    responses((status = 200, body = AdvanceAnswer), (status = 422, body = Problem)))]
pub(crate) async fn advance(With(state): With<Arc<State>>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body::read(body, &state.config.limits).await?;
    let request: AdvanceRequest = body::parse(&parts.headers, &body)?;
    let gone = |(index, gone): (usize, keymill_api::GoneNode)| {
        let node = NodeName::parse(&gone.node).map_err(|error| {
            Refusal::field(Code::InvalidField, &format!("without/{index}/node"), error.to_string())
        })?;
        Ok((node, gone.skip))
    };
    let without = request.without.into_iter().enumerate().map(gone).collect::<Result<_, Refusal>>()?;
    let op = ops::Advance { without, dry_run: request.dry_run, at: state.node.now() };
    let advanced = state.node.ledger().advance(op).await.map_err(|error| Refusal::from(&error))?;
    if !request.dry_run {
        tracing::warn!(tracks = advanced.len(), "the ledger was advanced by an operator");
        state.node.look_again();
    }
    let advanced = advanced.into_iter().map(Into::into).collect();
    Ok(Json(StatusCode::OK, AdvanceAnswer { advanced }).into_response())
}

/// A body that says nothing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[utoipa::path(post, path = "/v1/ledger/backup", tag = "ledger", summary = "A stamped copy of the embedded ledger",
    description = "The copy opens halted and serves only after `keymill ledger advance`.",
    responses((status = 200, body = Vec<u8>, content_type = "application/vnd.sqlite3"), (status = 422, body = Problem)))]
pub(crate) async fn backup(With(state): With<Arc<State>>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body::read(body, &state.config.limits).await?;
    body::parse::<Nothing>(&parts.headers, &body)?;
    let failed = |error: std::io::Error| Refusal::new(Code::Internal, format!("the copy failed: {error}"));
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|_| Refusal::new(Code::Internal, "no randomness to be had"))?;
    let name = format!("backup-{:016x}.tmp", u64::from_ne_bytes(random));
    let path = state.config.data_dir.join(name);
    let copied = state.node.ledger().backup(&path, state.node.now()).await;
    copied.map_err(|error| Refusal::from(&error))?;
    let file = tokio::fs::File::open(&path).await.map_err(failed);
    // Open, and nameless: it is gone when the answer is, whatever happens to us.
    let _ = tokio::fs::remove_file(&path).await;
    let mut file = file?;
    let (chunks, receiver) = tokio::sync::mpsc::channel(4);
    tokio::spawn(async move {
        use tokio::io::AsyncReadExt;
        loop {
            let mut chunk = bytes::BytesMut::with_capacity(64 << 10);
            let sent = match file.read_buf(&mut chunk).await {
                Ok(0) => return,
                Ok(_) => chunks.send(Ok(chunk.freeze())).await,
                Err(error) => chunks.send(Err(super::answer::CutOff(error.to_string()))).await,
            };
            if sent.is_err() {
                return;
            }
        }
    });
    let headers = [
        (CONTENT_TYPE, "application/vnd.sqlite3".parse().expect("a header")),
        (CONTENT_DISPOSITION, "attachment; filename=\"keymill-backup.db\"".parse().expect("a header")),
        (CACHE_CONTROL, NO_STORE),
    ];
    Ok((headers, axum::body::Body::new(super::answer::Body::Stream(receiver))).into_response())
}

#[utoipa::path(get, path = "/v1/nodes", tag = "ledger", summary = "The nodes that share the ledger",
    responses((status = 200, body = NodeList)))]
pub(crate) async fn nodes(With(state): With<Arc<State>>, Extension(caller): Extension<Caller>) -> Answer {
    let mut nodes = state.node.ledger().nodes().await.map_err(|error| Refusal::from(&error))?;
    for node in &mut nodes {
        node.report.keyspaces.retain(|report| caller.sees(report.keyspace.as_str()));
    }
    let nodes = nodes.into_iter().map(Into::into).collect();
    Ok(Json(StatusCode::OK, NodeList { nodes }).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkerQuery {
    keyspace: Option<String>,
}

#[utoipa::path(get, path = "/v1/workers", tag = "ledger", summary = "Who holds which worker id",
    params(("keyspace" = Option<String>, Query)),
    responses((status = 200, body = WorkerList), (status = 404, body = Problem)))]
pub(crate) async fn workers(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Query(WorkerQuery { keyspace }): Query<WorkerQuery>,
) -> Answer {
    let names = match keyspace {
        Some(name) => {
            caller.refuse_unless_seen(&name)?;
            vec![state.node.keyspace(&name).await?.name.clone()]
        }
        None => {
            let known = state.node.all_known();
            let seen = known.iter().filter(|served| caller.sees(served.name.as_str()));
            seen.map(|served| served.name.clone()).collect()
        }
    };
    let now = state.node.now();
    let mut workers = Vec::new();
    for keyspace in names {
        let leases = state.node.ledger().workers(ops::Workers { keyspace }).await;
        let leases = leases.map_err(|error| Refusal::from(&error))?;
        workers.extend(leases.into_iter().map(|lease| WorkerView::new(lease, now)));
    }
    Ok(Json(StatusCode::OK, WorkerList { workers }).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimQuery {
    keyspace: String,
    /// Whose, where time is reserved by worker.
    worker: Option<u16>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[utoipa::path(get, path = "/v1/claims", tag = "ledger", summary = "Who reserved what, newest first",
    params(("keyspace" = String, Query), ("worker" = Option<u16>, Query), ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000),
           ("cursor" = Option<String>, Query)),
    responses((status = 200, body = ClaimList), (status = 422, body = Problem)))]
pub(crate) async fn claims(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Query(ClaimQuery { keyspace, worker, limit, cursor }): Query<ClaimQuery>,
) -> Answer {
    let limit = keyspaces::page_limit(limit)?;
    caller.refuse_unless_seen(&keyspace)?;
    let served = state.node.keyspace(&keyspace).await?;
    if worker.is_some() && !matches!(served.definition, Definition::Snowflake(_)) {
        let detail = format!("`worker` is of snowflakes, and `{keyspace}` has none; leave it out");
        return Err(Refused(Refusal::field(Code::InvalidField, "worker", detail)));
    }
    let keyspace = served.name.clone();
    let before = match cursor {
        None => None,
        Some(text) => {
            let number = text.parse().ok().and_then(Number::new);
            Some(number.ok_or_else(|| {
                Refusal::field(
                    Code::InvalidField,
                    "cursor",
                    "`cursor` must be a `next_cursor` of an earlier answer",
                )
            })?)
        }
    };
    let track = Track { keyspace, worker: worker.map(WorkerId) };
    let op = ops::Claims { track, before, limit: limit + 1 };
    let mut rows = state.node.ledger().claims(op).await.map_err(|error| Refusal::from(&error))?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| more).map(|row| row.start.to_string());
    let claims = rows.into_iter().map(Into::into).collect();
    Ok(Json(StatusCode::OK, ClaimList { claims, next_cursor }).into_response())
}
