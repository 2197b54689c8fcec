//! Lines that could not be brought in, told by their number.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use indicatif::ProgressBar;

use super::csv_line;

/// Rejects that are told on the terminal; a file of one's choice gets all.
const SHOWN: u64 = 20;
/// Characters of a reject that are shown.
const SHOWN_CHARACTERS: usize = 64;

/// Rejects that wait to be put in order, at most.
const WAITING_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Rejects {
    count: u64,
    /// Those of the batch under way: some are found before it is sent, some by the server.
    waiting: Vec<Reject>,
    file: Option<(PathBuf, BufWriter<File>)>,
    bar: ProgressBar,
}

#[derive(Debug)]
struct Reject {
    line: u64,
    text: String,
    reason: String,
}

impl Rejects {
    /// To `file`, or to stderr around the progress bar.
    pub(crate) fn new(file: Option<&Path>, bar: ProgressBar) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let file = File::create(path)
                .with_context(|| format!("the file for rejects, {}, cannot be written", path.display()))?;
            let mut file = BufWriter::new(file);
            writeln!(file, "line,text,reason")?;
            anyhow::Ok((path.to_owned(), file))
        };
        Ok(Self { count: 0, waiting: Vec::new(), file: file.map(open).transpose()?, bar })
    }

    pub(crate) fn add(&mut self, line: u64, text: &str, reason: &str) -> anyhow::Result<()> {
        let text = text.chars().take(SHOWN_CHARACTERS).collect();
        self.waiting.push(Reject { line, text, reason: reason.to_owned() });
        if self.waiting.len() < WAITING_MAX { Ok(()) } else { self.settle() }
    }

    /// A batch is done: tells of its rejects, in the order of their lines.
    pub(super) fn settle(&mut self) -> anyhow::Result<()> {
        let mut rejects = std::mem::take(&mut self.waiting);
        rejects.sort_by_key(|reject| reject.line);
        for Reject { line, text, reason } in rejects {
            self.count += 1;
            match &mut self.file {
                Some((_, file)) => writeln!(file, "{}", csv_line(&[&line.to_string(), &text, &reason]))?,
                None if self.count > SHOWN => {}
                None => self.tell(&format!("line {line}: `{}`: {reason}", text.escape_debug())),
            }
        }
        Ok(())
    }

    /// How many there were. Says where the others are, if not all were shown.
    pub(crate) fn finish(mut self) -> anyhow::Result<u64> {
        self.settle()?;
        if let Some((path, file)) = &mut self.file {
            file.flush()
                .with_context(|| format!("the rejects could not be written to {}", path.display()))?;
        } else if self.count > SHOWN {
            self.tell(&format!("and {} more; --rejects FILE keeps all", self.count - SHOWN));
        }
        Ok(self.count)
    }

    fn tell(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }
}
