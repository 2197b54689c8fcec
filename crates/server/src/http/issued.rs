//! The keys of a keyspace that were written down one by one (`audit = "key"`).

use std::sync::Arc;

use axum::{extract::State as With, http::StatusCode};
use keymill_api::{IssuedList, Problem};

use super::{
    State,
    answer::{Json, Refused},
    keyspaces::{self, Page},
    path::Path,
    query::Query,
};

#[utoipa::path(get, path = "/v1/keyspaces/{ks}/issued", tag = "keyspaces", summary = "Its keys, written down one by one (`audit = \"key\"`)",
    params(("ks" = String, Path), ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = IssuedList), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn list(
    With(state): With<Arc<State>>,
    Path(keyspace): Path<String>,
    Query(Page { limit, cursor }): Query<Page>,
) -> Result<Json<IssuedList>, Refused> {
    let limit = keyspaces::page_limit(limit)?;
    let served = state.node.keyspace(&keyspace).await?;
    Ok(Json(StatusCode::OK, state.names.issued(&served, cursor, limit).await?))
}
