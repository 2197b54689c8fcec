//! Ledgers elsewhere: each region has one of its own, and nobody but their operators can tell that two were
//! given the same region. So whoever names the others in `ledger.peers` has them asked at start.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use keymill_issuer::Elsewhere;
use keymill_ledger::LedgerId;
use serde::Deserialize;

/// How long a peer has to answer; a start does not wait for one that is down.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer names every track of a ledger.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// What is read of `GET /v1/ledger`.
#[derive(Debug, Deserialize)]
struct Answer {
    id: String,
    region: Option<u16>,
}

/// Asks every peer for its ledger and region. One that does not answer is reported and left out: it must not
/// keep this region from starting.
pub(crate) async fn ask(peers: &[String]) -> Vec<Elsewhere> {
    let mut found = Vec::new();
    for peer in peers {
        match tokio::time::timeout(PATIENCE, ask_one(peer)).await {
            Ok(Ok(Answer { id, region: Some(region) })) => {
                found.push(Elsewhere { at: peer.clone(), ledger: LedgerId(id), region });
            }
            Ok(Ok(Answer { region: None, .. })) => {
                tracing::warn!(peer, "the ledger behind {peer} has no region; set ledger.region there");
            }
            Ok(Err(error)) => {
                tracing::warn!(peer, %error, "{peer} could not be asked for its region: {error}")
            }
            Err(_) => tracing::warn!(peer, "{peer} did not say its region within {PATIENCE:?}"),
        }
    }
    found
}

async fn ask_one(peer: &str) -> anyhow::Result<Answer> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let response = client.get(format!("{}/v1/ledger", peer.trim_end_matches('/')).parse()?).await?;
    anyhow::ensure!(response.status().is_success(), "it answered {}", response.status());
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
    Ok(serde_json::from_slice(&body)?)
}
