//! `keymill bench`: how fast a server gives keys, and that it gives none twice.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::Context;
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{
    args,
    client::{Client, segment},
    output,
};

#[derive(Debug, Serialize)]
struct Report {
    keyspace: String,
    clients: usize,
    seconds: f64,
    requests: u64,
    keys: u64,
    duplicates: u64,
    refusals: u64,
    requests_per_second: f64,
    keys_per_second: f64,
    p50_micros: u64,
    p99_micros: u64,
    max_micros: u64,
}

struct Tally {
    times: Histogram<u64>,
    keys: Vec<String>,
    refusals: u64,
}

#[expect(clippy::cast_precision_loss, reason = "rates")]
pub(crate) async fn run(client: &Client, args: &args::Bench, json: bool) -> anyhow::Result<()> {
    // One take by itself: an unknown keyspace should be said once, not a million times.
    let path = format!("/v1/keyspaces/{}/keys", segment(&args.keyspace));
    let body = serde_json::json!({ "count": args.count });
    client.post(&path, &body).await?;
    let begun = Instant::now();
    let until = begun + Duration::from_secs_f64(args.seconds);
    // Beside each other on this task: a client's work is little next to the server's.
    let running = (0..args.clients.max(1)).map(|_| load(client, &path, &body, until));
    let tallies = try_join_all(running).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut times = Histogram::<u64>::new(3)?;
    let mut seen = HashSet::new();
    let (mut keys, mut refusals) = (0, 0);
    for tally in tallies {
        times.add(&tally.times)?;
        refusals += tally.refusals;
        keys += tally.keys.len() as u64;
        seen.extend(tally.keys);
    }
    let report = Report {
        keyspace: args.keyspace.clone(),
        clients: args.clients,
        seconds,
        requests: times.len(),
        keys,
        duplicates: keys - seen.len() as u64,
        refusals,
        requests_per_second: times.len() as f64 / seconds,
        keys_per_second: keys as f64 / seconds,
        p50_micros: times.value_at_quantile(0.5),
        p99_micros: times.value_at_quantile(0.99),
        max_micros: times.max(),
    };
    if json {
        output::json(&report);
    } else {
        print(&report);
    }
    if report.duplicates > 0 {
        anyhow::bail!("{} keys came twice", report.duplicates);
    }
    Ok(())
}

async fn load(
    client: &Client,
    path: &str,
    body: &serde_json::Value,
    until: Instant,
) -> anyhow::Result<Tally> {
    let mut tally = Tally { times: Histogram::new(3)?, keys: Vec::new(), refusals: 0 };
    while Instant::now() < until {
        let sent = Instant::now();
        match client.post(path, body).await {
            Ok(answer) => {
                tally.times.record(u64::try_from(sent.elapsed().as_micros())?.max(1))?;
                tally.keys.extend(answer.read::<keymill_api::TakeAnswer>()?.keys);
            }
            Err(error) if error.is::<output::Refused>() => tally.refusals += 1,
            Err(error) => return Err(error).context("the server went away"),
        }
    }
    Ok(tally)
}

fn print(report: &Report) {
    output::facts(&[
        ("requests", format!("{} in {:.1} s by {} clients", report.requests, report.seconds, report.clients)),
        ("requests/s", format!("{:.0}", report.requests_per_second)),
        ("keys/s", format!("{:.0}", report.keys_per_second)),
        (
            "latency",
            format!(
                "p50 {} µs, p99 {} µs, max {} µs",
                report.p50_micros, report.p99_micros, report.max_micros
            ),
        ),
        ("refusals", report.refusals.to_string()),
        ("duplicates", format!("{} of {} keys", report.duplicates, report.keys)),
    ]);
}
