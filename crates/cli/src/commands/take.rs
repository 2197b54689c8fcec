//! `keymill take`

use std::io::Write;

use anyhow::Context;
use http_body_util::BodyExt;
use hyper::Method;

use crate::client::{Client, segment, whole};

/// Above this the server streams, and so do we.
const IN_ONE_ANSWER: u32 = 10_000;

pub(crate) async fn run(client: &Client, keyspace: &str, count: u32, json: bool) -> anyhow::Result<()> {
    let path = format!("/v1/keyspaces/{}/keys", segment(keyspace));
    let body = serde_json::json!({ "count": count });
    if json || count <= IN_ONE_ANSWER {
        let answer = client.post(&path, &body).await?;
        let text = if json {
            String::from_utf8_lossy(&answer.body).into_owned()
        } else {
            answer.read::<keymill_api::TakeAnswer>()?.keys.join("\n")
        };
        return Ok(writeln!(std::io::stdout(), "{text}")?);
    }
    let bytes = serde_json::to_vec(&body).expect("plain data").into();
    let response = client.send(Method::POST, &path, Some(bytes), "text/plain").await?;
    if !response.status().is_success() {
        whole(response).await?;
        return Ok(());
    }
    let mut stdout = std::io::stdout().lock();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.context("the answer was cut off: what was printed is yours, the rest was not issued")?;
        if let Some(data) = frame.data_ref() {
            stdout.write_all(data)?;
        }
    }
    Ok(stdout.flush()?)
}
