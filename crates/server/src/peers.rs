//! Ledgers elsewhere: each region has one of its own, and nobody but their operators can tell that two were
//! given the same region. So whoever names the others in `ledger.peers` has them asked at start.
//!
//! They are asked for `/healthz`, which is open to all: their tokens are their own, and none is needed here.

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use keymill_api::{Health, HealthLedger};
use keymill_issuer::Elsewhere;
use keymill_ledger::LedgerId;

use crate::{
    config::{Config, LedgerConfig},
    connect::{Connector, Trust},
};

/// How long a peer has to answer; a start does not wait for one that is down.
const PATIENCE: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 64 << 10;

type Asking = Client<Connector, Empty<Bytes>>;

/// Asks every peer for its ledger and region. One that does not answer is reported and left out: it must not
/// keep this region from starting. Files that cannot be read are this node's own mistake, and do.
pub(crate) async fn ask(config: &Config) -> anyhow::Result<Vec<Elsewhere>> {
    let LedgerConfig { peers, peers_ca, .. } = &config.ledger;
    let file = |path: &str| (!path.is_empty()).then(|| PathBuf::from(path));
    // A peer that wants to see a certificate is shown the one we serve with.
    let identity = file(&config.listen.tls_cert).zip(file(&config.listen.tls_key));
    let trust = Trust { ca: file(peers_ca), identity };
    let secure = peers.iter().any(|peer| peer.starts_with("https:"));
    let connector = Connector::new(secure.then_some(&trust)).context("ledger.peers_ca")?;
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let mut found = Vec::new();
    for peer in peers {
        match tokio::time::timeout(PATIENCE, ask_one(&client, peer)).await {
            Ok(Ok(HealthLedger { id: Some(id), region: Some(region), .. })) => {
                found.push(Elsewhere { at: peer.clone(), ledger: LedgerId(id), region });
            }
            Ok(Ok(HealthLedger { id: None, .. })) => {
                tracing::warn!(peer, "{peer} has not joined its ledger yet, so its region is not known");
            }
            Ok(Ok(_)) => {
                tracing::warn!(peer, "the ledger behind {peer} has no region; set ledger.region there");
            }
            Ok(Err(error)) => {
                let error = format!("{error:#}");
                tracing::warn!(peer, error, "{peer} could not be asked for its region: {error}");
            }
            Err(_) => tracing::warn!(peer, "{peer} did not say its region within {PATIENCE:?}"),
        }
    }
    Ok(found)
}

async fn ask_one(client: &Asking, peer: &str) -> anyhow::Result<HealthLedger> {
    let response = client.get(format!("{}/healthz", peer.trim_end_matches('/')).parse()?).await?;
    anyhow::ensure!(response.status().is_success(), "it answered {}", response.status());
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
    let health: Health = serde_json::from_slice(&body).context("it is no keymill of this version")?;
    Ok(health.ledger)
}
