//! `keymill import keys`

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasher, RandomState},
};

use keymill_api::{IMPORT_KEYS_MAX, ImportAnswer, ImportOutcome};
use serde_json::json;

use crate::{
    bulk::{self, Item, Source, Summary, rejects::Rejects},
    client::{Client, segment},
    import_args::ImportKeys,
};

pub(crate) async fn run(client: &Client, args: &ImportKeys, as_json: bool) -> anyhow::Result<()> {
    let args = &args.source;
    let path = format!("/v1/keyspaces/{}/import", segment(&args.keyspace));
    let mut source = Source::open(&args.file, args.header)?.rejecting_blank_lines();
    let mut rejects = Rejects::new(args.rejects.as_deref(), source.bar().clone())?;
    let (mut imported, mut known, mut seen) = (0, 0, Seen::default());
    loop {
        let batch = source.batch(IMPORT_KEYS_MAX, &mut rejects)?;
        if batch.is_empty() {
            break;
        }
        let batch = seen.without_repeated(batch, &mut rejects)?;
        let keys: Vec<&str> = batch.iter().map(|Item { text, .. }| text.as_str()).collect();
        let answer: ImportAnswer = bulk::send(client, &path, &json!({ "keys": keys })).await?.read()?;
        for (Item { line, text }, ImportOutcome { outcome, detail }) in batch.iter().zip(answer.outcomes) {
            match outcome.as_str() {
                "added" => imported += 1,
                _ => {
                    known += u64::from(outcome == "known");
                    rejects.add(*line, text, detail.as_deref().unwrap_or(&outcome))?;
                }
            }
        }
        source.bar().set_message(format!("{imported} imported"));
    }
    source.bar().finish_and_clear();
    let rejected = rejects.finish()? - known;
    let keyspace = args.keyspace.clone();
    let summary = Summary { keyspace, lines: source.lines(), imported, known, rejected };
    summary.tell("imported into", as_json);
    Ok(())
}

/// Where each key was first, by its hash: two words a line, however long the keys are.
#[derive(Debug, Default)]
struct Seen {
    lines: HashMap<u64, u64>,
    hasher: RandomState,
}

impl Seen {
    fn without_repeated(&mut self, batch: Vec<Item>, rejects: &mut Rejects) -> anyhow::Result<Vec<Item>> {
        let mut kept = Vec::with_capacity(batch.len());
        for item in batch {
            match self.lines.entry(self.hasher.hash_one(&item.text)) {
                Entry::Vacant(entry) => {
                    entry.insert(item.line);
                    kept.push(item);
                }
                Entry::Occupied(first) => {
                    rejects.add(item.line, &item.text, &format!("line {} has it already", first.get()))?;
                }
            }
        }
        Ok(kept)
    }
}
