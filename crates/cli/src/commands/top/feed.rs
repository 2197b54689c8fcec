//! Snapshots as they arrive from `/v1/stream`, over as many connections as it takes.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::{Method, body::Incoming};
use keymill_api::Snapshot;

use crate::client::{Client, whole};

/// Longer than the server is ever silent: one that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(10);
/// A snapshot of the largest ledger is far below it; what never ends is no snapshot.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// One open stream.
#[derive(Debug)]
pub(super) struct Feed {
    body: Incoming,
    held: BytesMut,
}

impl Feed {
    pub(super) async fn open(client: &Client) -> anyhow::Result<Self> {
        let sent = client.send(Method::GET, "/v1/stream", None, "text/event-stream");
        let Ok(response) = tokio::time::timeout(SILENCE, sent).await else {
            bail!("no answer within {SILENCE:?}")
        };
        let response = response?;
        if !response.status().is_success() {
            whole(response).await?;
            bail!("the server has no stream");
        }
        Ok(Self { body: response.into_body(), held: BytesMut::new() })
    }

    pub(super) async fn next(&mut self) -> anyhow::Result<Snapshot> {
        loop {
            if let Some(data) = cut_event(&mut self.held) {
                return serde_json::from_slice(&data)
                    .context("the server's snapshot is not what this version expects");
            }
            if self.held.len() > EVENT_BYTES_MAX {
                bail!("the server sent more than {EVENT_BYTES_MAX} bytes without an end");
            }
            let Ok(frame) = tokio::time::timeout(SILENCE, self.body.frame()).await else {
                bail!("the server is silent");
            };
            let frame = frame.context("the server hung up")?.context("the stream broke off")?;
            if let Ok(bytes) = frame.into_data() {
                self.held.extend_from_slice(&bytes);
            }
        }
    }
}

/// Cuts the data of the first whole `snapshot` event off the front, and whatever is before it.
fn cut_event(held: &mut BytesMut) -> Option<Vec<u8>> {
    loop {
        let end = held.windows(2).position(|pair| pair == b"\n\n")?;
        let event = held.split_to(end + 2);
        let mut lines = event[..].split(|byte| *byte == b'\n');
        if lines.next() == Some(b"event: snapshot") {
            let data = lines.find_map(|line| line.strip_prefix(b"data: "));
            return Some(data.unwrap_or_default().to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_wherever_packets_end() {
        let mut held = BytesMut::from("event: other\ndata: 1\n\nevent: snapshot\ndata: {\"a\":");
        assert_eq!(cut_event(&mut held), None);
        held.extend_from_slice(b"1}\n\nevent: snap");
        assert_eq!(cut_event(&mut held).as_deref(), Some(b"{\"a\":1}".as_slice()));
        assert_eq!(cut_event(&mut held), None);
        assert_eq!(&held[..], b"event: snap");
    }
}
