//! `keymill audit export`: who reserved what, how far it was issued and when, as a file.

use keymill_api::{ClaimList, ClaimView, WorkerList, WorkerView};

use crate::{
    bulk::{csv_line, out::Out},
    client::{Client, segment},
    import_args::{AuditExport, Format},
};

/// What the columns are called; they stand in the order of [`columns`].
const HEADER: &str = "track,start,end,node,epoch,reserved_at,issued_up_to,last_issued_at,state";
/// Claims on one page, the most there may be.
const PAGE: usize = 1000;

pub(crate) async fn export(client: &Client, args: &AuditExport, as_json: bool) -> anyhow::Result<()> {
    let keyspace = segment(&args.keyspace);
    let list = format!("/v1/claims?keyspace={keyspace}&limit={PAGE}");
    let format = if as_json { Format::Jsonl } else { args.format };
    // Asked first: a keyspace that is not there leaves nothing behind.
    let WorkerList { workers } = client.get(&format!("/v1/workers?keyspace={keyspace}")).await?.read()?;
    let mut out = Out::open(args.out.as_deref())?;
    if format == Format::Csv {
        out.line(HEADER)?;
    }
    write(client, &list, format, &mut out).await?;
    // Time is reserved by worker.
    for WorkerView { worker, .. } in workers {
        write(client, &format!("{list}&worker={worker}"), format, &mut out).await?;
    }
    out.finish()
}

/// All pages of a list.
async fn write(client: &Client, list: &str, format: Format, out: &mut Out) -> anyhow::Result<()> {
    let mut path = list.to_owned();
    loop {
        let ClaimList { claims, next_cursor } = client.get(&path).await?.read()?;
        for claim in &claims {
            match format {
                Format::Csv => out.line(&columns(claim))?,
                Format::Jsonl => out.line(&serde_json::to_string(claim)?)?,
            }
        }
        let Some(cursor) = next_cursor else { break };
        path = format!("{list}&cursor={}", segment(&cursor));
    }
    Ok(())
}

fn columns(claim: &ClaimView) -> String {
    csv_line(&[
        &claim.track,
        &claim.start,
        &claim.end,
        &claim.node,
        &claim.epoch.to_string(),
        &claim.reserved_at,
        &claim.issued_up_to,
        claim.last_issued_at.as_deref().unwrap_or_default(),
        &claim.state.to_string(),
    ])
}
