//! `keymill ready`: what a container's health check, a script or a person asks first.

use anyhow::{Context, bail};
use http_body_util::BodyExt;
use hyper::Method;
use keymill_api::Readiness;

use crate::{
    client::Client,
    output::{self, say},
};

pub(crate) async fn run(client: &Client, json: bool) -> anyhow::Result<()> {
    let response = client.send(Method::GET, "/readyz", None, "application/json").await?;
    let status = response.status();
    let body = response.into_body().collect().await.context("the answer was cut off")?.to_bytes();
    let readiness: Readiness = serde_json::from_slice(&body)
        .with_context(|| format!("{} answered {status}, as no Keymill does", client.server()))?;
    if json {
        output::json(&readiness);
    }
    if readiness.ready {
        if !json {
            say!("ready");
        }
        return Ok(());
    }
    let reasons =
        readiness.reasons.iter().map(|reason| format!("{}: {}", reason.code.as_str(), reason.detail));
    if json {
        std::process::exit(1);
    }
    bail!("not ready: {}", reasons.collect::<Vec<_>>().join("; "))
}
