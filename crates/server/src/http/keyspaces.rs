//! Keyspaces: create, list, show, tune, retire; and what became of a key.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Extension,
    extract::{Request, State as With},
    http::{HeaderValue, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use keymill_api::{
    ClaimsSummary, Code, KeyView, KeyspaceFields, KeyspaceList, KeyspaceSpec, KeyspaceView, Problem,
    RandomView, Refusal, RowsView, TakeAnswer, TakeRequest, rfc3339, tuning_patch,
};
use keymill_id::{Definition, KeyspaceName};
use keymill_issuer::Served;
use keymill_ledger::{KeyspaceRow, NodeRow, Track, TrackRow, ops};
use serde::Deserialize;

use super::{
    State,
    answer::{Json, Refused},
    body,
    path::Path,
    query::Query,
};
use crate::{
    auth::Caller,
    level::{level, rate},
};

/// Pages: how long unless asked, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1000;

type Answer = Result<Response, Refused>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

pub(crate) fn page_limit(limit: Option<usize>) -> Result<usize, Refusal> {
    match limit {
        None => Ok(PAGE),
        Some(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Some(limit) => {
            let detail = format!("`limit` must be from 1 to {PAGE_MAX}, and is {limit}");
            Err(Refusal::field(Code::InvalidField, "limit", detail))
        }
    }
}

#[utoipa::path(post, path = "/v1/keyspaces", tag = "keyspaces", summary = "Create a keyspace",
    request_body = KeyspaceFields,
    responses((status = 201, description = "Created", body = KeyspaceView),
              (status = 200, description = "It exists, with equal fields", body = KeyspaceView),
              (status = 409, description = "It exists, defined otherwise", body = Problem),
              (status = 422, description = "A field is wrong", body = Problem)))]
pub(crate) async fn create(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body::read(body, &state.config.limits).await?;
    let spec = KeyspaceSpec::from_body(body::parse(&parts.headers, &body)?)?;
    caller.refuse_unless_seen(spec.name.as_str())?;
    let (row, created) = state.node.create_keyspace(&spec.name, &spec.stated, &spec.tuning).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let location = HeaderValue::try_from(format!("/v1/keyspaces/{}", row.name)).expect("names are ASCII");
    let view = one(&state, row).await?;
    Ok(([(LOCATION, location)], Json(status, view)).into_response())
}

#[utoipa::path(get, path = "/v1/keyspaces", tag = "keyspaces", summary = "List keyspaces",
    params(("limit" = Option<usize>, Query, minimum = 1, maximum = 1000), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = KeyspaceList)))]
pub(crate) async fn list(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Query(Page { limit, cursor }): Query<Page>,
) -> Answer {
    let limit = page_limit(limit)?;
    let ledger = state.node.ledger();
    let rows = ledger.keyspaces().await.map_err(|error| Refusal::from(&error))?;
    let tracks: HashMap<Track, TrackRow> =
        ledger.tracks().await.map_err(|error| Refusal::from(&error))?.into_iter().collect();
    let nodes = ledger.nodes().await.map_err(|error| Refusal::from(&error))?;
    let after = |row: &KeyspaceRow| {
        caller.sees(row.name.as_str()) && cursor.as_deref().is_none_or(|cursor| row.name.as_str() > cursor)
    };
    let mut views = Vec::new();
    let mut next_cursor = None;
    for row in rows.into_iter().filter(after) {
        if views.len() == limit {
            next_cursor = views.last().map(|view: &KeyspaceView| view.name.clone());
            break;
        }
        let track = tracks.get(&Track::of(row.name.clone())).copied().unwrap_or_default();
        views.push(view(&state, row, &track, &nodes)?);
    }
    Ok(Json(StatusCode::OK, KeyspaceList { keyspaces: views, next_cursor }).into_response())
}

#[utoipa::path(get, path = "/v1/keyspaces/{ks}", tag = "keyspaces", summary = "Show a keyspace",
    params(("ks" = String, Path, description = "The keyspace's name")),
    responses((status = 200, body = KeyspaceView), (status = 404, body = Problem)))]
