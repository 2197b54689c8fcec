//! Names, links and references over HTTP: parse, ask the names desk, answer.

use std::{future::Future, sync::Arc};

use axum::{
    Extension,
    extract::{Request, State as With},
    http::{HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use hyper::body::Bytes;
use keymill_api::{
    AliasView, BindLink, ChangeLink, LinkList, LinkOutcomes, LinkView, NewLink, NewLinks, NewRef, NewRefs,
    NoFields, Problem, RefList, RefOutcomes, RefView, Refusal, UsedAnswer, UsedKeys,
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    State,
    answer::{Json, Refused, uncached},
    body,
    keyspaces::page_limit,
    path::Path,
    query::Query,
};
use crate::{
    auth::Caller,
    names::{Once, Said},
};

type Answer = Result<Response, Refused>;

/// The route of many links at once.
const LINKS: &str = "links/batch";

/// A request that may be sent again: who sent it, what it asks, and in which words.
struct Asked<T> {
    once: Once,
    content: T,
}

/// Reads a body and finds out whether it was answered before. `route` tells requests with one Idempotency-Key apart.
async fn asked<T: DeserializeOwned>(
    state: &State,
    caller: &Caller,
    (route, keyspace): (&str, &str),
    request: Request,
) -> Result<Asked<T>, Refusal> {
    let (parts, body) = request.into_parts();
    let limits = &state.config.limits;
    let body: Bytes = match route {
        LINKS => body::read_batch(body, limits).await?,
        _ => body::read(body, limits).await?,
    };
    let content = body::parse(&parts.headers, &body)?;
    let once = state.names.once(&parts.headers, caller, route, keyspace, &body).await?;
    Ok(Asked { once, content })
}

/// Answers as before, or with what `answer` says now. What was refused may be asked again from the start.
async fn answered(state: &State, once: &Once, answer: impl Future<Output = Result<Said, Refusal>>) -> Answer {
    if let Once::Said(said) = once {
        return Ok(respond(said.clone()));
    }
    match answer.await {
        Ok(said) => Ok(respond(said)),
        Err(refusal) => {
            state.names.abandon(once).await;
            Err(Refused(refusal))
        }
    }
}

pub(super) fn respond(said: Said) -> Response {
    let json = HeaderValue::from_static("application/json");
    let mut response = uncached(json, said.body.into_bytes()).map(axum::body::Body::new);
    *response.status_mut() = StatusCode::from_u16(said.status).unwrap_or(StatusCode::OK);
    response
}

#[utoipa::path(put, path = "/v1/keyspaces/{ks}/keys/{key}", tag = "names", summary = "Claim a name of one's own",
    description = "Whoever comes first has it, and the pool never issues it. It leads nowhere until it is bound.",
    params(("ks" = String, Path), ("key" = String, Path, description = "The name"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key gets the same answer")),
    request_body(content = Option<NoFields>),
    responses((status = 201, body = AliasView),
              (status = 409, description = "Taken: `reason` says by what", body = Problem),
              (status = 422, description = "Not a name that may be chosen", body = Problem)))]
pub(crate) async fn claim(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path((keyspace, alias)): Path<(String, String)>,
    request: Request,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    let route = format!("alias {alias}");
    let Asked { once, content: NoFields {} } = asked(&state, &caller, (&route, &keyspace), request).await?;
    answered(&state, &once, state.names.claim(&served, &alias, &once)).await
}

#[utoipa::path(post, path = "/v1/keyspaces/{ks}/links", tag = "names", summary = "Make a link",
    description = "Takes a key and binds it to the URL, in one go. With `alias` the key is a name of one's own.",
    params(("ks" = String, Path),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key gets the same answer")),
    request_body = NewLink,
    responses((status = 201, body = LinkView),
              (status = 200, description = "The content had this key before (digest)", body = LinkView),
              (status = 409, description = "The alias is taken", body = Problem),
              (status = 422, description = "The target or the alias is not allowed", body = Problem)))]
pub(crate) async fn create(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(keyspace): Path<String>,
    request: Request,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    let Asked { once, content } = asked::<NewLink>(&state, &caller, ("links", &keyspace), request).await?;
    answered(&state, &once, state.names.create(&caller, &served, content, &once)).await
}

#[utoipa::path(post, path = "/v1/keyspaces/{ks}/links/batch", tag = "names", summary = "Make up to 1000 links",
    params(("ks" = String, Path),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key gets the same answer")),
    request_body = NewLinks,
    responses((status = 200, description = "Each a link or a problem, in the order asked", body = LinkOutcomes)))]
