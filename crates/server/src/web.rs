//! Requests that this process makes of others: pages, heartbeats, looks at a server.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT},
};
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use keymill_watch::{Answer, Method, Request, Web};

use crate::connect::{Connector, Trust};

/// A page of keyspaces is the largest answer that anyone asks for.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A connection is kept for the next request this long: not as long as others keep theirs, so that none is used
/// that is being closed.
const IDLE: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub struct WebClient {
    http: legacy::Client<Connector, Full<Bytes>>,
}

impl WebClient {
    /// Without `trust` it speaks plainly only.
    pub fn new(trust: Option<&Trust>) -> anyhow::Result<Self> {
        let connector = Connector::new(trust)?;
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        Ok(Self { http: builder.build(connector) })
    }
}

#[async_trait]
impl Web for WebClient {
    async fn send(&self, request: Request) -> Result<Answer, String> {
        let Request { method, url, bearer, body } = request;
        let uri: Uri =
            url.reveal().parse().map_err(|_| format!("{url} has an address that cannot be asked"))?;
        let mut outgoing = hyper::Request::builder()
            .method(match method {
                Method::Get => hyper::Method::GET,
                Method::Post => hyper::Method::POST,
            })
            .uri(uri)
            .header(USER_AGENT, concat!("keymill/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json");
        if let Some(token) = bearer {
            let mut header = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| "the token holds characters that no token has".to_owned())?;
            header.set_sensitive(true);
            outgoing = outgoing.header(AUTHORIZATION, header);
        }
        if body.is_some() {
            outgoing = outgoing.header(CONTENT_TYPE, "application/json");
        }
        let outgoing = outgoing.body(Full::new(Bytes::from(body.unwrap_or_default())));
        let outgoing = outgoing.map_err(|_| format!("{url} has an address that cannot be asked"))?;
        let response = self.http.request(outgoing).await.map_err(|error| spelled(&error))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| format!("the answer was cut off: {error}"))?.to_bytes().to_vec();
        Ok(Answer { status, body })
    }
}

/// With its causes, which say more than it does.
fn spelled(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
