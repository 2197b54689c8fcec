//! Where a keyspace's level stood, look by look of the watcher.

use std::sync::Arc;

use axum::{extract::State as With, http::StatusCode};
use keymill_api::{LevelHistory, LevelPoint, Problem};
use keymill_watch::{Point, rfc3339};

use super::{
    State,
    answer::{Json, Refused},
    path::Path,
};

#[utoipa::path(get, path = "/v1/keyspaces/{ks}/history", tag = "keyspaces", summary = "Its level during the last minutes",
    params(("ks" = String, Path)),
    responses((status = 200, body = LevelHistory), (status = 404, body = Problem)))]
pub(crate) async fn show(
    With(state): With<Arc<State>>,
    Path(keyspace): Path<String>,
) -> Result<Json<LevelHistory>, Refused> {
    let keyspace = state.node.keyspace(&keyspace).await?.name.to_string();
    let point = |Point { at, level, rate }| LevelPoint { time: rfc3339(at), level: level.to_string(), rate };
    let points = state.board.trail(&keyspace).into_iter().map(point).collect();
    let interval_seconds = state.config.watch.interval.duration().as_secs_f64();
    Ok(Json(StatusCode::OK, LevelHistory { keyspace, interval_seconds, points }))
}
