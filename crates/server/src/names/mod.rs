//! The names desk: chosen names, links and references, between the node that makes keys and the registry that
//! keeps what they point to.
//!
//! Two rules decide everything here. A name that a pool could ever spell is *withheld* from it before it is
//! granted, and the withholding grants nothing; the registry's insert-if-absent grants. So whoever comes first
//! wins, and a crash in between leaves a name that can still be had.

use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keymill_api::{Code, LinkView, Refusal, rfc3339};
use keymill_id::{Definition, KeyspaceName};
use keymill_issuer::{Node, Served, news::News};
use keymill_ledger::Timestamp;
use keymill_registry::{Entry, Registry, RegistryError, limits::NAME_MAX, rules::target::OwnHost};

use crate::config::Config;

mod alias;
mod batch;
mod bind;
mod chores;
mod derive;
mod issued;
mod known;
mod link;
mod misses;
mod receipt;
mod reference;
mod remembered;
mod resolve;
mod used;
mod visits;

pub(crate) use chores::keep;
pub(crate) use receipt::{HEADER, Once, Said};
pub(crate) use resolve::Resolved;

use misses::Misses;
use remembered::Remembered;
use visits::VisitBook;

#[derive(Debug)]
pub(crate) struct Names {
    node: Arc<Node>,
    /// `None`: names are kept nowhere.
    registry: Option<Registry>,
    remembered: Remembered,
    visits: Arc<VisitBook>,
    misses: Misses,
    pub(crate) counters: Counters,
    /// Why visits are not written down, and what has expired is not cleared away.
    unwritten: News,
    unswept: News,
    public_url: String,
    /// Hosts that lead back here.
    own_hosts: Vec<OwnHost>,
    idempotency: Duration,
    reuse_after: Duration,
    take_timeout: Duration,
    root: OnceLock<KeyspaceName>,
    /// Which of this node's lives this is.
    life: String,
}

/// What the desk did since it opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Links asked for, by what came of it.
    pub remembered: AtomicU64,
    pub found: AtomicU64,
    pub absent: AtomicU64,
    /// Content-derived keys that were taken, so that the next was tried.
    pub collisions: AtomicU64,
    /// Links and names whose time was over, cleared away.
    pub swept: AtomicU64,
    pub visits: AtomicU64,
}

impl Names {
    /// `http` is where this node answers.
    pub(crate) fn new(
        node: Arc<Node>,
        registry: Option<Registry>,
        config: &Config,
        http: SocketAddr,
    ) -> Self {
        let public_url = config.listen.public_url.trim_end_matches('/').to_owned();
        let here =
            [public_url.clone(), format!("http://{http}"), format!("http://localhost:{}", http.port())];
        let life = format!("{}-{}", std::process::id(), node.now().0);
        Self {
            node,
            registry,
            remembered: Remembered::new(config.registry.cache_entries, config.registry.cache_for.duration()),
            visits: Arc::default(),
            misses: Misses::new(config.limits.misses),
            counters: Counters::default(),
            unwritten: News::default(),
            unswept: News::default(),
            public_url,
            own_hosts: here.iter().filter_map(|url| OwnHost::of(url)).collect(),
            idempotency: config.limits.idempotency.duration(),
            reuse_after: config.registry.reuse_after.duration(),
            take_timeout: config.limits.take_timeout.duration(),
            root: OnceLock::new(),
            life,
        }
    }

    pub(crate) fn registry(&self) -> Result<&Registry, Refusal> {
        self.registry.as_ref().ok_or_else(|| {
            Refusal::new(
                Code::RegistryOff,
                "this ledger's engine keeps no names; name PostgreSQL or MariaDB in registry.url, and restart",
            )
        })
    }

    /// The registry, for the names of a keyspace: they lie there as its keys are numbered.
    async fn registry_of(&self, served: &Served) -> Result<&Registry, Refusal> {
        let registry = self.registry()?;
        registry.arrange(served.name.as_str(), &served.definition).await.map_err(refuse)?;
        Ok(registry)
    }

    /// Visits that were not counted.
    pub(crate) fn uncounted(&self) -> u64 {
        self.visits.uncounted()
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.node.now().0).unwrap_or(i64::MAX)
    }

    /// A name as it is kept: where a keyspace reads a key in several spellings, it has one.
    fn name_of<'t>(&self, served: &Served, text: &'t str) -> Cow<'t, str> {
        let spelled = match (&served.definition, served.mint(), served.digest()) {
            (_, Some(mint), _) if mint.is_lenient() => mint.canonical(text),
            (_, _, Some(digest)) if digest.is_lenient() => digest.key_of(text),
            (Definition::Free(scheme), ..) => scheme.canonical(text),
            _ => None,
        };
        match spelled {
            Some(spelled) if spelled != text => Cow::Owned(spelled),
            _ => Cow::Borrowed(text),
        }
    }

    /// The keyspace that answers `GET /{key}`. It never changes once there is one.
    pub(crate) fn root(&self) -> Option<Arc<Served>> {
        if let Some(name) = self.root.get() {
            return self.node.known(name.as_str());
        }
        let served = self.node.all_known().into_iter().find(|served| served.definition.root())?;
        let _ = self.root.set(served.name.clone());
        Some(served)
    }

    fn view(&self, served: &Served, entry: &Entry) -> LinkView {
        shown(entry, self.short_base(served).as_deref())
    }

    /// What a keyspace's keys follow in short URLs, where there are any.
    fn short_base(&self, served: &Served) -> Option<String> {
        let public_url = &self.public_url;
        match (public_url.is_empty(), served.definition.root()) {
            (true, _) => None,
            (false, true) => Some(format!("{public_url}/")),
            (false, false) => Some(format!("{public_url}/{}/", served.name)),
        }
    }
}

impl Counters {
    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn shown(entry: &Entry, short_base: Option<&str>) -> LinkView {
    LinkView {
        keyspace: entry.keyspace.clone(),
        key: entry.name.clone(),
        url: entry.target.clone().unwrap_or_default(),
        short_url: short_base.map(|base| format!("{base}{}", entry.name)),
        created_at: moment(entry.created_at_ms),
        expires_at: entry.expires_at_ms.map(moment),
        visits: entry.visits,
    }
}

fn moment(ms: i64) -> String {
    rfc3339(Timestamp(u64::try_from(ms).unwrap_or_default()))
}

/// What the registry could not do, as callers are told.
fn refuse(error: RegistryError) -> Refusal {
    match &error {
        RegistryError::Unavailable(_) | RegistryError::Unknown(_) => {
            tracing::debug!(%error, "the registry did not answer");
            Refusal::new(Code::LedgerUnavailable, "the registry cannot be reached; try again in a moment")
        }
        RegistryError::Refused(_) | RegistryError::Corrupt(_) => {
            tracing::error!(%error, "the registry failed: {error}");
            Refusal::new(Code::Internal, "the registry cannot do that; tell whoever runs this server")
        }
    }
}

/// Whether anything could be kept under such a name.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_MAX && !text.contains('\0')
}

/// Where a page starts, if that is where another one ended.
fn page_after(cursor: Option<String>) -> Result<Option<String>, Refusal> {
    match cursor {
        Some(cursor) if !is_name(&cursor) => {
            let detail = "`cursor` is not one that a page named; leave it out to start at the beginning";
            Err(Refusal::field(Code::InvalidField, "cursor", detail))
        }
        other => Ok(other),
    }
}

fn name_taken(reason: &'static str, detail: impl Into<String>) -> Refusal {
    Refusal { reason: Some(reason), ..Refusal::new(Code::NameTaken, detail) }
}
