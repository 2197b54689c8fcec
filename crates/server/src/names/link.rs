//! Links: made, shown, changed, deleted, listed.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use keymill_api::{ChangeLink, Code, LinkList, LinkView, NewLink, Refusal, expiry_ms};
use keymill_id::Definition;
use keymill_issuer::Served;
use keymill_registry::{
    Bind, Bound, Change, Changed, Deleted, Expiry, Kind, Listing, Page, TakenBy, rules::target::Target,
};

use super::{
    Names, Once, Said,
    alias::{taken, taken_by_entry},
    bind::{as_bound, gone},
    is_name, page_after,
    receipt::overtaken,
    refuse,
};
use crate::auth::Caller;

/// Keys tried for one link. Only who guesses a key before it is issued can have bound it.
const TRIES: u32 = 4;

/// A link that was read and found right, before anything is asked of anyone.
pub(super) struct Wanted {
    pub target: Target,
    pub alias: Option<String>,
    pub owner: Option<String>,
    pub expires_at_ms: Option<i64>,
}

impl Names {
    /// `POST /v1/keyspaces/{ks}/links`
    pub(crate) async fn create(
        &self,
        caller: &Caller,
        served: &Arc<Served>,
        link: NewLink,
        once: &Once,
    ) -> Result<Said, Refusal> {
        let wanted = self.wanted(served, link)?;
        if let (Definition::Digest(_), None) = (&served.definition, &wanted.alias) {
            let Wanted { target, owner, expires_at_ms, .. } = wanted;
            let nonce = once.nonce(0)?;
            let derived =
                self.derive(served, target.as_str(), owner, Some(&target), expires_at_ms, nonce).await?;
            let status = if derived.new { StatusCode::CREATED } else { StatusCode::OK };
            return self.conclude(once, Said::json(status, &self.view(served, &derived.entry))).await;
        }
        caller.charge(served, 1, || self.node.elapsed())?;
        for _ in 0..TRIES {
            let bind = match &wanted.alias {
                Some(alias) => {
                    self.refuse_known(served, alias).await?;
                    self.withhold_alias(served, alias).await?;
                    self.new_bind(served, alias.clone(), Kind::Alias, &wanted)
                }
                None => self.new_bind(served, self.take_one(served).await?, Kind::Issued, &wanted),
            };
            let name = bind.name.clone();
            let said = Said::json(StatusCode::CREATED, &self.view(served, &as_bound(&bind)));
            let bind = Bind { receipt: once.receipt(&said), ..bind };
            let bound = self.registry_of(served).await?.bind(bind).await.map_err(refuse)?;
            self.remembered.forget(served.name.as_str(), &name);
            match bound {
                Bound::New(_) => return Ok(said),
                Bound::Overtaken { answer } => return overtaken(answer.as_deref()),
                other if wanted.alias.is_some() => return Err(not_new(other, &name)),
                // Someone bound the key before it was issued: the next one.
                _ => {}
            }
        }
        Err(Refusal::new(Code::AlreadyBound, "the keys taken were all bound by someone else; try again"))
    }

    pub(crate) async fn link(&self, served: &Served, text: &str) -> Result<LinkView, Refusal> {
        let name = self.name_of(served, text);
        let entry =
            self.registry_of(served).await?.entry(served.name.as_str(), &name).await.map_err(refuse)?;
        match entry {
            Some(entry) if entry.is_gone(self.now_ms()) => Err(gone(&name)),
            Some(entry) if entry.target.is_some() => Ok(self.view(served, &entry)),
            _ => Err(no_link(&name)),
        }
    }

    pub(crate) async fn change(
        &self,
        served: &Served,
        text: &str,
        change: ChangeLink,
    ) -> Result<LinkView, Refusal> {
        let target = change.url.map(|url| self.target(served, &url)).transpose()?;
        let now = self.node.now().0;
        let expiry = match change.expires_in {
            None => Expiry::AsItIs,
            Some(stated) => expiry_ms(stated, now)?.map_or(Expiry::Never, |ms| Expiry::At(signed(ms))),
        };
        let name = self.kept_name(served, text)?;
        let changed = self
            .registry_of(served)
            .await?
            .update(Change {
                keyspace: served.name.to_string(),
                name: name.clone(),
                target: target.map(|target| target.as_str().to_owned()),
                expiry,
                at_ms: self.now_ms(),
            })
            .await
            .map_err(refuse)?;
        self.remembered.forget(served.name.as_str(), &name);
        match changed {
            Changed::Done(entry) => Ok(self.view(served, &entry)),
            Changed::Gone => Err(gone(&name)),
            Changed::NotBound => Err(no_link(&name)),
        }
    }