pub(crate) async fn show(With(state): With<Arc<State>>, Path(name): Path<String>) -> Answer {
    let row = row_of(&state, &name).await?;
    Ok(Json(StatusCode::OK, one(&state, row).await?).into_response())
}

#[utoipa::path(patch, path = "/v1/keyspaces/{ks}", tag = "keyspaces", summary = "Tune a keyspace",
    params(("ks" = String, Path, description = "The keyspace's name")),
    request_body(content = Object, description = "Tuning only, the settings that docs/api.md lists for it; null means the default"),
    responses((status = 200, body = KeyspaceView), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn tune(
    With(state): With<Arc<State>>,
    Path(name): Path<String>,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body::read(body, &state.config.limits).await?;
    let patch = tuning_patch(body::parse(&parts.headers, &body)?)?;
    state.node.refuse_unless_serving()?;
    let name = row_of(&state, &name).await?.name;
    if patch.get("audit").is_some_and(|audit| audit == "key")
        && let Some(served) = state.node.known(name.as_str())
        && let Some(problem) = state.node.key_log_problem(&served.definition)
    {
        return Err(Refusal::field(Code::InvalidField, "audit", problem).into());
    }
    let row = state.node.tune_keyspace(&name, patch).await.map_err(|error| Refusal::from(&error))?;
    Ok(Json(StatusCode::OK, one(&state, row).await?).into_response())
}

#[utoipa::path(delete, path = "/v1/keyspaces/{ks}", tag = "keyspaces", summary = "Retire a keyspace, for ever",
    params(("ks" = String, Path, description = "The keyspace's name")),
    responses((status = 200, body = KeyspaceView), (status = 404, body = Problem)))]
pub(crate) async fn retire(With(state): With<Arc<State>>, Path(name): Path<String>) -> Answer {
    state.node.refuse_unless_serving()?;
    let name = row_of(&state, &name).await?.name;
    let row = state.node.retire_keyspace(&name).await.map_err(|error| Refusal::from(&error))?;
    Ok(Json(StatusCode::OK, one(&state, row).await?).into_response())
}

#[utoipa::path(get, path = "/v1/keyspaces/{ks}/keys/{key}", tag = "keys", summary = "What became of a key",
    params(("ks" = String, Path), ("key" = String, Path)),
    responses((status = 200, body = KeyView), (status = 404, body = Problem)))]
pub(crate) async fn inspect(
    With(state): With<Arc<State>>,
    Path((keyspace, key)): Path<(String, String)>,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    let found = state.node.inspect(&served, &key).await.map_err(|error| Refusal::from(&error))?;
    match state.names.known_as(&served, &key, found).await? {
        Some(view) => Ok(Json(StatusCode::OK, view).into_response()),
        None => {
            let detail = format!("keyspace `{keyspace}` cannot spell `{}`", key.escape_debug());
            Err(Refused(Refusal::new(Code::KeyNotFound, detail)))
        }
    }
}

/// For the OpenAPI document; the work is done in `take.rs`.
#[utoipa::path(post, path = "/v1/keyspaces/{ks}/keys", tag = "keys", summary = "Take keys",
    description = "Exactly `count` keys, or a refusal that issues none. With `Accept: text/plain` one key a \
                   line, and up to 1 000 000 of them, streamed. No two answers ever hold the same key.",
    params(("ks" = String, Path, description = "The keyspace's name")),
    request_body(content = Option<TakeRequest>),
    responses((status = 200, content((TakeAnswer = "application/json"), (String = "text/plain"))),
              (status = 404, description = "No such keyspace", body = Problem),
              (status = 410, description = "Used up or retired", body = Problem),
              (status = 422, description = "The count is wrong", body = Problem),
              (status = 429, description = "More than the token's or the keyspace's keys a second", body = Problem),
              (status = 503, description = "Try again after Retry-After", body = Problem)))]
#[expect(dead_code, reason = "it carries the documentation")]
pub(crate) fn take_doc() {}

