//! What an ID says by itself, and which IDs belong to a time.

use std::sync::Arc;

use axum::{
    extract::State as With,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use keymill_api::{Code, DecodeAnswer, Problem, RangeAnswer, Refusal, parse_time, rfc3339};
use keymill_id::{Definition, Layout, readings};
use keymill_ledger::Timestamp;
use serde::Deserialize;

use super::{
    State,
    answer::{Json, Refused},
    path::Path,
    query::Query,
};

type Answer = Result<Response, Refused>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    layout: Option<String>,
}

#[utoipa::path(get, path = "/v1/decode/{id}", tag = "decode", summary = "What an ID says by itself",
    params(("id" = String, Path), ("layout" = Option<String>, Query, description = "A preset, fields, or a snowflake keyspace's name")),
    responses((status = 200, body = DecodeAnswer), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn decode(
    With(state): With<Arc<State>>,
    Path(id): Path<String>,
    Query(which): Query<Which>,
) -> Answer {
    let layout = match which.layout {
        None => None,
        Some(text) => Some(layout(&state, &text)?),
    };
    let found = readings(&id, layout.as_ref(), state.node.now().0);
    if found.is_empty() {
        let detail = format!("`{}` is not an ID of that layout, a UUID or a ULID", id.escape_debug());
        return Err(Refused(Refusal::new(Code::KeyNotFound, detail)));
    }
    let readings = found.into_iter().map(Into::into).collect();
    Ok(Json(StatusCode::OK, DecodeAnswer { id, readings }).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct At {
    at: String,
    layout: Option<String>,
}

#[utoipa::path(get, path = "/v1/decode", tag = "decode", summary = "The first and last ID of a moment",
    params(("at" = String, Query, description = "RFC 3339 or Unix milliseconds"), ("layout" = Option<String>, Query)),
    responses((status = 200, body = RangeAnswer), (status = 422, body = Problem)))]
pub(crate) async fn at(With(state): With<Arc<State>>, Query(At { at, layout: named }): Query<At>) -> Answer {
    let layout = layout(&state, named.as_deref().unwrap_or("default"))?;
    let from = time("at", &at)?;
    // One tick: the one that holds the moment.
    let tick = layout.tick_at(from.0).ok_or_else(|| outside(&layout))?;
    let (from, to) = (layout.unix_ms_of(tick), layout.unix_ms_of(tick + 1));
    Ok(Json(StatusCode::OK, range_of(&layout, Timestamp(from), Timestamp(to))?).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Span {
    from: String,
    to: String,
}

#[utoipa::path(get, path = "/v1/keyspaces/{ks}/range", tag = "decode", summary = "The first and last ID of a span of time",
    description = "Every ID of `from ≤ time < to` lies in `first..=last`, so time-range queries need no column of their own.",
    params(("ks" = String, Path), ("from" = String, Query), ("to" = String, Query)),
    responses((status = 200, body = RangeAnswer), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn range(
    With(state): With<Arc<State>>,
    Path(keyspace): Path<String>,
    Query(Span { from, to }): Query<Span>,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    let Definition::Snowflake(snowflake) = &served.definition else {
        let detail =
            format!("`{keyspace}` is a {}; only snowflake IDs carry their time", served.definition.scheme());
        return Err(Refused(Refusal::new(Code::WrongScheme, detail)));
    };
    let answer = range_of(snowflake.layout(), time("from", &from)?, time("to", &to)?)?;
    Ok(Json(StatusCode::OK, answer).into_response())
}

fn range_of(layout: &Layout, from: Timestamp, to: Timestamp) -> Result<RangeAnswer, Refusal> {
    let (first, last) = layout.range(from.0, to.0).ok_or_else(|| outside(layout))?;
    Ok(RangeAnswer { from: rfc3339(from), to: rfc3339(to), first: first.to_string(), last: last.to_string() })
}

fn outside(layout: &Layout) -> Refusal {
    let (start, end) = (Timestamp(layout.epoch_ms()), Timestamp(layout.ends_at_ms()));
    let detail = format!(
        "the layout's time runs from {} to {}, and `from` lies before `to`",
        rfc3339(start),
        rfc3339(end)
    );
    Refusal::new(Code::InvalidField, detail)
}

fn time(field: &str, text: &str) -> Result<Timestamp, Refusal> {
    parse_time(text).ok_or_else(|| {
        let detail =
            format!("`{field}` must be RFC 3339 or Unix milliseconds, and is `{}`", text.escape_debug());
        Refusal::field(Code::InvalidField, field, detail)
    })
}

/// A preset, fields, or the layout of a keyspace of ours.
fn layout(state: &State, text: &str) -> Result<Layout, Refusal> {
    if let Some(served) = state.node.known(text)
        && let Definition::Snowflake(snowflake) = &served.definition
    {
        return Ok(snowflake.layout().clone());
    }
    Layout::parse(text, None, None)
        .map_err(|error| Refusal::field(Code::InvalidField, "layout", error.to_string()))
}
