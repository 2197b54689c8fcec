//! The handle: opens the tables when they are first needed, and carries out operations on them.

use std::{collections::HashMap, fmt, sync::Arc};

use keymill_id::Definition;
use keymill_sql::{Database, Schema, SqlError, Version};
use tokio::sync::OnceCell;

use crate::{
    Attempt, BatchReceipt, Begun, Bind, Bound, Change, Changed, Claim, Claimed, Deleted, Derive, Derived,
    Entry, Finished, Kind, Listing, Marked, NewReference, Page, Receipt, Record, Recorded, Reference,
    Referred, RegistryError, Swept, VisitSum, Visits,
    batch::Caution,
    ops,
    ops::{On, Operation},
    order::{BY_NAME, Order},
    schema,
    tables::Tables,
    together::{Question, Together},
};

/// A handle; clones share their connections. Time comes in with each request, in Unix milliseconds.
#[derive(Clone)]
pub struct Registry {
    opening: Arc<Opening>,
}

struct Opening {
    database: Database,
    migrate: bool,
    ready: OnceCell<Arc<Tables>>,
    /// `None`: the engine is in this process, where a look-up is no journey, and it commits together whatever waits
    /// together.
    crowds: Option<Crowds>,
}

/// Those who ask one thing of an engine over the wire at once.
struct Crowds {
    finds: Arc<Together<ops::Find>>,
    binds: Arc<Together<Bind>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("database", &self.opening.database).finish_non_exhaustive()
    }
}

impl Registry {
    /// Touches nothing yet. The first use looks at the tables and, if it may `migrate`, makes or renews them.
    pub fn new(database: Database, migrate: bool) -> Self {
        let crowds = database.timeout().map(|patience| Crowds {
            finds: Together::new(&database, patience),
            binds: Together::new(&database, patience),
        });
        Self { opening: Arc::new(Opening { database, migrate, ready: OnceCell::new(), crowds }) }
    }

    /// Brings the tables to this version, whether or not a first use may, and tells the version they had.
    pub async fn migrate(&self) -> Result<Version, RegistryError> {
        let prefix = self.opening.prefix();
        Ok(schema(&prefix).migrate(&self.opening.database).await?)
    }

    /// Lets the names of a keyspace lie as this definition numbers them, unless they lie in some order already: then that
    /// stays. To be said before anything else of the keyspace; where it is not, its names lie by name.
    pub async fn arrange(&self, keyspace: &str, definition: &Definition) -> Result<(), RegistryError> {
        let tables = self.ready().await?;
        if tables.known_orders.knows(keyspace) {
            return Ok(());
        }
        self.learn_order(&tables, keyspace, || Order::stored(definition)).await
    }

    /// The entry as it is kept, gone or not; see [`Entry::is_gone`]. One look-up by primary key.
    pub async fn entry(&self, keyspace: &str, name: &str) -> Result<Option<Entry>, RegistryError> {
        let find = ops::Find { keyspace: keyspace.to_owned(), name: name.to_owned() };
        match &self.opening.crowds {
            Some(crowds) => self.ask(&crowds.finds, find).await,
            None => self.run(find).await,
        }
    }

    /// Grants a chosen name that is bound to nothing yet.
    pub async fn claim(&self, claim: Claim) -> Result<Claimed, RegistryError> {
        self.run(claim).await
    }

    /// Binds a name to its target. The first bind wins, for ever.
    pub async fn bind(&self, bind: Bind) -> Result<Bound, RegistryError> {
        match &self.opening.crowds {
            // Names that people chose go alone: two nodes may be asked for one at once, and who waits for the other's
            // lock would let others wait.
            Some(crowds) if bind.kind == Kind::Issued && bind.is_bare() => {
                self.ask(&crowds.binds, bind).await
            }
            _ => self.run(bind).await,
        }
    }

    /// Binds many in one transaction; answers in their order. Of two for one name in a batch the first wins.
    /// If another attempt took over, each of them is [`Bound::Overtaken`].
    pub async fn bind_all(
        &self,
        binds: Vec<Bind>,
        receipt: Option<BatchReceipt>,
    ) -> Result<Vec<Bound>, RegistryError> {
        self.run(ops::BindAll { binds, receipt, caution: Caution::default() }).await
    }

    /// The one key of some content: the one it has, or the first candidate that is free.
    pub async fn derive(&self, derive: Derive) -> Result<Derived, RegistryError> {
        self.run(derive).await
    }

    /// Changes where a bound name leads, or for how long.
    pub async fn update(&self, change: Change) -> Result<Changed, RegistryError> {
        self.run(change).await
    }

    /// Leaves a tombstone, which keeps the name from everyone until `reusable_at_ms`, or for ever.
    pub async fn delete(
        &self,
        keyspace: &str,
        name: &str,
        at_ms: i64,
        reusable_at_ms: Option<i64>,
    ) -> Result<Deleted, RegistryError> {
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        self.run(ops::Delete { keyspace, name, at_ms, reusable_at_ms }).await
    }

