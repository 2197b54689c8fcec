//! Taking keys over HTTP: parse, take, answer. This is the path that has to be short.

use bytes::Bytes;
use hyper::{
    HeaderMap, Response,
    body::Body as HttpBody,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use keymill_api::{Code, Refusal, TakeAnswer, TakeRequest};
use keymill_issuer::{
    IssueError, Served,
    haul::{Haul, Piece},
};
use std::sync::Arc;
use tokio::sync::mpsc;

use super::{
    State,
    answer::{Body, CutOff, NO_STORE, TEXT, json_bytes, uncached, wants_text},
    body,
};
use crate::{
    auth::Caller,
    names::{HEADER, Once, Said},
};

/// Keys in one chunk of a streamed answer.
const STREAM_CHUNK: u32 = 4096;
/// Keys that are written down for a retry, at most.
const ONCE_COUNT_MAX: u32 = 1000;
/// Chunks that may wait for a slow reader.
const STREAM_AHEAD: usize = 4;

/// `POST /v1/keyspaces/{ks}/keys`
pub(crate) async fn take<B>(
    state: &Arc<State>,
    caller: &Caller,
    keyspace: &str,
    headers: &HeaderMap,
    body: B,
) -> Result<Response<Body>, Refusal>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limits = &state.config.limits;
    let body = body::read(body, limits).await?;
    let request: TakeRequest =
        if body.is_empty() { TakeRequest::default() } else { body::parse(headers, &body)? };
    let text = wants_text(headers);
    let most = if text { limits.stream_count_max } else { limits.count_max };
    let count = request.count(most).map_err(|refusal| suggest_text(refusal, &request, limits))?;

    if headers.contains_key(HEADER) {
        return take_once(state, caller, keyspace, headers, &body, count).await;
    }
    let served = match state.node.known(keyspace) {
        Some(served) => served,
        None => state.node.keyspace(keyspace).await?,
    };
    // An answer is charged whole; a stream as it goes, and slowed down rather than refused.
    let first = if count > limits.count_max { chunk(state, caller, &served, count) } else { count };
    caller.charge(&served, first, || state.node.elapsed())?;
    if count == 1 && !text {
        let one = served.with_one(|key| json(&served.name, std::iter::once(key), 1, key.len()));
        if let Some(answer) = one {
            return Ok(json_bytes(answer));
        }
    }
    let patience = limits.take_timeout.duration();
    if count > limits.count_max {
        let first = served.take(first, patience).await.inspect_err(|_| caller.refund(&served, first))?;
        return Ok(stream(state, caller, served, first, count));
    }
    let haul = served.take(count, patience).await.inspect_err(|_| caller.refund(&served, count))?;
    if text {
        return Ok(uncached(TEXT, lines(&haul)));
    }
    let key_bytes = haul.pieces().next().map_or(0, Piece::stride);
    Ok(json_bytes(json(&served.name, haul.keys(), count, key_bytes)))
}

/// With an Idempotency-Key: the keys are written down before they leave, so that a retry gets the same ones.
async fn take_once(
    state: &Arc<State>,
    caller: &Caller,
    keyspace: &str,
    headers: &HeaderMap,
    body: &[u8],
    count: u32,
) -> Result<Response<Body>, Refusal> {
    if count > ONCE_COUNT_MAX {
        let detail = format!("with an Idempotency-Key `count` is at most {ONCE_COUNT_MAX}, and is {count}");
        return Err(Refusal::field(Code::CountOutOfRange, "count", detail));
    }
    // A task of its own: whoever hangs up in the middle comes back for the answer, so what was begun is finished.
    let order = (state.clone(), caller.clone(), keyspace.to_owned(), headers.clone(), body.to_vec());
    let said = tokio::spawn(async move {
        let (state, caller, keyspace, headers, body) = order;
        taken_once(&state, &caller, &keyspace, &headers, &body, count).await
    });
    let said = said.await.unwrap_or_else(|_| Err(IssueError::Internal.into()))?;
    if !wants_text(headers) {
        return Ok(json_bytes(said.body.into_bytes()));
    }
    let answer: TakeAnswer = keymill_api::parse(said.body.as_bytes())?;
    Ok(uncached(
        TEXT,
        answer.keys.iter().flat_map(|key| [key.as_str(), "\n"]).collect::<String>().into_bytes(),
    ))
}

