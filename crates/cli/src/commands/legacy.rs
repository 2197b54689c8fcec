//! `keymill import legacy` and `keymill export legacy`

use anyhow::bail;
use keymill_api::{BATCH_MAX, RefList, RefOutcome, RefOutcomes, RefView};
use serde::Serialize;
use serde_json::json;

use crate::{
    bulk::{self, Item, Source, csv_line, out::Out, rejects::Rejects},
    client::{Client, segment},
    import_args::{ExportLegacy, Format, ImportLegacy},
    output,
};

/// What came of a file.
#[derive(Debug, Serialize)]
struct Summary {
    keyspace: String,
    lines: u64,
    created: u64,
    known: u64,
    rejected: u64,
}

pub(crate) async fn import(client: &Client, args: &ImportLegacy, as_json: bool) -> anyhow::Result<()> {
    let ImportLegacy { source: args, out } = args;
    if as_json && out.is_none() {
        bail!("the keys and the summary cannot both go to stdout; name a file with --out");
    }
    let path = format!("/v1/keyspaces/{}/refs/batch", segment(&args.keyspace));
    let mut source = Source::open(&args.file, args.header)?;
    let mut rejects = Rejects::new(args.rejects.as_deref(), source.bar().clone())?;
    let mut out = Out::open(out.as_deref())?;
    if args.header {
        out.line(HEADER)?;
    }
    let (mut created, mut given) = (0, 0);
    loop {
        let batch = source.batch(BATCH_MAX, &mut rejects)?;
        if batch.is_empty() {
            break;
        }
        let refs: Vec<_> = batch.iter().map(|Item { text, .. }| json!({ "ref": text })).collect();
        let answer: RefOutcomes = bulk::send(client, &path, &json!({ "refs": refs })).await?.read()?;
        if answer.refs.len() != batch.len() {
            bail!("the server answered for {} IDs of {}", answer.refs.len(), batch.len());
        }
        created += answer.created;
        for (Item { line, text }, outcome) in batch.iter().zip(answer.refs) {
            match outcome {
                RefOutcome::Ref(RefView { key, .. }) => {
                    given += 1;
                    out.line(&csv_line(&[text, &key]))?;
                }
                RefOutcome::Problem(problem) => rejects.add(*line, text, &problem.detail)?,
            }
        }
        out.flush()?;
        source.bar().set_message(format!("{given} keys"));
    }
    source.bar().finish_and_clear();
    out.finish()?;
    let rejected = rejects.finish()?;
    let (keyspace, known) = (args.keyspace.clone(), given - created);
    let summary = Summary { keyspace, lines: source.lines(), created, known, rejected };
    if as_json {
        output::json(&summary);
    } else {
        let Summary { keyspace, lines, .. } = summary;
        eprintln!(
            "{lines} lines: {created} new keys of `{keyspace}`, {known} known before, {rejected} rejected"
        );
    }
    Ok(())
}

/// What the columns are called, where they have names.
const HEADER: &str = "legacy_id,key";
/// References on one page, the most there may be.
const PAGE: usize = 1000;

pub(crate) async fn export(client: &Client, args: &ExportLegacy) -> anyhow::Result<()> {
    let list = format!("/v1/keyspaces/{}/refs?limit={PAGE}", segment(&args.keyspace));
    let mut out = Out::open(args.out.as_deref())?;
    let mut path = list.clone();
    loop {
        let RefList { refs, next_cursor } = client.get(&path).await?.read()?;
        for RefView { reference, key, .. } in refs {
            match args.format {
                Format::Csv => out.line(&csv_line(&[&reference, &key]))?,
                Format::Jsonl => out.line(&json!({ "legacy_id": reference, "key": key }).to_string())?,
            }
        }
        let Some(cursor) = next_cursor else { break };
        path = format!("{list}&cursor={}", segment(&cursor));
    }
    out.finish()
}
