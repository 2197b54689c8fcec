//! A node: one process on a ledger, the keyspaces it serves and how it fares.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use keymill_id::{Definition, KeyspaceName, Mint, Number, ROUTE_WORDS, Scheme, Secret, Stated};
use keymill_ledger::{
    HoleKind, KeyspaceRow, Ledger, LedgerError, LedgerId, NodeName, Timestamp, TokenRow, Track,
    ops::{self, CreateKeyspace, Reserved, Withheld},
};
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::Instant,
};

use crate::{
    clock::Clock,
    error::IssueError,
    histogram::Histogram,
    key_log::KeyLog,
    lifecycle,
    milled::Hopper,
    news::News,
    own::Own,
    pen::Pen,
    quantity::Span,
    refill,
    rowed::RowPools,
    served::{Served, Settings},
    tuning::{Audit, Tuning},
    witness::Witness,
    worker,
};

/// How long an unknown name stays unknown without asking the ledger again.
const MISS_FOR: Duration = Duration::from_secs(1);
/// Unknown names remembered at a time.
const MISSES_MAX: usize = 10_000;
/// Look-ups of unknown names under way at a time; a ledger that is stuck holds no more callers than these.
const LOOKUPS_MAX: usize = 64;

/// What a node needs to run.
#[derive(Debug)]
pub struct NodeSettings {
    pub name: NodeName,
    pub region: Option<u16>,
    /// How often the node writes its heartbeat.
    pub heartbeat: Duration,
    /// How long one write may take.
    pub timeout: Duration,
    /// `limits.keyspaces`
    pub keyspaces_max: u64,
    /// `limits.waiting_takes`: callers that may wait for keys of one keyspace.
    pub waiting_takes: usize,
    /// Created if absent before the node serves; defined otherwise in the ledger, the node must not start. Their
    /// tuning wins over the ledger's.
    pub wanted: Vec<Wanted>,
    /// Created too in a ledger that never had a keyspace, so that there is something to try.
    pub if_empty: Vec<Wanted>,
    /// The ledgers of other regions, as they answered at start.
    pub elsewhere: Vec<Elsewhere>,
    /// What heartbeats say of this node.
    pub version: String,
    pub address: String,
    /// Lanes of an unordered keyspace's shelf: one per core.
    pub lanes: usize,
    /// What opens the rows of pools whose keys lie in Redis or in SQL tables.
    pub row_pools: Arc<dyn RowPools>,
    /// Where keys are written down one by one, for keyspaces that want it.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

/// What tells a ledger from others, for as long as it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerIdentity {
    pub id: LedgerId,
    pub region: Option<u16>,
}

/// A ledger that is not this node's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Where it was asked.
    pub at: String,
    pub ledger: LedgerId,
    pub region: u16,
}

/// A keyspace that ought to exist.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub name: KeyspaceName,
    pub stated: Stated,
    pub tuning: Tuning,
}

/// How a node fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// Not registered yet; `why` once the ledger could not be reached.
    Starting {
        why: Option<String>,
    },
    Serving,
    Halted {
        reason: String,
    },
    Draining,
    /// It must not go on: fenced, or its disk failed.
    Dead {
        reason: String,
    },
}