pub(crate) async fn create_all(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(keyspace): Path<String>,
    request: Request,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    let Asked { once, content } = asked::<NewLinks>(&state, &caller, (LINKS, &keyspace), request).await?;
    answered(&state, &once, state.names.create_all(&caller, &served, content.links, &once)).await
}

#[utoipa::path(put, path = "/v1/keyspaces/{ks}/links/{key}", tag = "names", summary = "Bind a key that was taken earlier",
    description = "The first bind wins. A text that was never issued is claimed as a name first, by the rules for names.",
    params(("ks" = String, Path), ("key" = String, Path),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key gets the same answer")),
    request_body = BindLink,
    responses((status = 201, body = LinkView), (status = 200, description = "It leads there already", body = LinkView),
              (status = 409, description = "It leads elsewhere, or is not to be had", body = Problem)))]
pub(crate) async fn bind(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path((keyspace, key)): Path<(String, String)>,
    request: Request,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    let route = format!("links {key}");
    let Asked { once, content } = asked::<BindLink>(&state, &caller, (&route, &keyspace), request).await?;
    answered(&state, &once, state.names.bind(&served, &key, &content, &once)).await
}

#[utoipa::path(get, path = "/v1/keyspaces/{ks}/links/{key}", tag = "names", summary = "Show a link",
    params(("ks" = String, Path), ("key" = String, Path)),
    responses((status = 200, body = LinkView), (status = 404, body = Problem),
              (status = 410, description = "Expired or deleted", body = Problem)))]
pub(crate) async fn show(
    With(state): With<Arc<State>>,
    Path((keyspace, key)): Path<(String, String)>,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    Ok(Json(StatusCode::OK, state.names.link(&served, &key).await?).into_response())
}

#[utoipa::path(patch, path = "/v1/keyspaces/{ks}/links/{key}", tag = "names", summary = "Change a link",
    params(("ks" = String, Path), ("key" = String, Path)),
    request_body = ChangeLink,
    responses((status = 200, body = LinkView), (status = 404, body = Problem), (status = 410, body = Problem)))]
pub(crate) async fn change(
    With(state): With<Arc<State>>,
    Path((keyspace, key)): Path<(String, String)>,
    request: Request,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    let (parts, body) = request.into_parts();
    let body = body::read(body, &state.config.limits).await?;
    let change: ChangeLink = body::parse(&parts.headers, &body)?;
    Ok(Json(StatusCode::OK, state.names.change(&served, &key, change).await?).into_response())
}

#[utoipa::path(delete, path = "/v1/keyspaces/{ks}/links/{key}", tag = "names", summary = "Delete a link",
    description = "It answers 410 from then on, and nobody gets its key (unless registry.reuse_after says when).",
    params(("ks" = String, Path), ("key" = String, Path)),
    responses((status = 204), (status = 404, body = Problem), (status = 410, body = Problem)))]
pub(crate) async fn delete(
    With(state): With<Arc<State>>,
    Path((keyspace, key)): Path<(String, String)>,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    state.names.delete(&served, &key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    limit: Option<usize>,
    cursor: Option<String>,
    q: Option<String>,
}

#[utoipa::path(get, path = "/v1/keyspaces/{ks}/links", tag = "names", summary = "List links",
    params(("ks" = String, Path), ("q" = Option<String>, Query, description = "Part of the key or of the URL"),
           ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = LinkList)))]
