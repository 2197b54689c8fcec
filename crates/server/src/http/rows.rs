//! Pools as rows: filling them now, and bringing in keys that were made elsewhere.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State as With},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use keymill_api::{
    Code, FillAnswer, FillRequest, IMPORT_KEYS_MAX, ImportAnswer, ImportRequest, Problem, Refusal,
};
use keymill_issuer::Served;
use tokio::time::{Instant, sleep};

use super::{
    State,
    answer::{Json, Refused},
    body,
    path::Path,
};

/// How long a fill is waited for; whoever wants to see the end asks again.
const FILL_WAIT: Duration = Duration::from_millis(500);
const FILL_LOOK_EVERY: Duration = Duration::from_millis(10);
/// Rows one may ask for at a time.
const FILL_MAX: u64 = 10_000_000_000;

type Answer = Result<Response, Refused>;

#[utoipa::path(post, path = "/v1/keyspaces/{ks}/fill", tag = "keyspaces", summary = "Fill a row pool now",
    description = "Adds rows until there are `count` of them, or as many as `capacity`. Answers within a second how \
                   far it is; the same call again goes on and adds nothing twice.",
    params(("ks" = String, Path, description = "The keyspace's name")),
    request_body(content = Option<FillRequest>),
    responses((status = 200, body = FillAnswer), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn fill(
    With(state): With<Arc<State>>,
    Path(name): Path<String>,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body::read(body, &state.config.limits).await?;
    let FillRequest { count } =
        if body.is_empty() { FillRequest::default() } else { body::parse(&parts.headers, &body)? };
    if let Some(count) = count.filter(|count| !(1..=FILL_MAX).contains(count)) {
        let detail = format!("`count` must be from 1 to {FILL_MAX}, and is {count}");
        return Err(Refused(Refusal::field(Code::CountOutOfRange, "count", detail)));
    }
    state.node.refuse_unless_serving()?;
    let served = row_pool(&state, &name).await?;
    let target = count.unwrap_or(served.settings().tuned.capacity.0);
    served.look_at_rows().await;
    served.fill(Some(target));
    let until = Instant::now() + FILL_WAIT;
    let mut progress = progress(&served, target);
    while !progress.done && Instant::now() < until {
        sleep(FILL_LOOK_EVERY).await;
        progress = self::progress(&served, target);
    }
    Ok(Json(StatusCode::OK, progress).into_response())
}

fn progress(served: &Served, target: u64) -> FillAnswer {
    let glance = served.fill_glance().expect("it is a row pool");
    FillAnswer {
        keyspace: served.name.to_string(),
        level: glance.level.map(|level| level.to_string()),
        target: target.to_string(),
        done: glance.used_up || glance.level.is_some_and(|level| level >= target),
        used_up: glance.used_up,
        trouble: glance.trouble,
    }
}

#[utoipa::path(post, path = "/v1/keyspaces/{ks}/import", tag = "keyspaces", summary = "Add keys that were made elsewhere",
    description = "Each key becomes a row of the pool once, however often it is sent; one that the pool issued or \
                   granted is not taken.",
    params(("ks" = String, Path, description = "The keyspace's name")),
    request_body = ImportRequest,
    responses((status = 200, body = ImportAnswer), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn import(
    With(state): With<Arc<State>>,
    Path(name): Path<String>,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body::read_batch(body, &state.config.limits).await?;
    let ImportRequest { keys } = body::parse(&parts.headers, &body)?;
    if keys.len() > IMPORT_KEYS_MAX {
        let detail = format!("{} keys are too many at a time; send up to {IMPORT_KEYS_MAX}", keys.len());
        return Err(Refused(Refusal::field(Code::InvalidField, "keys", detail)));
    }
    let served = row_pool(&state, &name).await?;
    let imported = state.node.import(&served, &keys).await.ok_or_else(|| no_rows(&served))??;
    let outcomes = imported.into_iter().map(Into::into).collect();
    Ok(Json(StatusCode::OK, ImportAnswer { keyspace: served.name.to_string(), outcomes }).into_response())
}

async fn row_pool(state: &State, name: &str) -> Result<Arc<Served>, Refusal> {
    let served = state.node.keyspace(name).await?;
    if served.is_retired() {
        return Err(keymill_issuer::IssueError::Retired.into());
    }
    if served.fill_glance().is_none() {
        return Err(no_rows(&served));
    }
    Ok(served)
}

fn no_rows(served: &Served) -> Refusal {
    let detail = format!(
        "keyspace `{}` keeps no rows; a pool with `store` `redis` or `table` does, and a virtual one needs no filling",
        served.name
    );
    Refusal::new(Code::WrongScheme, detail)
}