async fn taken_once(
    state: &State,
    caller: &Caller,
    keyspace: &str,
    headers: &HeaderMap,
    body: &[u8],
    count: u32,
) -> Result<Said, Refusal> {
    let served = state.node.keyspace(keyspace).await?;
    let names = &state.names;
    let once = names.once(headers, caller, "keys", keyspace, body).await?;
    if let Once::Said(said) = once {
        return Ok(said);
    }
    let taken = async {
        caller.charge(&served, count, || state.node.elapsed())?;
        let taken = served.take(count, state.config.limits.take_timeout.duration()).await;
        let haul = taken.inspect_err(|_| caller.refund(&served, count))?;
        let answer = json(&served.name, haul.keys(), count, 0);
        let body = String::from_utf8(answer).expect("keys are ASCII");
        names.conclude(&once, Said { status: 200, body }).await
    };
    let said = taken.await;
    if said.is_err() {
        names.abandon(&once).await;
    }
    said
}

/// Someone who wants more than fits in JSON is told how to get it.
fn suggest_text(mut refusal: Refusal, request: &TakeRequest, limits: &crate::config::Limits) -> Refusal {
    if refusal.code == Code::CountOutOfRange && request.count(limits.stream_count_max).is_ok() {
        let most = limits.stream_count_max;
        refusal.detail =
            format!("{}, or as text (Accept: text/plain), up to {most} at a time", refusal.detail);
    }
    refusal
}

/// `{"keyspace":"links","keys":["aZ3k9Qp"]}`. Keys need no escaping: alphabets are letters, digits, - and _.
fn json<'k>(
    keyspace: &keymill_id::KeyspaceName,
    keys: impl Iterator<Item = &'k [u8]>,
    count: u32,
    key_bytes: usize,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(48 + keyspace.as_str().len() + (key_bytes + 3) * count as usize);
    out.extend_from_slice(b"{\"keyspace\":\"");
    out.extend_from_slice(keyspace.as_str().as_bytes());
    out.extend_from_slice(b"\",\"keys\":[");
    for (index, key) in keys.enumerate() {
        out.extend_from_slice(if index == 0 { b"\"" } else { b",\"" });
        out.extend_from_slice(key);
        out.push(b'"');
    }
    out.extend_from_slice(b"]}");
    out
}

fn lines(haul: &Haul) -> Vec<u8> {
    let per_key: usize = haul.pieces().next().map_or(0, |piece| piece.stride() + 1);
    let mut out = Vec::with_capacity(per_key * haul.count() as usize);
    for key in haul.keys() {
        out.extend_from_slice(key);
        out.push(b'\n');
    }
    out
}

/// How many keys of a stream to take next, with so many left.
fn chunk(state: &State, caller: &Caller, served: &Served, left: u32) -> u32 {
    caller.portion(served, STREAM_CHUNK.min(state.config.limits.count_max).min(left))
}

/// Sends `count` keys as they are taken; a reader that stops reading stops the taking.
fn stream(
    state: &Arc<State>,
    caller: &Caller,
    served: Arc<Served>,
    first: Haul,
    count: u32,
) -> Response<Body> {
    let (chunks, receiver) = mpsc::channel(STREAM_AHEAD);
    let (state, caller) = (state.clone(), caller.clone());
    let patience = state.config.limits.take_timeout.duration();
    tokio::spawn(async move {
        let mut left = count - first.count();
        let mut haul = first;
        loop {
            if chunks.send(Ok(lines(&haul).into())).await.is_err() || left == 0 {
                return; // the caller has gone, or has everything
            }
            let next = chunk(&state, &caller, &served, left);
            tokio::select! {
                () = caller.pace(&state.node, &served, next) => {}
                () = chunks.closed() => return,
            }
            let taken = match caller.refuse_unless_standing() {
                Ok(()) => served.take(next, patience).await.map_err(|error| error.to_string()),
                Err(refusal) => Err(refusal.detail),
            };
            haul = match taken {
                Ok(haul) => haul,
                Err(why) => {
                    let _ = chunks.send(Err(CutOff(why))).await;
                    return;
                }
            };
            left -= haul.count();
        }
    });
    let mut response = Response::new(Body::Stream(receiver));
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}
