//! Where lines go: to stdout as they come, or to a file that is there once it is complete.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;

pub(crate) struct Out {
    lines: BufWriter<Box<dyn Write + Send>>,
    file: Option<Unfinished>,
}

/// A file under its second name, until it is whole.
struct Unfinished {
    path: PathBuf,
    part: PathBuf,
}

impl Out {
    pub(crate) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self { lines: BufWriter::new(Box::new(io::stdout())), file: None });
        };
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).with_context(|| format!("{} cannot be written", part.display()))?;
        let file = (Box::new(file), Unfinished { path: path.to_owned(), part });
        Ok(Self { lines: BufWriter::new(file.0), file: Some(file.1) })
    }

    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.lines, "{text}")
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.lines.flush()
    }

    /// All lines are written.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.lines.flush()?;
        let Some(Unfinished { path, part }) = self.file else { return Ok(()) };
        fs::rename(&part, &path)
            .with_context(|| format!("{} cannot become {}", part.display(), path.display()))
    }
}
