//! What `keymill import`, `keymill export` and `keymill audit` take.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// Put keys that were made elsewhere, such as vouchers, into a row pool.
    #[command(
        after_help = "One key a line, or the first column of a CSV file. Keys that the pool could make itself it
will not make again. Run it again after a break: what is in already is known, and changes nothing.

Examples:
  keymill import keys --keyspace vouchers vouchers.txt
  keymill import keys --keyspace vouchers --header vouchers.csv --rejects rejects.csv"
    )]
    Keys(ImportKeys),
    /// Withhold the codes of an older system, so that no pool ever issues them.
    #[command(
        after_help = "One code a line, or the first column of a CSV file. Run it again after a break: what is
withheld already is known, and changes nothing.

Examples:
  keymill import used --keyspace links codes.txt
  keymill import used --keyspace links --header old-links.csv --rejects rejects.csv"
    )]
    Used(ImportUsed),
    /// Give every ID of an older system a key; the same ID always has the same one.
    #[command(
        after_help = "The first column of a CSV file is the older ID. Each becomes a line `older ID,key`. Run it
again after a break: IDs that have a key keep it.

Examples:
  keymill import legacy --keyspace orders orders.csv > orders-with-keys.csv
  keymill import legacy --keyspace orders --header orders.csv --out keys.csv --rejects rejects.csv"
    )]
    Legacy(ImportLegacy),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// Write down which key every ID of an older system has.
    #[command(after_help = "Examples:
  keymill export legacy --keyspace orders > keys.csv
  keymill export legacy --keyspace orders --format jsonl --out keys.jsonl")]
    Legacy(ExportLegacy),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Write down who reserved which numbers, how far they were issued, and when; newest first.
    #[command(after_help = "Examples:
  keymill audit export links > claims.csv
  keymill audit export links --format jsonl --out claims.jsonl
  keymill audit export invoices --keys > issued.csv")]
    Export(AuditExport),
}

#[derive(Debug, Args)]
pub(crate) struct AuditExport {
    #[arg(value_name = "KS")]
    pub keyspace: String,
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    pub format: Format,
    /// Every key, when it left and from which node, where each is written down (`audit = "key"`).
    #[arg(long)]
    pub keys: bool,
    /// Where it is written, once all is there; else stdout.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// A file and what is special about it.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    #[arg(long, value_name = "KS")]
    pub keyspace: String,
    /// The file, or - for standard input.
    pub file: PathBuf,
    /// The first line names the columns, and is passed over.
    #[arg(long)]
    pub header: bool,
    /// Where lines that cannot be used are written, with their number and the reason; else stderr.
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportKeys {
    #[command(flatten)]
    pub source: SourceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportUsed {
    #[command(flatten)]
    pub source: SourceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportLegacy {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Where `older ID,key` is written, once all is done; else stdout.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportLegacy {
    #[arg(long, value_name = "KS")]
    pub keyspace: String,
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    pub format: Format,
    /// Where it is written, once all is there; else stdout.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Values between commas.
    Csv,
    /// An object a line.
    Jsonl,
}