/// Why a keyspace could not be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error(transparent)]
    Definition(#[from] keymill_id::DefinitionError),
    #[error("keyspace `{name}` is defined otherwise in the ledger: {}", spell(conflicts))]
    Conflict { name: KeyspaceName, conflicts: Vec<keymill_id::Conflict> },
    #[error("{message}")]
    Tuning { field: &'static str, message: String },
    #[error("keyspace `{name}` is retired, and a retired name is never used again")]
    Retired { name: KeyspaceName },
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Node(#[from] IssueError),
}

fn spell(conflicts: &[keymill_id::Conflict]) -> String {
    let spelled = conflicts
        .iter()
        .map(|conflict| format!("{} is {} there, {} here", conflict.field, conflict.stored, conflict.stated));
    spelled.collect::<Vec<_>>().join("; ")
}

/// Retired ones are in it too, closed.
pub(crate) type Keyspaces = HashMap<KeyspaceName, Arc<Served>>;

#[derive(Debug)]
pub struct Node {
    pub(crate) pen: Pen,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: NodeSettings,
    /// What this node's config says of keyspaces now.
    pub(crate) own: ArcSwap<Own>,
    pub(crate) state: watch::Sender<NodeState>,
    pub(crate) keyspaces: ArcSwap<Keyspaces>,
    /// Held while the map of keyspaces is changed.
    pub(crate) editing: tokio::sync::Mutex<()>,
    /// Keyspaces that were changed here since they were all last read: what was read of them may be older.
    edited: Mutex<HashSet<KeyspaceName>>,
    misses: Mutex<HashMap<KeyspaceName, Instant>>,
    lookups: Semaphore,
    pub(crate) hopper: Hopper,
    /// Wakes the supervisor out of its heartbeat's pause.
    pub(crate) nudge: Notify,
    pub(crate) failures: AtomicU32,
    /// What keeps a halted ledger from going on.
    pub(crate) halted: News,
    /// The ledger's `changes` when the keyspaces were last read.
    pub(crate) changes: AtomicU64,
    /// Once we know it.
    pub(crate) identity: Mutex<Option<LedgerIdentity>>,
    /// What the clock should say.
    expected: Mutex<Expected>,
    /// It served when it was told to stop, so there is something to give back.
    pub(crate) was_serving: AtomicBool,
    reserves: Reserves,
}

/// A time that was believed, and when that was.
#[derive(Debug, Clone, Copy)]
struct Expected {
    wall: Timestamp,
    elapsed: Duration,
}

impl Expected {
    fn at(self, elapsed: Duration) -> Timestamp {
        let passed = elapsed.saturating_sub(self.elapsed).as_millis();
        self.wall.after(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

/// What the ledger costs us.
#[derive(Debug, Default)]
pub struct Reserves {
    pub durations: Histogram,
    pub failed: AtomicU64,
}

impl Node {
    /// Starts a node; it registers in the background and says in [`state`](Self::state) how that went.
    pub fn start(
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        witness: Witness,
        mut settings: NodeSettings,
    ) -> std::io::Result<Arc<Self>> {
        let (hopper, milling) = mpsc::channel();
        let own = Own::of(std::mem::take(&mut settings.wanted));
        let expected = Expected { wall: clock.wall(), elapsed: clock.elapsed() };
        let node = Arc::new(Self {
            pen: Pen::new(
                ledger,
                clock.clone(),
                settings.name.clone(),
                settings.region,
                settings.timeout,
                witness,
            ),
            clock,
            settings,
            own: ArcSwap::from_pointee(own),
            state: watch::channel(NodeState::Starting { why: None }).0,
            keyspaces: ArcSwap::default(),
            editing: tokio::sync::Mutex::default(),
            edited: Mutex::default(),
            misses: Mutex::default(),
            lookups: Semaphore::new(LOOKUPS_MAX),
            hopper,
            nudge: Notify::new(),
            failures: AtomicU32::new(0),
            halted: News::default(),
            changes: AtomicU64::new(0),
            identity: Mutex::default(),
            expected: Mutex::new(expected),
            was_serving: AtomicBool::new(false),
            reserves: Reserves::default(),
        });
        let runtime = tokio::runtime::Handle::current();
        refill::start_mill(milling, Arc::downgrade(&node), runtime)?;
        tokio::spawn(lifecycle::supervise(Arc::downgrade(&node)));
        tokio::spawn(lifecycle::observe(Arc::downgrade(&node)));
        Ok(node)
    }

    pub fn name(&self) -> &NodeName {
        self.pen.node()
    }

    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        self.pen.ledger()
    }

    /// Whose ledger it is; `None` until it took this node in.
    pub fn ledger_identity(&self) -> Option<LedgerIdentity> {
        self.identity.lock().expect(UNBROKEN).clone()
    }

    pub fn pen(&self) -> &Pen {
        &self.pen
    }

    pub fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    /// Since the node was started; for what is counted by the second.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    pub fn state(&self) -> watch::Receiver<NodeState> {
        self.state.subscribe()
    }

    /// Whether the last ledger write that was tried succeeded.
    pub fn ledger_answers(&self) -> bool {
        self.failures.load(Ordering::Relaxed) == 0
    }

    /// Looks at the ledger now instead of at the next heartbeat.
    pub fn look_again(&self) {
        self.nudge.notify_one();
    }

    /// How many milliseconds `now` is ahead of what it should be, if that is more than `most`: judged by
    /// the ledger's clock, or by our own as it was and the time that passed since.
    pub(crate) fn clock_ahead(&self, now: Timestamp, most: Span) -> Option<u64> {
        let expected = self.expected.lock().expect(UNBROKEN).at(self.clock.elapsed());
        let ahead = now.since(expected);
        (ahead > most.0).then_some(ahead)
    }

    /// The ledger said what time it is. A clock of its own is believed; one that is ours is believed only
    /// while it agrees with the time that passed, or a jump would vouch for itself.
    pub(crate) fn heard_time(&self, ledger: Timestamp, own_clock: bool) {
        const DRIFT_MS: u64 = 1_000;
        let elapsed = self.clock.elapsed();
        let mut expected = self.expected.lock().expect(UNBROKEN);
        let before = expected.at(elapsed);
        if own_clock || ledger.0.abs_diff(before.0) <= DRIFT_MS || ledger < before {
            *expected = Expected { wall: ledger, elapsed };
        }
    }

    pub fn reserves(&self) -> &Reserves {
        &self.reserves
    }

    /// The keyspace of that name, if this node knows it already: the path of a take.
    #[inline]
    pub fn known(&self, name: &str) -> Option<Arc<Served>> {
        self.keyspaces.load().get(name).cloned()
    }

    /// The keyspace of that name; one that another node created costs one look in the ledger.
    pub async fn keyspace(self: &Arc<Self>, name: &str) -> Result<Arc<Served>, IssueError> {
        if let Some(served) = self.known(name) {
            return Ok(served);
        }
        self.refuse_unless_serving()?;
        let Ok(name) = KeyspaceName::parse(name) else { return Err(IssueError::KeyspaceNotFound) };
        if self.misses.lock().expect(UNBROKEN).get(&name).is_some_and(|until| Instant::now() < *until) {
            return Err(IssueError::KeyspaceNotFound);
        }
        let _seat = self.lookups.try_acquire().map_err(|_| IssueError::Overloaded)?;
        let found = self.ledger().keyspace(ops::Keyspace { name: name.clone() }).await;
        match found.map_err(|error| IssueError::from_ledger(&error))? {
            Some(row) => {
                self.admit(&row).await?;
                self.known(name.as_str()).ok_or(IssueError::KeyspaceNotFound)
            }
            None => {
                let mut misses = self.misses.lock().expect(UNBROKEN);
                if misses.len() >= MISSES_MAX {
                    misses.clear();
                }
                misses.insert(name, Instant::now() + MISS_FOR);
                Err(IssueError::KeyspaceNotFound)
            }
        }
    }

    /// Every keyspace this node knows, retired ones too.
    pub fn all_known(&self) -> Vec<Arc<Served>> {
        self.keyspaces.load().values().cloned().collect()
    }

    pub fn refuse_unless_serving(&self) -> Result<(), IssueError> {
        match &*self.state.borrow() {
            NodeState::Serving => Ok(()),
            NodeState::Starting { .. } => Err(IssueError::Starting),
            NodeState::Halted { reason } => Err(IssueError::LedgerHalted(reason.clone())),
            NodeState::Draining | NodeState::Dead { .. } => Err(IssueError::Draining),
        }
    }

    /// Creates a keyspace, or finds that it exists as stated. Says whether it was created.
    pub async fn create_keyspace(
        self: &Arc<Self>,
        name: &KeyspaceName,
        stated: &Stated,
        tuning: &Tuning,
    ) -> Result<(KeyspaceRow, bool), CreateError> {
        self.refuse_unless_serving()?;
        let (row, created) = self.establish(name, stated, tuning).await?;
        self.misses.lock().expect(UNBROKEN).remove(name);
        self.admit(&row).await?;
        Ok((row, created))
    }

    /// Why the keys of such a keyspace cannot be written down one by one, if they cannot.
    pub fn key_log_problem(&self, definition: &Definition) -> Option<&'static str> {
        match definition {
            Definition::Digest(_) => Some(
                "`audit = \"key\"` is for keys that are taken; what a digest made is listed with its links and refs",
            ),
            _ if self.settings.key_log.is_none() => Some(
                "`audit = \"key\"` needs a database for its rows, and this ledger's engine keeps none; name PostgreSQL or \
                 MariaDB in registry.url, and restart",
            ),
            _ => None,
        }
    }

    /// Writes a keyspace into the ledger, or finds that it stands there as stated.
    pub(crate) async fn establish(
        &self,
        name: &KeyspaceName,
        stated: &Stated,
        tuning: &Tuning,
    ) -> Result<(KeyspaceRow, bool), CreateError> {
        if let Some((field, message)) = tuning.contradiction() {
            return Err(CreateError::Tuning { field, message });
        }
        let stated = &self.in_region(stated)?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|_| IssueError::Internal)?;
        let definition = Definition::resolve(&stated.clone().named(name), Secret::from_bytes(secret))?;
        if tuning.audit == Some(Audit::Key)
            && let Some(message) = self.key_log_problem(&definition)
        {
            return Err(CreateError::Tuning { field: "audit", message: message.to_owned() });
        }
        if let Definition::Snowflake(snowflake) = &definition {
            let (layout, now) = (snowflake.layout(), self.now().0);
            let wrong = |field, reason: &str| {
                let reason = reason.to_owned();
                Err(keymill_id::DefinitionError::Invalid { field, reason }.into())
            };
            if layout.ends_at_ms() <= now {
                return wrong(
                    "layout",
                    "its time is over; use more time bits, a longer tick or a later epoch",
                );
            }
            if layout.epoch_ms() > now {
                return wrong("epoch", "it lies in the future; IDs would carry a time that has not come");
            }
        }
        let withheld = if definition.root() { routes(&definition) } else { Vec::new() };
        let serde_json::Value::Object(tuning) = serde_json::to_value(tuning).expect("tuning is plain data")
        else {
            unreachable!("a struct is an object")
        };
        let created = self
            .pen
            .create_keyspace(|stamp| CreateKeyspace {
                stamp,
                name: name.clone(),
                definition: definition.to_stored_json(),
                fingerprint: definition.fingerprint(),
                tuning,
                root: definition.root(),
                withheld,
                limit: self.settings.keyspaces_max,
            })
            .await
            .inspect_err(|error| self.note(error, "create"))?;
        // What counts is what the ledger holds, whoever wrote it.
        let kept = Definition::from_stored_json(&created.row.definition)?;
        let conflicts = kept.conflicts(stated);
        if !conflicts.is_empty() {
            return Err(CreateError::Conflict { name: name.clone(), conflicts });
        }
        if created.row.retired {
            return Err(CreateError::Retired { name: name.clone() });
        }
        Ok((created.row, created.created))
    }

    /// Time-ordered IDs are of the ledger's region, where their layout has room for one.
    fn in_region(&self, stated: &Stated) -> Result<Stated, CreateError> {
        let mut stated = stated.clone();
        let Some(kept) = self.ledger_identity().and_then(|identity| identity.region) else {
            return Ok(stated);
        };
        if stated.scheme != Some(Scheme::Snowflake) {
            return Ok(stated);
        }
        match Definition::resolve(&stated, Secret::from_bytes([0; Secret::LENGTH]))? {
            Definition::Snowflake(snowflake) if snowflake.layout().regions() > 1 => match stated.region {
                None => stated.region = Some(kept.into()),
                Some(region) if region != u32::from(kept) => {
                    let stated = u16::try_from(region).unwrap_or(u16::MAX);
                    return Err(LedgerError::RegionConflict { kept, stated }.into());
                }
                Some(_) => {}
            },
            _ => {}
        }
        Ok(stated)
    }

    /// Changes a keyspace's tuning in the ledger, and here at once.
    pub async fn tune_keyspace(
        self: &Arc<Self>,
        name: &KeyspaceName,
        tuning: serde_json::Map<String, serde_json::Value>,
    ) -> Result<KeyspaceRow, LedgerError> {
        let row = self.pen.tune_keyspace(name, tuning).await.inspect_err(|error| self.note(error, "tune"))?;
        let _ = self.admit(&row).await;
        Ok(row)
    }

    /// Makes holes in a keyspace, so that its pool never issues these numbers. Grants nothing.
    pub async fn withhold(
        &self,
        served: &Served,
        numbers: Vec<Number>,
        kind: HoleKind,
    ) -> Result<Vec<Withheld>, LedgerError> {
        let withheld = self.pen.withhold(&Track::of(served.name.clone()), numbers, kind).await;
        let ops::Withholding { outcomes, before, after } =
            withheld.inspect_err(|error| self.note(error, "withhold"))?;
        served.revised(before, after);
        Ok(outcomes)
    }

    /// Retires a keyspace, for ever.
    pub async fn retire_keyspace(self: &Arc<Self>, name: &KeyspaceName) -> Result<KeyspaceRow, LedgerError> {
        let row = self.pen.retire_keyspace(name).await.inspect_err(|error| self.note(error, "retire"))?;
        let _ = self.admit(&row).await;
        Ok(row)
    }

    pub async fn put_token(&self, token: TokenRow) -> Result<(), LedgerError> {
        self.pen.put_token(token).await.inspect_err(|error| self.note(error, "put_token"))
    }

    /// Says whether there was such a token.
    pub async fn revoke_token(&self, id: String) -> Result<bool, LedgerError> {
        self.pen.revoke_token(id).await.inspect_err(|error| self.note(error, "revoke_token"))
    }

    /// Begins to serve what the ledger says, or stops to: one entry of the map changes.
    async fn admit(self: &Arc<Self>, row: &KeyspaceRow) -> Result<(), IssueError> {
        let _editing = self.editing.lock().await;
        let mut keyspaces = Keyspaces::clone(&self.keyspaces.load());
        self.refuse_unless_serving()?;
        self.enter(&mut keyspaces, row)?;
        self.edited.lock().expect(UNBROKEN).insert(row.name.clone());
        self.keyspaces.store(Arc::new(keyspaces));
        Ok(())
    }

    fn enter(self: &Arc<Self>, keyspaces: &mut Keyspaces, row: &KeyspaceRow) -> Result<(), IssueError> {
        let settings = self.settings_of(row);
        if let Some(served) = keyspaces.get(&row.name) {
            served.tune(settings);
            if row.retired {
                served.retire(self.now());
            }
            return Ok(());
        }
        let definition = Definition::from_stored_json(&row.definition).map_err(|error| {
            tracing::error!(keyspace = %row.name, %error, "keyspace `{}` cannot be read: {error}", row.name);
            IssueError::Internal
        })?;
        if definition.fingerprint() != row.fingerprint {
            tracing::error!(keyspace = %row.name, "keyspace `{}` does not match its fingerprint", row.name);
            return Err(IssueError::Internal);
        }
        let served = Arc::new(Served::new(row, definition, settings, self)?);
        if row.retired {
            served.retire(self.now());
        } else {
            if let Some(timed) = served.timed() {
                tokio::spawn(worker::keep(Arc::downgrade(self), timed.clone()));
            }
            // Warm before the first caller comes.
            served.warm();
        }
        keyspaces.insert(row.name.clone(), served);
        Ok(())
    }

    fn settings_of(&self, row: &KeyspaceRow) -> Settings {
        let ledger = serde_json::from_value(row.tuning.clone().into()).unwrap_or_else(|error| {
            tracing::warn!(keyspace = %row.name, %error, "tuning in the ledger cannot be read; defaults are used");
            Tuning::default()
        });
        let (none, own) = (Tuning::default(), self.own.load());
        let own = own.tuning.get(&row.name).unwrap_or(&none);
        Settings { tuned: own.over(&ledger), places: own.places_over(&ledger) }
    }

    /// Reads all keyspaces from the ledger and serves what is new.
    pub(crate) async fn reload(self: &Arc<Self>, changes: u64) -> Result<(), LedgerError> {
        self.edited.lock().expect(UNBROKEN).clear();
        let rows = self.ledger().keyspaces().await?;
        let _editing = self.editing.lock().await;
        let edited = std::mem::take(&mut *self.edited.lock().expect(UNBROKEN));
        let mut keyspaces = Keyspaces::clone(&self.keyspaces.load());
        for row in rows.iter().filter(|row| !edited.contains(&row.name)) {
            // One that cannot be read was logged, and must not keep the others from being served.
            let _ = self.enter(&mut keyspaces, row);
        }
        self.keyspaces.store(Arc::new(keyspaces));
        // Otherwise the next heartbeat reads them again.
        if edited.is_empty() {
            self.changes.store(changes, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) async fn reserve(
        &self,
        track: &Track,
        at_least: Number,
        count: std::num::NonZeroU64,
        ceiling: Number,
    ) -> Result<Reserved, LedgerError> {
        let begun = self.clock.elapsed();
        let reserved = self.pen.reserve(track, at_least, count, ceiling).await;
        self.reserves.durations.record(self.clock.elapsed().saturating_sub(begun));
        match &reserved {
            Ok(_) => self.note_success(),
            Err(_) => {
                self.reserves.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        reserved
    }

    /// A write succeeded: whatever was wrong with the ledger is over.
    pub(crate) fn note_success(&self) {
        if self.failures.swap(0, Ordering::Relaxed) > 0 {
            tracing::info!("the ledger answers again");
        }
    }

    /// Draws the consequence of a failed write.
    pub(crate) fn note(&self, error: &LedgerError, doing: &'static str) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        match error {
            LedgerError::Halted { reason } => {
                self.set_state(NodeState::Halted { reason: reason.clone() });
                self.nudge.notify_one();
            }
            LedgerError::Fenced { .. } | LedgerError::Broken { .. } => {
                self.set_state(NodeState::Dead { reason: error.to_string() });
                self.nudge.notify_one();
            }
            LedgerError::Corrupt { .. } | LedgerError::Refused { .. } => {
                tracing::error!(doing, %error, "{error}")
            }
            // Once, not at every retry.
            _ if error.is_transient() && failures == 0 => tracing::warn!(doing, %error, "{error}; retrying"),
            _ => {}
        }
    }

    /// How long to wait before the ledger is asked again.
    pub(crate) fn pause(&self) -> Duration {
        refill::pause_after(self.failures.load(Ordering::Relaxed), refill::chance())
    }

    /// Death is final, and a stop is not undone by a late heartbeat.
    pub(crate) fn set_state(&self, to: NodeState) {
        let changed = self.state.send_if_modified(|state| {
            let stays = match (&*state, &to) {
                (NodeState::Dead { .. }, _) => true,
                (NodeState::Draining, NodeState::Dead { .. }) => false,
                (NodeState::Draining, _) => true,
                (now, to) => now == to,
            };
            if !stays {
                *state = to.clone();
            }
            !stays
        });
        if changed {
            match &to {
                NodeState::Halted { reason } => {
                    tracing::error!(reason, "the ledger is halted: {reason}; see `keymill ledger show`");
                }
                NodeState::Dead { reason } => tracing::error!(reason, "this node must stop: {reason}"),
                _ => {}
            }
        }
    }
}

/// Route words that a pool could spell, as numbers. A digest leaves them out by itself.
fn routes(definition: &Definition) -> Vec<Number> {
    if !matches!(definition, Definition::Pool(_)) {
        return Vec::new();
    }
    let mint = Mint::compile(definition);
    ROUTE_WORDS.iter().filter_map(|word| mint.number_of(word)).collect()
}

const UNBROKEN: &str = "nothing panics while it holds this";
