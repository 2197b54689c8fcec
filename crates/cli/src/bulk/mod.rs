//! Bringing a file in, batch by batch.
//!
//! Nothing is remembered between runs: what a batch asks for may be asked again, so a run that was cut off is begun
//! anew and finds what is done already.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
    time::Duration,
};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::{
    client::{Answer, Client},
    output::{self, Refused},
};

pub(crate) mod first_column;
pub(crate) mod out;
pub(crate) mod rejects;

use first_column::{FirstColumn, Record};
use rejects::Rejects;

/// Bytes of JSON in one request, at most: well below the default of `limits.batch_bytes`.
const BATCH_BYTES: usize = 1 << 20;
/// How often a batch is sent that the server is too busy for.
const TRIES: u32 = 10;
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What came of a file of keys.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub keyspace: String,
    pub lines: u64,
    pub imported: u64,
    /// Brought in before.
    pub known: u64,
    /// All others, and lines that repeat one before them.
    pub rejected: u64,
}

impl Summary {
    /// `done` is what became of the imported ones: `imported into`.
    pub(crate) fn tell(&self, done: &str, as_json: bool) {
        if as_json {
            return output::json(self);
        }
        let Self { keyspace, lines, imported, known, rejected } = self;
        eprintln!("{lines} lines: {imported} {done} `{keyspace}`, {known} known before, {rejected} rejected");
    }
}

/// A file that is being brought in.
pub(crate) struct Source {
    records: FirstColumn<Box<dyn std::io::BufRead + Send>>,
    bar: ProgressBar,
    /// Read, and did not fit into the batch before.
    next: Option<Item>,
    lines: u64,
}

/// One line that goes to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub line: u64,
    pub text: String,
}

impl Source {
    /// `-` is standard input. A header is passed over.
    pub(crate) fn open(path: &Path, header: bool) -> anyhow::Result<Self> {
        let (input, bar): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
            (Box::new(std::io::stdin()), ProgressBar::no_length())
        } else {
            let unreadable = || format!("{} cannot be read", path.display());
            let file = File::open(path).with_context(unreadable)?;
            let bytes = file.metadata().with_context(unreadable)?.len();
            (Box::new(file), ProgressBar::new(bytes))
        };
        let bar = bar.with_style(style());
        let input: Box<dyn std::io::BufRead + Send> =
            Box::new(BufReader::with_capacity(1 << 16, bar.wrap_read(input)));
        let mut source = Self { records: FirstColumn::new(input)?, bar, next: None, lines: 0 };
        if header {
            source.records.next()?;
        }
        Ok(source)
    }

    /// Blank lines are rejected instead of passed over.
    pub(crate) fn rejecting_blank_lines(mut self) -> Self {
        self.records.tell_blank_lines();
        self
    }

    /// Shown on a terminal only.
    pub(crate) fn bar(&self) -> &ProgressBar {
        &self.bar
    }

    /// Records read so far, a header and blank lines aside.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// The next lines to send; none at the end. What cannot be sent is rejected here.
    pub(crate) fn batch(&mut self, most: usize, rejects: &mut Rejects) -> anyhow::Result<Vec<Item>> {
        rejects.settle()?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < most {
            let Some(item) = self.next_item(rejects)? else { break };
            bytes += serde_json::to_string(&item.text)?.len() + ITEM_BYTES;
            if bytes > BATCH_BYTES && !batch.is_empty() {
                self.next = Some(item);
                break;
            }
            batch.push(item);
        }
        Ok(batch)
    }

    fn next_item(&mut self, rejects: &mut Rejects) -> anyhow::Result<Option<Item>> {
        if let Some(item) = self.next.take() {
            return Ok(Some(item));
        }
        while let Some(Record { line, cell }) = self.records.next()? {
            self.lines += 1;
            match cell {
                Ok(text) => return Ok(Some(Item { line, text })),
                Err(flaw) => rejects.add(line, "", &flaw.to_string())?,
            }
        }
        Ok(None)
    }
}

/// What a request has around each text.
const ITEM_BYTES: usize = "{\"ref\":},".len();

fn style() -> ProgressStyle {
    let template = "{wide_bar} {percent}%  {bytes}/{total_bytes}  {eta} left  {msg}";
    ProgressStyle::with_template(template).expect("a fixed template")
}

/// Sends a batch, and again after a while if the server is too busy.
pub(crate) async fn send(client: &Client, path: &str, body: &impl Serialize) -> anyhow::Result<Answer> {
    let mut pause = PAUSE_MIN;
    for _ in 1..TRIES {
        match client.post(path, body).await {
            Err(error) if is_busy(&error) => tokio::time::sleep(pause).await,
            answered => return answered,
        }
        pause = PAUSE_MAX.min(2 * pause);
    }
    client.post(path, body).await
}

fn is_busy(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|Refused(problem)| matches!(problem.status, 429 | 503))
}

/// Cells as a line of CSV, without its end.
pub(crate) fn csv_line(cells: &[&str]) -> String {
    let quoted = |cell: &&str| {
        if cell.contains([',', '"', '\n', '\r']) || cell.trim() != *cell {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            (*cell).to_owned()
        }
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(
            csv_line(&["a", "b c", "1,2", "say \"hi\"", " x"]),
            "a,b c,\"1,2\",\"say \"\"hi\"\"\",\" x\""
        );
    }
}