    /// A page of entries: names that spell no key by name, then the others by their numbers.
    pub async fn list(&self, listing: Listing) -> Result<Page, RegistryError> {
        self.run(listing).await
    }

    /// The key of a reference.
    pub async fn reference(
        &self,
        keyspace: &str,
        owner: Option<&str>,
        reference: &str,
    ) -> Result<Option<String>, RegistryError> {
        let owner = owner.map(str::to_owned);
        self.run(ops::FindReference { keyspace: keyspace.to_owned(), owner, reference: reference.to_owned() })
            .await
    }

    /// The keys of many references, each with its owner; answers in their order.
    pub async fn references_of(
        &self,
        keyspace: &str,
        references: Vec<(Option<String>, String)>,
    ) -> Result<Vec<Option<String>>, RegistryError> {
        self.run(ops::FindReferences { keyspace: keyspace.to_owned(), references }).await
    }

    /// Gives a reference its key, unless it has one: then that is the answer.
    pub async fn refer(&self, new: NewReference) -> Result<Referred, RegistryError> {
        self.run(new).await
    }

    /// Many at once; answers in their order. Of two equal references in a batch the first gives the key.
    pub async fn refer_all(&self, new: Vec<NewReference>) -> Result<Vec<Referred>, RegistryError> {
        self.run(ops::ReferAll { new, caution: Caution::default() }).await
    }

    /// What leads to a key, the first [`REFERENCES_SHOWN`](crate::limits::REFERENCES_SHOWN).
    pub async fn references_to(&self, keyspace: &str, key: &str) -> Result<Vec<Reference>, RegistryError> {
        self.run(ops::ReferencesTo { keyspace: keyspace.to_owned(), key: key.to_owned() }).await
    }

