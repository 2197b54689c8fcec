//! `keymill decode`: what an ID means, without a server.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use keymill_api::{DecodeAnswer, RangeAnswer, ReadingView, parse_time, rfc3339};
use keymill_id::{Layout, readings};
use keymill_ledger::Timestamp;

use crate::output;

pub(crate) fn run(
    id: Option<&str>,
    layout: Option<&str>,
    at: Option<&str>,
    json: bool,
) -> anyhow::Result<()> {
    let layout = layout.map(|text| Layout::parse(text, None, None)).transpose()?;
    match (id, at) {
        (Some(id), _) => explain(id, layout.as_ref(), json),
        (None, Some(at)) => {
            moment(at, &layout.map_or_else(|| Layout::parse("default", None, None), Ok)?, json)
        }
        (None, None) => bail!("say an ID, or a time with --at"),
    }
}

fn explain(id: &str, layout: Option<&Layout>, json: bool) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let found = readings(id, layout, u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    if found.is_empty() {
        bail!("`{}` is not an ID of that layout, a UUID or a ULID", id.escape_debug());
    }
    let readings: Vec<ReadingView> = found.into_iter().map(Into::into).collect();
    if json {
        output::json(&DecodeAnswer { id: id.to_owned(), readings });
        return Ok(());
    }
    for (index, reading) in readings.iter().enumerate() {
        if index > 0 {
            output::say!("");
        }
        let optional = [
            ("layout", reading.layout.clone()),
            ("version", reading.version.map(|version| version.to_string())),
            ("time", reading.time.clone()),
            ("region", reading.region.map(|region| region.to_string())),
            ("worker", reading.worker.map(|worker| worker.to_string())),
            ("sequence", reading.sequence.map(|sequence| sequence.to_string())),
            ("signed safe", reading.signed_safe.map(|safe| safe.to_string())),
        ];
        let mut facts = vec![("kind", reading.kind.clone())];
        facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
        output::facts(&facts);
    }
    Ok(())
}

fn moment(at: &str, layout: &Layout, json: bool) -> anyhow::Result<()> {
    let at = parse_time(at).with_context(|| format!("`{at}` is neither RFC 3339 nor Unix milliseconds"))?;
    let tick = layout.tick_at(at.0).with_context(|| {
        let (start, end) = (Timestamp(layout.epoch_ms()), Timestamp(layout.ends_at_ms()));
        format!("the layout's time runs from {} to {}", rfc3339(start), rfc3339(end))
    })?;
    let (from, to) = (layout.unix_ms_of(tick), layout.unix_ms_of(tick + 1));
    let (first, last) = layout.range(from, to).context("a tick holds at least one ID")?;
    let answer = RangeAnswer {
        from: rfc3339(Timestamp(from)),
        to: rfc3339(Timestamp(to)),
        first: first.to_string(),
        last: last.to_string(),
    };
    if json {
        output::json(&answer);
    } else {
        output::facts(&[
            ("from", answer.from),
            ("to", answer.to),
            ("first", answer.first),
            ("last", answer.last),
        ]);
    }
    Ok(())
}
