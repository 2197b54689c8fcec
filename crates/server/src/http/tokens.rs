//! Tokens: make, list, revoke. What is done here takes effect here at once, and on other nodes within half a
//! second.

use std::sync::Arc;

use axum::{
    extract::{Request, State as With},
    http::{HeaderValue, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use keymill_api::{Code, CreatedToken, NewToken, Problem, Refusal, TokenList};
use keymill_ledger::{LedgerError, TokenRow};

use super::{
    State,
    answer::{Json, Refused},
    body,
    keyspaces::{Page, page_limit},
    path::Path,
    query::Query,
};
use crate::auth::record::{self, MakeError};

type Answer = Result<Response, Refused>;

#[utoipa::path(post, path = "/v1/tokens", tag = "tokens", summary = "Make a token",
    description = "The answer is the only one that ever holds it.",
    request_body = NewToken,
    responses((status = 201, body = CreatedToken), (status = 422, description = "A field is wrong", body = Problem)))]
pub(crate) async fn create(With(state): With<Arc<State>>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body::read(body, &state.config.limits).await?;
    let wanted: NewToken = body::parse(&parts.headers, &body)?;
    wanted.check()?;
    state.node.refuse_unless_serving()?;
    let there = tokens(&state).await?;
    let (created, row) = record::make(&wanted, &there, state.node.now()).map_err(|error| {
        let code = match error {
            MakeError::Full => Code::InvalidField,
            MakeError::NoRandomness(_) => Code::Internal,
        };
        Refusal::new(code, error.to_string())
    })?;
    state.node.put_token(row).await.map_err(|error| Refusal::from(&error))?;
    look_again(&state).await;
    let id = &created.view.id;
    tracing::info!(id, name = created.view.name, "token {id} was made");
    let location = HeaderValue::try_from(format!("/v1/tokens/{id}")).expect("ids are ASCII");
    Ok(([(LOCATION, location)], Json(StatusCode::CREATED, created)).into_response())
}

#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", summary = "List tokens, without their secrets",
    params(("limit" = Option<usize>, Query, minimum = 1, maximum = 1000), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = TokenList)))]
pub(crate) async fn list(
    With(state): With<Arc<State>>,
    Query(Page { limit, cursor }): Query<Page>,
) -> Answer {
    let limit = page_limit(limit)?;
    let mut views: Vec<_> = tokens(&state).await?.iter().filter_map(record::view).collect();
    views.sort_by(|a, b| a.id.cmp(&b.id));
    views.retain(|view| cursor.as_deref().is_none_or(|cursor| view.id.as_str() > cursor));
    let more = views.len() > limit;
    views.truncate(limit);
    let next_cursor = views.last().filter(|_| more).map(|view| view.id.clone());
    Ok(Json(StatusCode::OK, TokenList { tokens: views, next_cursor }).into_response())
}

#[utoipa::path(delete, path = "/v1/tokens/{id}", tag = "tokens", summary = "Revoke a token, for ever",
    params(("id" = String, Path)),
    responses((status = 204, description = "It is accepted no longer"), (status = 404, body = Problem)))]
pub(crate) async fn revoke(With(state): With<Arc<State>>, Path(id): Path<String>) -> Answer {
    state.node.refuse_unless_serving()?;
    let was_there = state.node.revoke_token(id.clone()).await.map_err(|error| Refusal::from(&error))?;
    look_again(&state).await;
    if !was_there {
        let detail =
            format!("there is no token `{}`; GET /v1/tokens lists those there are", id.escape_debug());
        return Err(Refused(Refusal::new(Code::RouteNotFound, detail)));
    }
    tracing::info!(id, "token {id} was revoked");
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn tokens(state: &State) -> Result<Vec<TokenRow>, Refusal> {
    state.node.ledger().tokens().await.map_err(|error: LedgerError| Refusal::from(&error))
}

/// The change is in the ledger; should it be out of reach now, this node sees it as the others do.
async fn look_again(state: &State) {
    if state.guard.is_on()
        && let Err(error) = state.guard.read(&**state.node.ledger()).await
    {
        tracing::warn!(%error, "the tokens could not be read again: {error}");
    }
}
