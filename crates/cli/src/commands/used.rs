//! `keymill import used`

use keymill_api::{USED_MAX, UsedAnswer};
use serde_json::json;

use crate::{
    bulk::{self, Item, Source, Summary, rejects::Rejects},
    client::{Client, segment},
    import_args::ImportUsed,
};

pub(crate) async fn run(client: &Client, args: &ImportUsed, as_json: bool) -> anyhow::Result<()> {
    let args = &args.source;
    let path = format!("/v1/keyspaces/{}/used", segment(&args.keyspace));
    let mut source = Source::open(&args.file, args.header)?;
    let mut rejects = Rejects::new(args.rejects.as_deref(), source.bar().clone())?;
    let (mut imported, mut known) = (0, 0);
    loop {
        let batch = source.batch(USED_MAX, &mut rejects)?;
        if batch.is_empty() {
            break;
        }
        let keys: Vec<&str> = batch.iter().map(|Item { text, .. }| text.as_str()).collect();
        let answer = bulk::send(client, &path, &json!({ "keys": keys })).await?;
        let answer: UsedAnswer = answer.read()?;
        imported += answer.imported;
        known += answer.known;
        for rejected in answer.rejected {
            let line = batch.get(rejected.index).map_or(0, |item| item.line);
            rejects.add(line, &rejected.key, &rejected.reason)?;
        }
        source.bar().set_message(format!("{imported} withheld"));
    }
    source.bar().finish_and_clear();
    let rejected = rejects.finish()?;
    let keyspace = args.keyspace.clone();
    let summary = Summary { keyspace, lines: source.lines(), imported, known, rejected };
    summary.tell("withheld from", as_json);
    Ok(())
}
