//! Keys made from content: the hash proposes, the registry decides.

use std::sync::atomic::Ordering;

use keymill_api::{Code, Refusal};
use keymill_id::{Definition, NONCE_LENGTH};
use keymill_issuer::{IssueError, Served};
use keymill_registry::{
    Bind, Bound, Derive, Derived, Entry,
    rules::{canonical::canonical, target::Target},
};

use super::{Names, bind::gone, refuse};

/// Proposals that are tried before the space counts as full.
const PROPOSALS: usize = 64;

pub(super) struct Made {
    pub entry: Entry,
    pub new: bool,
}

impl Names {
    /// The one key of `content` in a digest keyspace.
    pub(super) async fn derive(
        &self,
        served: &Served,
        content: &str,
        owner: Option<String>,
        target: Option<&Target>,
        expires_at_ms: Option<i64>,
        nonce: [u8; NONCE_LENGTH],
    ) -> Result<Made, Refusal> {
        self.node.refuse_unless_serving()?;
        if served.is_retired() {
            return Err(IssueError::Retired.into());
        }
        let target = target.map(|target| target.as_str().to_owned());
        let derive = self.proposals(served, content, owner, &nonce)?;
        let derive = Derive { target, expires_at_ms, ..derive };
        let full = || {
            let detail = format!(
                "the first {PROPOSALS} keys for this content are all taken; the keyspace is nearly full: create one \
                 with longer keys"
            );
            Refusal::new(Code::Exhausted, detail)
        };
        let (made, collisions) =
            match self.registry_of(served).await?.derive(derive.clone()).await.map_err(refuse)? {
                Derived::New { entry, collisions } => (Ok(Made { entry, new: true }), collisions),
                Derived::Known { entry } => (self.bind_known(derive, entry).await, 0),
                Derived::Exhausted { collisions } => (Err(full()), collisions),
                Derived::Gone => (Err(gone("the key of this content")), 0),
                Derived::Overtaken { .. } => (Err(full()), 0),
            };
        self.counters.collisions.fetch_add(collisions.into(), Ordering::Relaxed);
        let made = made?;
        self.remembered.forget(served.name.as_str(), &made.entry.name);
        Ok(made)
    }

    /// Content that has a key, as a reference, and leads nowhere yet: now it does.
    async fn bind_known(&self, derive: Derive, entry: Entry) -> Result<Made, Refusal> {
        let (None, Some(target)) = (&entry.target, derive.target) else {
            return Ok(Made { entry, new: false });
        };
        let Derive { keyspace, owner, expires_at_ms, at_ms, .. } = derive;
        let (name, kind) = (entry.name, entry.kind);
        let (skeleton, only_new, receipt) = (None, false, None);
        let bind =
            Bind { keyspace, name, kind, target, owner, expires_at_ms, at_ms, skeleton, only_new, receipt };
        match self.registry()?.bind(bind).await.map_err(refuse)? {
            Bound::New(entry) => Ok(Made { entry, new: true }),
            Bound::Same(entry) | Bound::AlreadyBound(entry) => Ok(Made { entry, new: false }),
            Bound::Gone | Bound::LookAlike { .. } | Bound::Overtaken { .. } => {
                Err(gone("the key of this content"))
            }
        }
    }

    /// The key that `content` has, if it has one.
    pub(super) async fn derived(
        &self,
        served: &Served,
        content: &str,
        owner: Option<String>,
    ) -> Result<Option<String>, Refusal> {
        let derive = self.proposals(served, content, owner, &[0; NONCE_LENGTH])?;
        // Without a proposal nothing can be granted.
        let derive = Derive { candidates: Vec::new(), ..derive };
        match self.registry_of(served).await?.derive(derive).await.map_err(refuse)? {
            Derived::Known { entry } => Ok(Some(entry.name)),
            Derived::Gone => Err(gone("the key of this content")),
            Derived::New { .. } | Derived::Exhausted { .. } | Derived::Overtaken { .. } => Ok(None),
        }
    }

    /// What the content is, and the keys it may have.
    fn proposals(
        &self,
        served: &Served,
        content: &str,
        owner: Option<String>,
        nonce: &[u8; NONCE_LENGTH],
    ) -> Result<Derive, Refusal> {
        let (Definition::Digest(definition), Some(digest)) = (&served.definition, served.digest()) else {
            return Err(Refusal::new(Code::Internal, "only content has a digest"));
        };
        let content = canonical(content, definition.canonical())
            .map_err(|error| Refusal::field(Code::InvalidField, "ref", error.to_string()))?;
        let subject = digest
            .subject(content.as_bytes(), owner.as_deref(), nonce)
            .map_err(|error| Refusal::field(Code::InvalidField, "owner", error.to_string()))?;
        Ok(Derive {
            keyspace: served.name.to_string(),
            identity: subject.identity().to_string(),
            candidates: subject.candidates().take(PROPOSALS).collect(),
            target: None,
            owner,
            expires_at_ms: None,
            at_ms: self.now_ms(),
            receipt: None,
        })
    }
}
