//! `keymill audit export`: who reserved what, how far it was issued and when, as a file; or every key.

use std::path::Path;

use keymill_api::{ClaimList, ClaimView, IssuedList, IssuedView, WorkerList, WorkerView};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    bulk::{csv_line, out::Out},
    client::{Client, segment},
    import_args::{AuditExport, Format},
};

/// What the columns are called; they stand in the order of [`columns`].
const HEADER: &str = "track,start,end,node,epoch,reserved_at,issued_up_to,last_issued_at,state";
/// The same of keys that are written down one by one.
const KEYS_HEADER: &str = "key,node,issued_at";
/// Rows on one page, the most there may be.
const PAGE: usize = 1000;

pub(crate) async fn export(client: &Client, args: &AuditExport, as_json: bool) -> anyhow::Result<()> {
    let keyspace = segment(&args.keyspace);
    let format = if as_json { Format::Jsonl } else { args.format };
    let mut export = Export { client, format, out: None, file: args.out.as_deref() };
    if args.keys {
        let list = format!("/v1/keyspaces/{keyspace}/issued?limit={PAGE}");
        export
            .write(&list, KEYS_HEADER, |page: IssuedList| (page.issued, page.next_cursor), key_columns)
            .await?;
    } else {
        let list = format!("/v1/claims?keyspace={keyspace}&limit={PAGE}");
        let WorkerList { workers } = client.get(&format!("/v1/workers?keyspace={keyspace}")).await?.read()?;
        let page = |page: ClaimList| (page.claims, page.next_cursor);
        export.write(&list, HEADER, page, columns).await?;
        // Time is reserved by worker.
        for WorkerView { worker, .. } in workers {
            export.write(&format!("{list}&worker={worker}"), HEADER, page, columns).await?;
        }
    }
    export.finish()
}

/// A file that is being written.
struct Export<'a> {
    client: &'a Client,
    format: Format,
    file: Option<&'a Path>,
    /// Opened with the first page: a keyspace that is not there leaves nothing behind.
    out: Option<Out>,
}

impl Export<'_> {
    /// All pages of a list.
    async fn write<P: DeserializeOwned, T: Serialize>(
        &mut self,
        list: &str,
        header: &str,
        read: impl Fn(P) -> (Vec<T>, Option<String>),
        columns: impl Fn(&T) -> String,
    ) -> anyhow::Result<()> {
        let mut path = list.to_owned();
        loop {
            let (rows, next_cursor) = read(self.client.get(&path).await?.read()?);
            let out = match &mut self.out {
                Some(out) => out,
                None => {
                    let out = self.out.insert(Out::open(self.file)?);
                    if self.format == Format::Csv {
                        out.line(header)?;
                    }
                    out
                }
            };
            for row in &rows {
                match self.format {
                    Format::Csv => out.line(&columns(row))?,
                    Format::Jsonl => out.line(&serde_json::to_string(row)?)?,
                }
            }
            let Some(cursor) = next_cursor else { return Ok(()) };
            path = format!("{list}&cursor={}", segment(&cursor));
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        self.out.map_or(Ok(()), Out::finish)
    }
}

fn key_columns(issued: &IssuedView) -> String {
    csv_line(&[&issued.key, &issued.node, &issued.issued_at])
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
