//! `keymill top`: what the dashboard shows, in a terminal.

use crate::{args, client::Client, output};

mod feed;
mod plain;

pub(crate) async fn run(client: &Client, args: &args::Top, json: bool) -> anyhow::Result<()> {
    let snapshot = feed::Feed::open(client).await?.next().await?;
    match json {
        true => output::json(&snapshot),
        false => plain::print(&snapshot, &args.filter),
    }
    Ok(())
}
