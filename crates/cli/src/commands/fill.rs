//! `keymill fill`: a row pool now, or keys into a file.
//!
//! A file is taken in chunks, each under an Idempotency-Key of its own. A run that was cut off, even by `kill -9`, is
//! begun again with the same command: it cuts the file back to its last whole chunk and takes the next one under
//! the key it was or would have been taken under, and so gets the very keys that did not reach the file.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use keymill_api::{Code, FillAnswer, TakeAnswer};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    client::{Answer, Client, segment},
    fill_args::{Fill, Format},
    output::{self, Refused},
};

/// Keys of one chunk: as many as a take under an Idempotency-Key may have.
const CHUNK: u64 = 1000;
/// Chunks between two syncs of the file. What a crash of the machine loses is taken again under the same keys.
const SYNC_EVERY: u64 = 64;
/// How long a server is asked again that is too busy, or has no keys for the moment.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(500);
const HEADER: &str = "key\n";

pub(crate) async fn run(client: &Client, args: &Fill, as_json: bool) -> anyhow::Result<()> {
    match &args.out {
        None => fill_pool(client, args, as_json).await,
        Some(path) => fill_file(client, args, path, as_json).await,
    }
}

/// Asks again until the pool is full: the server does the work, and goes on if we are ended.
async fn fill_pool(client: &Client, args: &Fill, as_json: bool) -> anyhow::Result<()> {
    let path = format!("/v1/keyspaces/{}/fill", segment(&args.keyspace));
    let body = match args.count {
        Some(count) => json!({ "count": count.0 }),
        None => json!({}),
    };
    let mut bar = None;
    let mut said = None;
    loop {
        let answer: FillAnswer = again(|| client.post(&path, &body)).await?.read()?;
        let (level, target) = (rows(answer.level.as_deref()), rows(Some(&answer.target)));
        let bar = bar.get_or_insert_with(|| progress(target, level));
        bar.set_position(level.min(target));
        bar.set_message(answer.trouble.clone().unwrap_or_default());
        // Where there is no bar to show it.
        if bar.is_hidden() && answer.trouble.is_some() && said != answer.trouble {
            eprintln!(
                "`{}` cannot be filled yet: {}",
                answer.keyspace,
                answer.trouble.as_deref().unwrap_or_default()
            );
            said.clone_from(&answer.trouble);
        }
        if !answer.done {
            continue;
        }
        bar.finish_and_clear();
        if as_json {
            output::json(&answer);
        } else if answer.used_up && level < target {
            eprintln!("`{}` holds {level} keys; every key of the space has been made", answer.keyspace);
        } else {
            eprintln!("`{}` holds {level} keys", answer.keyspace);
        }
        return Ok(());
    }
}

fn rows(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// What a file was begun as, kept beside it until it is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    keyspace: String,
    count: u64,
    csv: bool,
    /// Tells this file's chunks from all others'.
    run: String,
}

/// A file on its way: `FILE.part` holds whole chunks and perhaps the beginning of one, `FILE.order` what it is.
#[derive(Debug)]
struct Unfinished {
    path: PathBuf,
    part: PathBuf,
    order_path: PathBuf,
    order: Order,
}

#[derive(Debug, Serialize)]
struct Summary {
    keyspace: String,
    file: String,
    count: u64,
    /// Keys that were in the file from an earlier run.
    resumed_at: u64,
}

async fn fill_file(client: &Client, args: &Fill, path: &Path, as_json: bool) -> anyhow::Result<()> {
    let count = args.count.map_or(0, |count| count.0);
    ensure!(count > 0, "--count must be at least 1");
    let unfinished = Unfinished::open(path, &args.keyspace, count, args.format == Format::Csv)?;
    let (mut file, written) = unfinished.resume()?;
    let bar = progress(count, written);
    let at = format!("/v1/keyspaces/{}/keys", segment(&args.keyspace));
    let mut chunk = written.div_ceil(CHUNK);
    while chunk * CHUNK < count {
        let wanted = CHUNK.min(count - chunk * CHUNK);
        let keys = take(client, &at, wanted, &unfinished.once(chunk), &bar).await?;
        let mut lines = keys.join("\n");
        lines.push('\n');
        file.write_all(lines.as_bytes()).with_context(|| unfinished.unwritable())?;
        chunk += 1;
        if chunk.is_multiple_of(SYNC_EVERY) {
            file.sync_data().with_context(|| unfinished.unwritable())?;
        }
        bar.inc(wanted);
    }
    unfinished.finish(&file)?;
    bar.finish_and_clear();
    let summary = Summary {
        keyspace: args.keyspace.clone(),
        file: path.display().to_string(),
        count,
        resumed_at: written,
    };
    if as_json {
        output::json(&summary);
    } else {
        eprintln!("{count} keys of `{}` are in {}", summary.keyspace, summary.file);
    }
    Ok(())
}

