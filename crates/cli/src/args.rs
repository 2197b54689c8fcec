//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{
    fill_args::Fill,
    import_args::{Audit, Export, Import},
    keyspace_args::{CreateKeyspace, Tuning},
    watch_args::Watch,
};

/// Unique keys and IDs, served from memory.
#[derive(Debug, Parser)]
#[command(
    name = "keymill",
    version,
    max_term_width = 100,
    after_help = "Examples:
  keymill serve                          start a server on ./keymill-data
  keymill take links                     one key
  keymill take tickets -n 5              five tickets
  keymill inspect links aZ3k9Qp          what became of a key
  keymill keyspace create promo --scheme pool --alphabet base36 --length 8
  keymill plan --rate 1000 --years 10    how long keys must be"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// The server to ask; several with commas, the first that answers is used.
    #[arg(long, global = true, env = "KEYMILL_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// A file that holds the token to show; else KEYMILL_TOKEN.
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Authorities, in PEM, to trust instead of the machine's when a server is asked by https.
    #[arg(long, global = true, env = "KEYMILL_TLS_CA", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Our own certificate, in PEM, for servers that want to see one.
    #[arg(long, global = true, env = "KEYMILL_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, global = true, env = "KEYMILL_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Print the API's JSON instead of text.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server.
    #[command(after_help = "Examples:
  keymill serve
  keymill serve --http 127.0.0.1:0 --data-dir /var/lib/keymill
  keymill serve --config keymill.toml --check     print the settings and where each came from")]
    Serve(Serve),
    /// Take keys from a keyspace.
    #[command(after_help = "Examples:
  keymill take links
  keymill take links -n 100000 > keys.txt")]
    Take {
        keyspace: String,
        /// How many.
        #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
    },
    /// Say what became of a key.
    #[command(after_help = "Examples:
  keymill inspect links aZ3k9Qp
  keymill inspect links -- -starts-with-a-dash")]
    Inspect { keyspace: String, key: String },
    /// Say what an ID means by itself, without a server.
    #[command(after_help = "Examples:
  keymill decode 1541815603606036480
  keymill decode 1541815603606036480 --layout twitter
  keymill decode 017f22e2-79b0-7cc3-98c4-dc0c0c07398f
  keymill decode --at 2026-06-01T12:00:00Z        the first and last ID of a moment")]
    Decode {
        /// A snowflake ID, a UUID or a ULID.
        #[arg(required_unless_present = "at", conflicts_with = "at")]
        id: Option<String>,
        /// A preset (default twitter discord instagram sonyflake js53 regional wide) or fields.
        #[arg(long)]
        layout: Option<String>,
        /// RFC 3339 or Unix milliseconds.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// Create, list, show, tune or retire keyspaces.
    #[command(subcommand)]
    Keyspace(Keyspace),
    /// Look after the ledger.
    #[command(subcommand)]
    Ledger(Ledger),
    /// Say who may do what.
    #[command(subcommand)]
    Token(Token),
    /// How long must keys be? Capacity, runway, guessing and collisions.
    #[command(after_help = "Examples:
  keymill plan
  keymill plan --rate 50000 --years 5 --alphabet base36
  keymill plan --length 6")]
    Plan(Plan),
    /// Take keys as fast as a server gives them, and report rate and latency.
    #[command(after_help = "Examples:
  keymill bench
  keymill bench tickets --clients 50 --seconds 10 --count 100")]
    Bench(Bench),
    /// Fill a row pool now, or take keys into a file.
    #[command(
        after_help = "Both can be ended and begun again with the same command: no key comes twice, and none is
left out.

Examples:
  keymill fill codes
  keymill fill codes --count 20M
  keymill fill codes --count 100000 --out codes.csv --format csv"
    )]
    Fill(Fill),
    /// Bring in what an older system made.
    #[command(subcommand)]
    Import(Import),
    /// Write down what an older system's IDs became.
    #[command(subcommand)]
    Export(Export),
    /// Say who reserved what.
    #[command(subcommand)]
    Audit(Audit),
    /// Look after levels from outside: restart a filler, call someone, beat while all is well.
    #[command(after_help = "Examples:
  keymill watch --sink alertmanager=http://127.0.0.1:9093 --heartbeat-url https://hc.example/abc
  keymill watch --once --json
  keymill watch --target 'redis://127.0.0.1/0?key=links' --restart-below 20M --page-below 10M \\
      --restart-command 'systemctl restart filler' --sink webhook=https://hooks.example/x --template page.json
  keymill watch --target 'postgres://app@db/app?table=available_keys' --page-below 2h --once")]
    Watch(Box<Watch>),
    /// Say whether a server has keys to give; exit with 1 if it has not. No token is needed.
    #[command(after_help = "Examples:
  keymill ready
  keymill ready --server https://keys.example && deploy")]
    Ready,
    /// Keyspaces, nodes, workers and incidents in a terminal, live.
    #[command(after_help = "Examples:
  keymill top
  keymill top --filter promo
  keymill top --once                     one look, for a pipe or a ticket