    /// A page of all references, in an order of their own; `after` is the last one's
    /// [`cursor`](Reference::cursor).
    pub async fn references(
        &self,
        keyspace: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Reference>, RegistryError> {
        let after = after.map(str::to_owned);
        self.run(ops::References { keyspace: keyspace.to_owned(), after, limit }).await
    }

    /// Keeps names that were in use before Keymill came from everyone. Says what became of each.
    pub async fn mark_used(
        &self,
        keyspace: &str,
        names: Vec<String>,
        at_ms: i64,
    ) -> Result<Vec<Marked>, RegistryError> {
        self.run(ops::MarkUsed { keyspace: keyspace.to_owned(), names, at_ms, caution: Caution::default() })
            .await
    }

    /// Writes keys down that are about to leave: all of them, or none if one is there already.
    pub async fn record(&self, record: Record) -> Result<(), RegistryError> {
        self.run(record).await
    }

    /// A page of the keys that were written down, from the start or behind one of them.
    pub async fn recorded(
        &self,
        keyspace: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Recorded>, RegistryError> {
        let after = after.map(str::to_owned);
        self.run(ops::FindIssued { keyspace: keyspace.to_owned(), after, limit }).await
    }

    /// Begins an attempt at a request that may be sent more than once.
    pub async fn begin(&self, attempt: Attempt) -> Result<Begun, RegistryError> {
        self.run(attempt).await
    }

    /// Keeps the answer of an attempt whose effect is not in the registry.
    pub async fn finish(&self, receipt: Receipt) -> Result<Finished, RegistryError> {
        self.run(receipt).await
    }

    /// The request was refused: a retry starts afresh.
    pub async fn abandon(&self, scope: &str, attempt: &str) -> Result<(), RegistryError> {
        self.run(ops::Abandon { scope: scope.to_owned(), attempt: attempt.to_owned() }).await
    }

    /// Makes tombstones of what has expired, and deletes tombstones and receipts whose time is over: at most
    /// `batch` entries and `batch` receipts. The new tombstones keep their names from everyone until
    /// `reusable_at_ms`, or for ever.
    pub async fn sweep(
        &self,
        at_ms: i64,
        batch: u32,
        reusable_at_ms: Option<i64>,
    ) -> Result<Swept, RegistryError> {
        let (expired, freed) = self.run(ops::SweepNames { at_ms, batch, reusable_at_ms }).await?;
        let receipts = self.run(ops::SweepReceipts { at_ms, batch }).await?;
        Ok(Swept { expired, freed, receipts })
    }

    /// A sum for each name, in the order the names lie in.
    pub async fn sum_visits(&self, visits: Vec<Visits>) -> Result<Vec<VisitSum>, RegistryError> {
        let tables = self.ready().await?;
        let mut orders = HashMap::new();
        for Visits { keyspace, .. } in &visits {
            if !orders.contains_key(keyspace.as_str()) {
                self.know_order(&tables, keyspace).await?;
                orders.insert(keyspace.clone(), tables.order(keyspace));
            }
        }
        let sum = |Visits { keyspace, name, count }: Visits| {
            let place = orders[&keyspace].place(&name);
            VisitSum { keyspace, place, name, sum: count.into() }
        };
        let mut sums: Vec<VisitSum> = visits.into_iter().map(sum).collect();
        sums.sort_unstable_by(|a, b| (&a.keyspace, a.place, &a.name).cmp(&(&b.keyspace, b.place, &b.name)));
        sums.dedup_by(|next, first| {
            let is_same = (&next.keyspace, &next.name) == (&first.keyspace, &first.name);
            first.sum += if is_same { next.sum } else { 0 };
            is_same
        });
        Ok(sums)
    }

    /// Adds to visit counts; names that are unknown or deleted are passed over.
    pub async fn add_visits(&self, sums: Vec<VisitSum>) -> Result<(), RegistryError> {
        self.run(ops::AddVisits { sums }).await
    }

    /// The prefix of the tables, and where they are.
    #[cfg(feature = "conformance")]
    pub(crate) fn tables_of(&self) -> (String, &Database) {
        (self.opening.prefix(), &self.opening.database)
    }

    async fn run<O: Operation>(&self, operation: O) -> Result<O::Answer, RegistryError> {
        operation.check()?;
        let tables = self.ready().await?;
        self.learn_orders(&tables, &operation).await?;
        Ok(self.opening.database.run(On { tables, operation }).await?)
    }

    async fn ask<Q: Question>(
        &self,
        crowd: &Arc<Together<Q>>,
        question: Q,
    ) -> Result<Q::Answer, RegistryError> {
        question.check()?;
        let tables = self.ready().await?;
        self.learn_orders(&tables, &question).await?;
        Ok(crowd.ask(&tables, question).await?)
    }

    /// How names lie has to be known before they can be looked for.
    async fn learn_orders<O: Operation>(
        &self,
        tables: &Arc<Tables>,
        operation: &O,
    ) -> Result<(), RegistryError> {
        for keyspace in operation.keyspaces() {
            self.know_order(tables, keyspace).await?;
        }
        Ok(())
    }

    async fn know_order(&self, tables: &Arc<Tables>, keyspace: &str) -> Result<(), RegistryError> {
        if tables.known_orders.knows(keyspace) {
            return Ok(());
        }
        self.learn_order(tables, keyspace, || BY_NAME.to_owned()).await
    }

    /// In transactions of its own: what is learned must be committed. `new` is the order of a keyspace that has none.
    async fn learn_order(
        &self,
        tables: &Arc<Tables>,
        keyspace: &str,
        new: impl FnOnce() -> String,
    ) -> Result<(), RegistryError> {
        let find = ops::FindOrder { keyspace: keyspace.to_owned() };
        find.check()?;
        let database = &self.opening.database;
        let stored = match database.run(On { tables: tables.clone(), operation: find }).await? {
            Some(stored) => stored,
            None => {
                let operation = ops::Arrange { keyspace: keyspace.to_owned(), stored: new() };
                let arranged = database.run(On { tables: tables.clone(), operation }).await;
                arranged.map_err(|error| match error {
                    // Whether or not it is arranged: nothing was done of what the caller asked for.
                    SqlError::Unknown(said) => SqlError::Unavailable(said),
                    other => other,
                })?
            }
        };
        tables.known_orders.learn(keyspace, Order::read(keyspace, &stored)?);
        Ok(())
    }

    /// Opened by a task of its own: a caller who gives up does not undo what takes longer than it waits.
    async fn ready(&self) -> Result<Arc<Tables>, RegistryError> {
        if let Some(tables) = self.opening.ready.get() {
            return Ok(tables.clone());
        }
        let opening = self.opening.clone();
        let opened =
            tokio::spawn(async move { opening.ready.get_or_try_init(|| opening.open()).await.cloned() });
        let stopped = |_| RegistryError::Unavailable("this process is stopping".to_owned());
        opened.await.map_err(stopped)?
    }
}

impl Opening {
    /// Beside the ledger's tables, and with a version of their own.
    fn prefix(&self) -> String {
        format!("{}_registry", self.database.table_prefix())
    }

    async fn open(&self) -> Result<Arc<Tables>, RegistryError> {
        let prefix = self.prefix();
        let schema = schema(&prefix);
        let version = schema.version(&self.database).await?;
        if !version.is_current() && !self.migrate {
            return Err(RegistryError::Refused(format!(
                "its tables `{prefix}_…` have version {} and this program wants {}; run `keymill ledger migrate`, \
                 or set ledger.migrate = true",
                version.found, version.known
            )));
        }
        if !version.is_current() {
            schema.migrate(&self.database).await?;
        }
        Ok(Arc::new(Tables::new(&prefix)))
    }
}

fn schema(prefix: &str) -> Schema<'_> {
    Schema { prefix, steps: schema::STEPS }
}