pub(crate) async fn list(
    With(state): With<Arc<State>>,
    Path(keyspace): Path<String>,
    Query(Search { limit, cursor, q }): Query<Search>,
) -> Answer {
    let limit = page_limit(limit)?;
    let served = state.node.keyspace(&keyspace).await?;
    Ok(Json(StatusCode::OK, state.names.list(&served, q, cursor, limit).await?).into_response())
}

#[utoipa::path(post, path = "/v1/keyspaces/{ks}/refs", tag = "names", summary = "The key of a reference",
    description = "Made if there is none: the same reference always gives the same key.",
    params(("ks" = String, Path),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key gets the same answer")),
    request_body = NewRef,
    responses((status = 201, description = "New", body = RefView), (status = 200, description = "Known", body = RefView)))]
pub(crate) async fn refer(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(keyspace): Path<String>,
    request: Request,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    let Asked { once, content } = asked::<NewRef>(&state, &caller, ("refs", &keyspace), request).await?;
    answered(&state, &once, state.names.refer(&caller, &served, content, &once)).await
}

#[utoipa::path(post, path = "/v1/keyspaces/{ks}/refs/batch", tag = "names", summary = "The keys of up to 1000 references",
    params(("ks" = String, Path)), request_body = NewRefs,
    responses((status = 200, description = "Each a key or a problem, in the order asked", body = RefOutcomes)))]
pub(crate) async fn refer_all(
    With(state): With<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(keyspace): Path<String>,
    request: Request,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    let NewRefs { refs } = batch(&state, request).await?;
    Ok(Json(StatusCode::OK, state.names.refer_all(&caller, &served, refs).await?).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Owned {
    owner: Option<String>,
}

#[utoipa::path(get, path = "/v1/keyspaces/{ks}/refs/{ref}", tag = "names", summary = "Look a reference up",
    params(("ks" = String, Path), ("ref" = String, Path, description = "Percent-encoded; `GET …/refs?ref=` does too"),
           ("owner" = Option<String>, Query)),
    responses((status = 200, body = RefView), (status = 404, body = Problem)))]
pub(crate) async fn referred(
    With(state): With<Arc<State>>,
    Path((keyspace, reference)): Path<(String, String)>,
    Query(Owned { owner }): Query<Owned>,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    Ok(Json(StatusCode::OK, state.names.referred(&served, reference, owner).await?).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct References {
    limit: Option<usize>,
    cursor: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    owner: Option<String>,
}

#[utoipa::path(get, path = "/v1/keyspaces/{ks}/refs", tag = "names", summary = "List references, or look one up",
    params(("ks" = String, Path), ("ref" = Option<String>, Query), ("owner" = Option<String>, Query),
           ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = RefList)))]
pub(crate) async fn references(
    With(state): With<Arc<State>>,
    Path(keyspace): Path<String>,
    Query(References { limit, cursor, reference, owner }): Query<References>,
) -> Answer {
    let limit = page_limit(limit)?;
    let served = state.node.keyspace(&keyspace).await?;
    if let Some(reference) = reference {
        return Ok(
            Json(StatusCode::OK, state.names.referred(&served, reference, owner).await?).into_response()
        );
    }
    Ok(Json(StatusCode::OK, state.names.references(&served, cursor, limit).await?).into_response())
}

#[utoipa::path(post, path = "/v1/keyspaces/{ks}/used", tag = "names", summary = "Withhold keys of an older system",
    description = "The pool never issues them and nobody can choose them. Asking again changes nothing.",
    params(("ks" = String, Path)), request_body = UsedKeys,
    responses((status = 200, body = UsedAnswer)))]
pub(crate) async fn import_used(
    With(state): With<Arc<State>>,
    Path(keyspace): Path<String>,
    request: Request,
) -> Answer {
    let served = state.node.keyspace(&keyspace).await?;
    let UsedKeys { keys } = batch(&state, request).await?;
    Ok(Json(StatusCode::OK, state.names.import_used(&served, keys).await?).into_response())
}

async fn batch<T: DeserializeOwned>(state: &State, request: Request) -> Result<T, Refusal> {
    let (parts, body) = request.into_parts();
    let body = body::read_batch(body, &state.config.limits).await?;
    body::parse(&parts.headers, &body)
}