    pub(crate) async fn delete(&self, served: &Served, text: &str) -> Result<(), Refusal> {
        let name = self.kept_name(served, text)?;
        let at_ms = self.now_ms();
        let reusable = self.reusable_at(at_ms);
        let deleted =
            self.registry_of(served).await?.delete(served.name.as_str(), &name, at_ms, reusable).await;
        self.remembered.forget(served.name.as_str(), &name);
        match deleted.map_err(refuse)? {
            Deleted::Done => Ok(()),
            Deleted::Gone => Err(gone(&name)),
            Deleted::NotThere => Err(no_link(&name)),
        }
    }

    pub(crate) async fn list(
        &self,
        served: &Served,
        query: Option<String>,
        after: Option<String>,
        limit: usize,
    ) -> Result<LinkList, Refusal> {
        let listing = Listing {
            keyspace: served.name.to_string(),
            query: query.filter(|query| !query.is_empty()),
            after: page_after(after)?,
            live_at_ms: Some(self.now_ms()),
            limit: u32::try_from(limit).expect("a page is small"),
        };
        let Page { entries, next: next_cursor } =
            self.registry_of(served).await?.list(listing).await.map_err(refuse)?;
        let links = entries.iter().map(|entry| self.view(served, entry)).collect();
        Ok(LinkList { links, next_cursor })
    }

    /// When the name of what is gone now can be had again; `None`: never.
    pub(super) fn reusable_at(&self, at_ms: i64) -> Option<i64> {
        (self.reuse_after > Duration::ZERO).then(|| at_ms.saturating_add(ms(self.reuse_after)))
    }

    /// The name of a link that may be there.
    fn kept_name(&self, served: &Served, text: &str) -> Result<String, Refusal> {
        let name = self.name_of(served, text).into_owned();
        if is_name(&name) { Ok(name) } else { Err(no_link(&name)) }
    }

    pub(super) fn wanted(&self, served: &Served, link: NewLink) -> Result<Wanted, Refusal> {
        Ok(Wanted {
            target: self.target(served, &link.url)?,
            alias: link.alias.map(|alias| self.alias_of(served, &alias)).transpose()?,
            owner: link.owner.map(super::reference::owner).transpose()?,
            expires_at_ms: self.expiry(served, link.expires_in)?,
        })
    }

    pub(super) fn new_bind(&self, served: &Served, name: String, kind: Kind, wanted: &Wanted) -> Bind {
        Bind {
            keyspace: served.name.to_string(),
            skeleton: self.skeleton_of(served, &name).filter(|_| kind == Kind::Alias),
            name,
            kind,
            target: wanted.target.as_str().to_owned(),
            owner: wanted.owner.clone(),
            expires_at_ms: wanted.expires_at_ms,
            at_ms: self.now_ms(),
            only_new: true,
            receipt: None,
        }
    }

    pub(super) async fn refuse_known(&self, served: &Served, name: &str) -> Result<(), Refusal> {
        match self.registry_of(served).await?.entry(served.name.as_str(), name).await.map_err(refuse)? {
            Some(entry) => Err(taken_by_entry(&entry, name)),
            None => Ok(()),
        }
    }

    pub(super) async fn take_one(&self, served: &Served) -> Result<String, Refusal> {
        if let Some(key) = served.with_one(key_text) {
            return Ok(key);
        }
        let haul = served.take(1, self.take_timeout).await?;
        Ok(haul.keys().next().map(key_text).expect("a haul of one holds one"))
    }

    pub(super) fn target(&self, served: &Served, url: &str) -> Result<Target, Refusal> {
        Target::parse(url, &self.target_rules(served)).map_err(|error| {
            let code = if error.is_loop() { Code::RedirectLoop } else { Code::InvalidTarget };
            Refusal::field(code, "url", error.to_string())
        })
    }

    pub(super) fn expiry(&self, served: &Served, stated: Option<u64>) -> Result<Option<i64>, Refusal> {
        let now = self.node.now().0;
        let usual = served.settings().tuned.expires_in.map(|span| now.saturating_add(span.0));
        Ok(expiry_ms(stated, now)?.or(usual).map(signed))
    }
}

/// Keys are ASCII.
pub(super) fn key_text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

pub(super) fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn no_link(name: &str) -> Refusal {
    Refusal::new(Code::KeyNotFound, format!("`{}` leads nowhere; bind it with PUT", name.escape_debug()))
}

pub(super) fn not_new(bound: Bound, name: &str) -> Refusal {
    match bound {
        Bound::LookAlike { name: other } => taken(&TakenBy::LookAlike { name: other }, name),
        Bound::New(entry) | Bound::Same(entry) | Bound::AlreadyBound(entry) => taken_by_entry(&entry, name),
        Bound::Gone | Bound::Overtaken { .. } => taken(&TakenBy::Tombstone, name),
    }
}
