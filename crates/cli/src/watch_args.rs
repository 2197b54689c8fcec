//! What can be said to `keymill watch`.

use std::path::PathBuf;

use clap::Args;
use keymill_issuer::quantity::{Mark, Span};
use keymill_watch::{SinkKind, SinkSettings};

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// What to look at: a server (http://…), a Redis list or set (redis://HOST/0?key=NAME&type=list), or a table
    /// (postgres://…/DB?table=NAME, mysql://…); else the usual server.
    #[arg(long, env = "KEYMILL_TARGET", hide_env_values = true, value_name = "URL")]
    pub target: Option<String>,
    /// Only this keyspace of a server; repeat for several. All that have marks unless said.
    #[arg(long = "keyspace", value_name = "NAME")]
    pub keyspaces: Vec<String>,
    /// Below this level, and not recovering, the command is run: keys (20M) or the time they last (2h). A server's
    /// keyspaces have marks of their own unless said.
    #[arg(long, value_name = "MARK", requires = "restart_command")]
    pub restart_below: Option<Mark>,
    /// Below this level the sinks are told.
    #[arg(long, value_name = "MARK")]
    pub page_below: Option<Mark>,
    /// Starts the filler anew; run by sh, with KEYMILL_KEYSPACE set. Three times in ten minutes at most, then the
    /// sinks are told.
    #[arg(long, value_name = "CMD")]
    pub restart_command: Option<String>,
    /// The command is killed after this long.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub restart_timeout: Span,
    /// How often to look; 5s unless a config says.
    #[arg(long, value_name = "TIME")]
    pub interval: Option<String>,
    /// Whom to tell: alertmanager=URL or webhook=URL; repeat for several.
    #[arg(long = "sink", value_name = "TYPE=URL", value_parser = sink)]
    pub sinks: Vec<SinkSettings>,
    /// The JSON body for the webhooks named by --sink, with places such as {{summary}}.
    #[arg(long, value_name = "FILE", requires = "sinks")]
    pub template: Option<PathBuf>,
    /// Asked at every look while all is well and measured; its silence is an alarm.
    #[arg(long, value_name = "URL")]
    pub heartbeat_url: Option<String>,
    /// A config file whose [watch] to use.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Look once, print what was found, and exit with 1 if anything is wrong.
    #[arg(long)]
    pub once: bool,
}

fn sink(text: &str) -> Result<SinkSettings, String> {
    let (kind, url) = text.split_once('=').ok_or("it is not alertmanager=URL or webhook=URL")?;
    let kind = match kind {
        "alertmanager" => SinkKind::Alertmanager,
        "webhook" => SinkKind::Webhook,
        other => return Err(format!("`{}` is neither alertmanager nor webhook", other.escape_debug())),
    };
    Ok(SinkSettings { kind, url: url.to_owned(), template: String::new() })
}
