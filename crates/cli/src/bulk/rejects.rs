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

#[derive(Debug)]
pub(crate) struct Rejects {
    count: u64,
    file: Option<(PathBuf, BufWriter<File>)>,
    bar: ProgressBar,
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
        Ok(Self { count: 0, file: file.map(open).transpose()?, bar })
    }

    pub(crate) fn add(&mut self, line: u64, text: &str, reason: &str) -> anyhow::Result<()> {
        self.count += 1;
        let text: String = text.chars().take(SHOWN_CHARACTERS).collect();
        match &mut self.file {
            Some((_, file)) => Ok(writeln!(file, "{}", csv_line(&[&line.to_string(), &text, reason]))?),
            None if self.count > SHOWN => Ok(()),
            None => {
                self.tell(&format!("line {line}: `{}`: {reason}", text.escape_debug()));
                Ok(())
            }
        }
    }

    /// How many there were. Says where the others are, if not all were shown.
    pub(crate) fn finish(mut self) -> anyhow::Result<u64> {
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
