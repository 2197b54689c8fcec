//! `keymill inspect`

use keymill_api::KeyView;

use crate::{
    client::{Client, segment},
    output,
};

pub(crate) async fn run(client: &Client, keyspace: &str, key: &str, json: bool) -> anyhow::Result<()> {
    let answer = client.get(&format!("/v1/keyspaces/{}/keys/{}", segment(keyspace), segment(key))).await?;
    let view: KeyView = answer.read()?;
    if json {
        output::json(&view);
        return Ok(());
    }
    let state = serde_json::to_value(view.state)?;
    let mut facts = vec![
        ("keyspace", view.keyspace),
        ("key", view.key),
        ("state", state.as_str().unwrap_or_default().replace('_', " ")),
    ];
    let id = view.id.as_ref();
    let optional = [
        ("number", view.number.as_deref().map(output::grouped)),
        ("time", id.map(|id| id.time.clone())),
        ("region", id.map(|id| id.region.to_string())),
        ("worker", id.map(|id| id.worker.to_string())),
        ("sequence", id.map(|id| id.sequence.to_string())),
        ("node", view.node),
        ("reserved at", view.reserved_at),
        ("issued after", view.issued_after),
        ("issued before", view.issued_before),
        ("leads to", view.link.map(|link| link.url)),
    ];
    facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    facts.extend(view.refs.into_iter().map(|reference| ("ref", reference)));
    output::facts(&facts);
    Ok(())
}
