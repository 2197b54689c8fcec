//! The data dir: who holds it, what the node is called, where it listens.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::Context;
use keymill_ledger::{FileLock, NODE_NAME_MAX, NodeName};
use serde::{Deserialize, Serialize};

use crate::serve::Listening;

#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    pub node: NodeName,
    _lock: FileLock,
}

/// `server.json`: how other commands find the server that holds this dir.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFile {
    pub pid: u32,
    pub node: String,
    /// The real addresses; a configured port may have been 0.
    pub http: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<String>,
    /// They speak TLS.
    #[serde(default)]
    pub tls: bool,
}

impl DataDir {
    /// Opens or makes the dir, locks it, and settles the node's name.
    pub(crate) fn open(path: &Path, configured: &str) -> anyhow::Result<Self> {
        // The ledger holds the shuffle secrets: for its owner alone.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).with_context(|| {
            format!("the data dir {} cannot be made; choose another with --data-dir", path.display())
        })?;
        let node = if configured.is_empty() {
            kept_name(&path.join("node"))?
        } else {
            NodeName::parse(configured).context("the setting `node` (--node)")?
        };
        let lock = FileLock::acquire(
            &path.join("LOCK"),
            &format!("the data dir {}", path.display()),
            &format!("node {node}"),
        )?;
        Ok(Self { path: path.to_owned(), node, _lock: lock })
    }

    pub(crate) fn witness(&self) -> PathBuf {
        self.path.join("witness")
    }

    pub(crate) fn announce(&self, listening: &Listening) -> anyhow::Result<()> {
        let file = ServerFile {
            pid: std::process::id(),
            node: self.node.to_string(),
            http: listening.http.to_string(),
            resp: listening.resp.map(|resp| resp.to_string()),
            admin: listening.admin.map(|admin| admin.to_string()),
            tls: listening.tls,
        };
        let path = self.path.join("server.json");
        let json = serde_json::to_string_pretty(&file).expect("plain data");
        write_whole(&path, &json).with_context(|| format!("{} cannot be written", path.display()))
    }

    pub(crate) fn withdraw(&self) {
        let _ = fs::remove_file(self.path.join("server.json"));
    }
}

impl ServerFile {
    /// Who serves from that dir, if anyone says so.
    pub fn read(data_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(data_dir.join("server.json")).ok()?).ok()
    }
}

/// The name made at the first start.
fn kept_name(path: &Path) -> anyhow::Result<NodeName> {
    if !path.exists() {
        make_name(path).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    NodeName::parse(text.trim())
        .with_context(|| format!("{} does not hold a node name; name the node with --node", path.display()))
}

/// Made if absent and read back: of two first starts at once only one gets the lock, and it must not
/// be left with the other's name.
fn make_name(path: &Path) -> anyhow::Result<()> {
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&beside, format!("{}\n", new_name()?))?;
    fs::File::open(&beside)?.sync_all()?;
    let made = fs::hard_link(&beside, path);
    fs::remove_file(&beside)?;
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// `<hostname>-<4 hex>`: two nodes on one host differ.
fn new_name() -> anyhow::Result<NodeName> {
    let mut random = [0; 2];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("no randomness to be had: {error}"))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let clean: String = host
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .skip_while(|c| *c == '-')
        .take(NODE_NAME_MAX - 5)
        .collect();
    let host = if clean.is_empty() { "node".to_owned() } else { clean };
    Ok(NodeName::parse(&format!("{host}-{:02x}{:02x}", random[0], random[1]))?)
}

/// Written beside and moved into place, so that nobody reads half of it.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    fs::write(&beside, text)?;
    fs::File::open(&beside)?.sync_all()?;
    fs::rename(&beside, path)
}