async fn row_of(state: &State, name: &str) -> Result<KeyspaceRow, Refusal> {
    let unknown = || Refusal::from(keymill_issuer::IssueError::KeyspaceNotFound);
    let name = KeyspaceName::parse(name).map_err(|_| unknown())?;
    let row = state.node.ledger().keyspace(ops::Keyspace { name }).await;
    row.map_err(|error| Refusal::from(&error))?.ok_or_else(unknown)
}

async fn one(state: &State, row: KeyspaceRow) -> Result<KeyspaceView, Refusal> {
    let ledger = state.node.ledger();
    let rows = match state.node.known(row.name.as_str()) {
        Some(served) => served.count_rows().await,
        None => None,
    };
    let track = ledger.track(ops::TrackAt { track: Track::of(row.name.clone()) }).await;
    let track = track.map_err(|error| Refusal::from(&error))?.unwrap_or_default();
    let nodes = ledger.nodes().await.map_err(|error| Refusal::from(&error))?;
    let mut view = view(state, row, &track, &nodes)?;
    if let Some(Err(_)) = rows {
        // What was known before is not what is there now.
        (view.level, view.runway_seconds, view.exhausted_at) = (None, None, None);
    }
    Ok(view)
}

#[expect(clippy::cast_precision_loss, reason = "a runway is an estimate")]
fn view(
    state: &State,
    row: KeyspaceRow,
    track: &TrackRow,
    nodes: &[NodeRow],
) -> Result<KeyspaceView, Refusal> {
    let unreadable = |error: keymill_id::DefinitionError| Refusal::new(Code::Internal, error.to_string());
    let definition = Definition::from_stored_json(&row.definition).map_err(unreadable)?;
    let served = state.node.known(row.name.as_str());
    let glance = served.as_deref().map(Served::glance);
    let size = served.as_ref().and_then(|served| served.size());
    let stock = glance.map_or(0, |glance| glance.stock);
    let now = state.node.now();
    let rate = rate(&state.node, &row.name, glance.map_or(0.0, |glance| glance.rate), nodes, now);
    let level = level(&definition, served.as_deref(), track, now);
    let runway = match (&definition, level) {
        (Definition::Snowflake(snowflake), _) => {
            Some(snowflake.layout().ends_at_ms().saturating_sub(now.0) as f64 / 1000.0)
        }
        (_, Some(level)) if rate > 0.0 => Some(level as f64 / rate),
        _ => None,
    };
    let tuning = served.as_ref().map(|served| served.settings()).unwrap_or_default();
    Ok(KeyspaceView {
        name: row.name.to_string(),
        scheme: definition.scheme().to_string(),
        state: if row.retired { "retired" } else { "active" }.to_owned(),
        definition: definition.to_public_json(),
        fingerprint: row.fingerprint,
        tuning: serde_json::to_value(&*tuning).expect("tuning is plain data"),
        created_at: rfc3339(row.created_at),
        size: size.map(|size| size.to_string()),
        level: level.map(|level| level.to_string()),
        stock: stock.to_string(),
        rate: (rate * 1000.0).round() / 1000.0,
        runway_seconds: runway.map(|seconds| (seconds * 10.0).round() / 10.0),
        exhausted_at: runway.and_then(|seconds| exhausted_at(now, seconds)),
        rows: served.as_ref().and_then(|served| served.fill_glance()).map(RowsView::from),
        random: served.as_ref().and_then(|served| served.draw_glance(track)).map(RandomView::from),
        claims: ClaimsSummary {
            count: track.claims,
            reserved: track.reserved.to_string(),
            issued: track.issued.to_string(),
            burned: track.burned.to_string(),
            holes: track.holes.to_string(),
        },
    })
}

/// `None` beyond what a calendar is good for.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be below 10^5 years")]
fn exhausted_at(now: keymill_ledger::Timestamp, seconds: f64) -> Option<String> {
    const YEARS_9000_IN_SECONDS: f64 = 2.8e11;
    (seconds < YEARS_9000_IN_SECONDS - now.0 as f64 / 1000.0)
        .then(|| rfc3339(now.after((seconds * 1000.0) as u64)))
}
