//! Where a ledger is looked after: through the server that holds it, or in the store itself.

use std::{
    net::TcpStream,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};
use keymill_ledger::{Ledger, SqliteStore, StoreOptions, Timestamp};
use keymill_server::{
    ServerFile,
    config::{Layers, LedgerUrl},
    ledgers,
};

use crate::{
    args::{Global, Which},
    client::Client,
};

pub(super) enum Place {
    Server(Box<Client>),
    Store {
        ledger: Arc<dyn Ledger>,
        /// Where the witness of the node lies that cannot report by itself meanwhile.
        data_dir: Option<PathBuf>,
    },
}

/// What to do about a ledger that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    Refused,
    Made,
}

impl Place {
    pub(super) fn open(global: &Global, which: &Which, absent: Absent) -> anyhow::Result<Self> {
        let data_dir = which.data_dir.clone();
        let running = data_dir.as_deref().and_then(ServerFile::read).filter(is_alive);
        let url = match (&which.ledger, &data_dir) {
            _ if global.server.is_some() || running.is_some() => None,
            (Some(url), _) => Some(configured(url)?.0),
            (None, Some(dir)) => Some(LedgerUrl::Sqlite(dir.join("keymill.db"))),
            (None, None) => None,
        };
        let file = match url {
            None => return Ok(Self::Server(Box::new(Client::for_admin(global, data_dir.as_deref())?))),
            Some(LedgerUrl::Sqlite(file)) => file,
            Some(LedgerUrl::Shared(url)) => {
                let (_, mut options) = configured(url.reveal())?;
                // To look after a ledger is no reason to make or change tables, or to refuse what it runs on.
                options.create = absent == Absent::Made;
                options.migrate &= options.create;
                options.lossy_accepted = true;
                return Ok(Self::Store { ledger: ledgers::open(&url, options)?, data_dir });
            }
        };
        let beside = file.parent().map(Path::to_owned).unwrap_or_default();
        if !file.exists() {
            if absent == Absent::Refused {
                bail!("there is no ledger at {}", file.display());
            }
            // As a server makes it: for its owner alone.
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&beside);
            made.with_context(|| format!("{} cannot be made", beside.display()))?;
        }
        // Only a new ledger takes the id.
        let id = ledgers::new_id().context("no randomness to be had")?;
        let (ledger, _) = SqliteStore::open_ledger(&file, "a keymill command", id, now())?;
        Ok(Self::Store { ledger, data_dir: Some(data_dir.unwrap_or(beside)) })
    }
}

/// Which store a URL names, and what it is opened with: the environment says the rest, as it does to a server.
pub(super) fn configured(url: &str) -> anyhow::Result<(LedgerUrl, StoreOptions)> {
    let mut layers = Layers::default();
    layers.environment(std::env::vars());
    layers.flag("--ledger", "ledger.url", Some(url));
    let (config, _) = layers.finish()?;
    let id = ledgers::new_id().context("no randomness to be had")?;
    Ok((config.ledger_url()?, ledgers::options(&config.ledger, true, id, now())))
}

/// A server that died may have left its file behind.
fn is_alive(file: &ServerFile) -> bool {
    let address = file.http.parse();
    address.is_ok_and(|address| TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok())
}

pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
