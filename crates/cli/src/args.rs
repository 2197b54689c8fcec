//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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
    /// Print completions for a shell.
    #[command(after_help = "Example:
  keymill completions bash > /etc/bash_completion.d/keymill")]
    Completions { shell: clap_complete::Shell },
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

#[derive(Debug, Args)]
pub(crate) struct CreateKeyspace {
    pub name: String,
    /// pool, sequence, snowflake, uuid4, uuid7 or ulid.
    #[arg(long)]
    pub scheme: String,
    /// Answer GET /{key} from this keyspace; one keyspace of a ledger may.
    #[arg(long)]
    pub root: bool,
    /// base62 base58 base56 base36 crockford32 base64url decimal or custom:SYMBOLS.
    #[arg(long)]
    pub alphabet: Option<String>,
    /// Symbols without prefix and check character.
    #[arg(long)]
    pub length: Option<u32>,
    /// shuffled or sequential.
    #[arg(long)]
    pub order: Option<String>,
    /// What every key starts with.
    #[arg(long)]
    pub prefix: Option<String>,
    /// Append a check character.
    #[arg(long)]
    pub check: bool,
    /// Words never to spell, with commas; or `default`.
    #[arg(long)]
    pub blocklist: Option<String>,
    /// Go on with longer keys when these are used up.
    #[arg(long)]
    pub grow: bool,
    /// virtual.
    #[arg(long)]
    pub store: Option<String>,
    /// A sequence's first ticket.
    #[arg(long)]
    pub offset: Option<String>,
    /// The distance between a sequence's tickets.
    #[arg(long)]
    pub step: Option<String>,
    /// A snowflake's layout: default twitter sonyflake js53 regional, or fields from the top bit down.
    #[arg(long)]
    pub layout: Option<String>,
    /// How long a tick lasts, such as 10ms.
    #[arg(long)]
    pub tick: Option<String>,
    /// Where a snowflake's time starts, such as 2026-01-01T00:00:00Z.
    #[arg(long)]
    pub epoch: Option<String>,
    /// The region that IDs carry.
    #[arg(long)]
    pub region: Option<u32>,
    #[command(flatten)]
    pub tuning: Tuning,
}

#[derive(Debug, Args)]
pub(crate) struct Tuning {
    /// How long a node's stock lasts without the ledger, such as 60s.
    #[arg(long)]
    pub outage_budget: Option<String>,
    /// The least a node holds, such as 1024 or 10K.
    #[arg(long)]
    pub stock_min: Option<String>,
    /// The most a node holds, such as 100M.
    #[arg(long)]
    pub stock_max: Option<String>,
    /// Worker ids a node holds at a time.
    #[arg(long)]
    pub workers: Option<u16>,
    /// When the clock goes back: wait, logical or fail.
    #[arg(long)]
    pub on_rollback: Option<String>,
    /// How long to wait for it.
    #[arg(long)]
    pub rollback_wait: Option<String>,
    /// When a tick is used up: wait or borrow.
    #[arg(long)]
    pub on_overflow: Option<String>,
    /// A tick's sequence starts in 0..=this.
    #[arg(long)]
    pub sequence_start: Option<u32>,
    /// How long a worker stays a node's without a word.
    #[arg(long)]
    pub lease_ttl: Option<String>,
    /// How long a worker rests before another node may have it.
    #[arg(long)]
    pub recycle_delay: Option<String>,
    /// How far the clock may jump ahead.
    #[arg(long)]
    pub forward_max: Option<String>,
    /// Keys a second that each node lets out, such as 5000 or 50K.
    #[arg(long)]
    pub rate_limit: Option<String>,
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
