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
        ("number", output::grouped(&view.number)),
        ("state", state.as_str().unwrap_or_default().replace('_', " ")),
    ];
    let optional = [
        ("node", view.node),
        ("reserved at", view.reserved_at),
        ("issued after", view.issued_after),
        ("issued before", view.issued_before),
    ];
    facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    output::facts(&facts);
    Ok(())
}