Keys: Tab panes, arrows PageUp PageDown Home End scroll, / filter, Esc clear, q quit.")]
    Top(Top),
    /// Print completions for a shell.
    #[command(after_help = "Example:
  keymill completions bash > /etc/bash_completion.d/keymill")]
    Completions { shell: clap_complete::Shell },
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print what there is now, and exit; so does a run without a terminal.
    #[arg(long)]
    pub once: bool,
    /// Only keyspaces whose names hold this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub filter: String,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The config file; else ./keymill.toml if there is one.
    #[arg(long, env = "KEYMILL_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the embedded ledger, the node's name and its witness live.
    #[arg(long, env = "KEYMILL_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Where HTTP listens.
    #[arg(long, env = "KEYMILL_HTTP", value_name = "ADDRESS:PORT")]
    pub http: Option<String>,
    /// Where the Redis protocol listens, or off.
    #[arg(long, env = "KEYMILL_RESP", value_name = "ADDRESS:PORT")]
    pub resp: Option<String>,
    /// Where the ledger is.
    #[arg(long, env = "KEYMILL_LEDGER", value_name = "URL")]
    pub ledger: Option<String>,
    /// This node's name.
    #[arg(long, env = "KEYMILL_NODE", value_name = "NAME")]
    pub node: Option<String>,
    /// Print every setting and where it came from, and do not start.
    #[arg(long)]
    pub check: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keyspace {
    /// Create a keyspace; one that exists with equal fields is fine.
    #[command(after_help = "Examples:
  keymill keyspace create promo --scheme pool --alphabet base36 --length 8
  keymill keyspace create orders --scheme sequence --offset 1000
  keymill keyspace create codes --scheme pool --alphabet crockford32 --length 10 --check --blocklist default")]
    Create(Box<CreateKeyspace>),
    /// List keyspaces.
    List,
    /// Show one keyspace.
    Show { name: String },
    /// Change what may change: `keymill keyspace tune promo --outage-budget 5m`.
    Tune {
        name: String,
        #[command(flatten)]
        tuning: Box<Tuning>,
    },
    /// Take a keyspace out of service, for ever.
    Retire { name: String },
}

/// Which ledger: a server's, a shared engine's, or a file that no server holds.
#[derive(Debug, Clone, Args)]
pub(crate) struct Which {
    /// The data dir: its server is asked if one runs, else the file is opened.
    #[arg(long, env = "KEYMILL_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Open this ledger instead of asking a server.
    #[arg(long, env = "KEYMILL_LEDGER", value_name = "URL")]
    pub ledger: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Ledger {
    /// Who the ledger is, how it fares, where its cursors are.
    Show {
        #[command(flatten)]
        which: Which,
    },
    /// Lift a halted ledger above everything its nodes remember.
    #[command(after_help = "Examples:
  keymill ledger advance --dry-run
  keymill ledger advance --yes
  keymill ledger advance --yes --without old-node-1a2b --skip 5000000")]
    Advance {
        #[command(flatten)]
        which: Which,
        /// Say what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// A node that is gone for good and cannot report; repeat for several.
        #[arg(long, value_name = "NODE", requires = "skip")]
        without: Vec<String>,
        /// Numbers to skip on every track for each such node: more than it can have reserved since.
        #[arg(long, value_name = "N", requires = "without")]
        skip: Option<u64>,
    },
    /// Create the tables of a PostgreSQL or MySQL ledger, or bring them up to date.
    Migrate {
        /// The ledger's URL.
        #[arg(long, env = "KEYMILL_LEDGER", value_name = "URL")]
        ledger: String,
    },
    /// Write a stamped copy; it serves only after `advance`.
    Backup {
        file: PathBuf,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token; it is printed once and can never be read again.
    #[command(after_help = "Examples:
  keymill token create --name admin --scope admin,inspect,take --data-dir ./keymill-data    the first one
  keymill token create --name checkout --scope take --keyspace 'promo*' --rate 5000
  keymill token create --name audit --scope inspect --expires-in 90d > audit.token")]
    Create(CreateToken),
    /// List tokens, without their secrets.
    List {
        #[command(flatten)]
        which: Which,
    },
    /// Accept a token no longer, on any node.
    Revoke {
        id: String,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateToken {
    /// Whose it is, or what it is for.
    #[arg(long)]
    pub name: String,
    /// take, inspect, name, admin; several with commas.
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',')]
    pub scopes: Vec<String>,
    /// The keyspaces it is for, all unless said; * stands for anything, repeat for several.
    #[arg(long = "keyspace", value_name = "PATTERN", value_delimiter = ',')]
    pub keyspaces: Vec<String>,
    /// How long it is accepted, such as 90d; for ever unless said.
    #[arg(long)]
    pub expires_in: Option<String>,
    /// Keys a second it may take from each node, such as 5000 or 5K.
    #[arg(long)]
    pub rate: Option<String>,
    #[command(flatten)]
    pub which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Keys a second.
    #[arg(long, default_value_t = 1000.0)]
    pub rate: f64,
    /// How long they must last.
    #[arg(long, default_value_t = 10.0)]
    pub years: f64,
    #[arg(long, default_value = "base62")]
    pub alphabet: String,
    /// Plan for this length instead of finding one.
    #[arg(long)]
    pub length: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[arg(default_value = "links")]
    pub keyspace: String,
    #[arg(long, default_value_t = 16)]
    pub clients: usize,
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Keys a request.
    #[arg(long, default_value_t = 1)]
    pub count: u32,
}