/// Takes one chunk. Where there is no registry to remember it, it is taken all the same: then what a cut-off run took
/// and did not write is lost.
async fn take(
    client: &Client,
    path: &str,
    count: u64,
    once: &str,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<String>> {
    let body = json!({ "count": count });
    let taken = again(|| client.post_once(path, &body, once)).await;
    let answer = match taken {
        Err(error) if is_refused(&error, &[Code::RegistryOff]) => {
            bar.set_message("without a registry, a run that is cut off loses a chunk of keys");
            again(|| client.post(path, &body)).await
        }
        taken => taken,
    };
    let keys = answer?.read::<TakeAnswer>()?.keys;
    ensure!(keys.len() as u64 == count, "the server answered {} keys instead of {count}", keys.len());
    Ok(keys)
}

/// Asks again while the server is busy, or out of stock for the moment.
async fn again<F>(mut ask: impl FnMut() -> F) -> anyhow::Result<Answer>
where
    F: Future<Output = anyhow::Result<Answer>>,
{
    const PASSING: &[Code] = &[
        Code::OutOfStock,
        Code::RateLimited,
        Code::Overloaded,
        Code::LedgerUnavailable,
        Code::Starting,
        Code::IdempotencyInProgress,
    ];
    for _ in 1..TRIES {
        match ask().await {
            Err(error) if is_refused(&error, PASSING) => tokio::time::sleep(PAUSE).await,
            answered => return answered,
        }
    }
    ask().await
}

fn is_refused(error: &anyhow::Error, codes: &[Code]) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|Refused(problem)| codes.contains(&problem.code))
}

fn progress(length: u64, position: u64) -> ProgressBar {
    let template = "{wide_bar} {percent}%  {human_pos}/{human_len} keys  {per_sec}  {eta} left  {msg}";
    let style = ProgressStyle::with_template(template).expect("a fixed template");
    ProgressBar::new(length).with_style(style).with_position(position)
}

impl Unfinished {
    /// What was begun earlier, if it was the same; else a new one.
    fn open(path: &Path, keyspace: &str, count: u64, csv: bool) -> anyhow::Result<Self> {
        ensure!(!path.exists(), "{} is there already; choose another file or move it away", path.display());
        let beside = |ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        let (part, order_path) = (beside(".part"), beside(".order"));
        let order = match fs::read(&order_path) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("{} was not written by `keymill fill`", order_path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                ensure!(!part.exists(), "{} is there, but not {}", part.display(), order_path.display());
                let run = run_id()?;
                let order = Order { keyspace: keyspace.to_owned(), count, csv, run };
                write_whole(&order_path, &serde_json::to_vec(&order)?)?;
                order
            }
            Err(error) => {
                return Err(error).with_context(|| format!("{} cannot be read", order_path.display()));
            }
        };
        if (order.keyspace.as_str(), order.count, order.csv) != (keyspace, count, csv) {
            let Order { keyspace, count, csv, .. } = order;
            let format = if csv { "csv" } else { "txt" };
            bail!(
                "{} was begun as {count} keys of `{keyspace}`, --format {format}; go on with that, or take away {} and {}",
                path.display(),
                part.display(),
                order_path.display()
            );
        }
        Ok(Self { path: path.to_owned(), part, order_path, order })
    }

    /// Opens the file behind its last whole chunk. Says how many keys that is.
    fn resume(&self) -> anyhow::Result<(File, u64)> {
        let unwritable = || self.unwritable();
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.part)
            .with_context(unwritable)?;
        let (keys, end) = self.whole_chunks(&file).with_context(unwritable)?;
        file.set_len(end).with_context(unwritable)?;
        file.seek(std::io::SeekFrom::End(0)).with_context(unwritable)?;
        if end == 0 && self.order.csv {
            file.write_all(HEADER.as_bytes()).with_context(unwritable)?;
        }
        Ok((file, keys))
    }

    /// How many keys are in whole chunks, and where they end.
    fn whole_chunks(&self, file: &File) -> std::io::Result<(u64, u64)> {
        let mut lines = BufReader::with_capacity(1 << 16, file);
        let header = if self.order.csv { 1 } else { 0 };
        let (mut read, mut at, mut line) = (0_u64, 0_u64, Vec::new());
        let mut whole = (0, 0);
        loop {
            line.clear();
            let bytes = lines.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                return Ok(whole);
            }
            at += bytes as u64;
            read += 1;
            if let Some(keys) = read.checked_sub(header)
                && (keys.is_multiple_of(CHUNK) || keys == self.order.count)
            {
                whole = (keys, at);
            }
        }
    }

    fn once(&self, chunk: u64) -> String {
        format!("fill-{}-{chunk}", self.order.run)
    }

    fn finish(&self, file: &File) -> anyhow::Result<()> {
        file.sync_all().with_context(|| self.unwritable())?;
        fs::rename(&self.part, &self.path)
            .with_context(|| format!("{} cannot become {}", self.part.display(), self.path.display()))?;
        fs::remove_file(&self.order_path)
            .with_context(|| format!("{} cannot be removed", self.order_path.display()))
    }

    fn unwritable(&self) -> String {
        format!("{} cannot be written", self.part.display())
    }
}

fn run_id() -> anyhow::Result<String> {
    Ok(format!("{:032x}", u128::from(getrandom::u64()?) << 64 | u128::from(getrandom::u64()?)))
}

/// On the disk whole, or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let written = || format!("{} cannot be written", path.display());
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let mut file = File::create(&name).with_context(written)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).with_context(written)?;
    fs::rename(&name, path).with_context(written)
}
