//! Links: made, shown, changed, deleted, listed.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use keymill_api::{
    BATCH_MAX, ChangeLink, Code, LinkList, LinkOutcome, LinkOutcomes, LinkView, NewLink, Refusal, expiry_ms,
};
use keymill_id::Definition;
use keymill_issuer::Served;
use keymill_registry::{
    Bind, Bound, Change, Changed, Deleted, Expiry, Kind, Listing, Page, rules::target::Target,
};

use super::{
    Names, Once, Said,
    alias::{Standing, standing, taken_by_entry},
    bind::{as_bound, gone},
    is_name, name_taken, page_after,
    receipt::overtaken,
    refuse,
};
use crate::auth::Caller;
use keymill_ledger::HoleKind;

/// Keys tried for one link. Only who guesses a key before it is issued can have bound it.
const TRIES: u32 = 4;

/// A link that was read and found right, before anything is asked of anyone.
struct Wanted {
    target: Target,
    alias: Option<String>,
    owner: Option<String>,
    expires_at_ms: Option<i64>,
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
            let derived =
                self.derive(served, target.as_str(), owner, Some(&target), expires_at_ms, once).await?;
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
            let bound = self.registry()?.bind(bind).await.map_err(refuse)?;
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

    /// `POST /v1/keyspaces/{ks}/links/batch`: one transaction for all that can be had.
    pub(crate) async fn create_all(
        &self,
        caller: &Caller,
        served: &Arc<Served>,
        links: Vec<NewLink>,
        once: &Once,
    ) -> Result<Said, Refusal> {
        if links.len() > BATCH_MAX {
            let detail = format!("`links` holds {}, and at most {BATCH_MAX} go at once", links.len());
            return Err(Refusal::field(Code::InvalidField, "links", detail));
        }
        let mut outcomes: Vec<Option<LinkOutcome>> = Vec::new();
        outcomes.resize_with(links.len(), || None);
        let mut wanted = Vec::new();
        for (index, link) in links.into_iter().enumerate() {
            match self.wanted(served, link) {
                Ok(link) => wanted.push((index, link)),
                Err(refusal) => outcomes[index] = Some(problem(&refusal)),
            }
        }
        let made = if matches!(served.definition, Definition::Digest(_)) {
            self.derive_all(served, wanted, once).await?
        } else {
            self.bind_all(caller, served, wanted).await?
        };
        for (index, outcome) in made {
            outcomes[index] = Some(outcome.map_or_else(|refusal| problem(&refusal), LinkOutcome::Link));
        }
        let links = outcomes.into_iter().flatten().collect();
        self.conclude(once, Said::json(StatusCode::OK, &LinkOutcomes { links })).await
    }

    async fn derive_all(
        &self,
        served: &Arc<Served>,
        wanted: Vec<(usize, Wanted)>,
        once: &Once,
    ) -> Result<Vec<(usize, Result<LinkView, Refusal>)>, Refusal> {
        let mut made = Vec::new();
        for (index, Wanted { target, alias, owner, expires_at_ms }) in wanted {
            let link = match alias {
                Some(_) => Err(Refusal::field(
                    Code::InvalidField,
                    "alias",
                    "`alias` does not go with a batch of a digest; make that link by itself",
                )),
                None => self
                    .derive(served, target.as_str(), owner, Some(&target), expires_at_ms, once)
                    .await
                    .map(|derived| self.view(served, &derived.entry)),
            };
            made.push((index, link));
        }
        Ok(made)
    }

    async fn bind_all(
        &self,
        caller: &Caller,
        served: &Arc<Served>,
        wanted: Vec<(usize, Wanted)>,
    ) -> Result<Vec<(usize, Result<LinkView, Refusal>)>, Refusal> {
        let mut made = Vec::new();
        let (named, unnamed): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|(_, wanted)| wanted.alias.is_some());
        let (mut places, mut binds) = (Vec::new(), Vec::new());
        let standings = self.standings(served, &named).await?;
        for ((index, wanted), standing) in named.into_iter().zip(standings) {
            let alias = wanted.alias.clone().unwrap_or_default();
            match self.refuse_standing(served, &alias, standing).await {
                Ok(()) => {
                    places.push(index);
                    binds.push(self.new_bind(served, alias, Kind::Alias, &wanted));
                }
                Err(refusal) => made.push((index, Err(refusal))),
            }
        }
        let count = u32::try_from(unnamed.len()).expect("a batch is small");
        if count > 0 {
            caller.charge(served, count, || self.node.elapsed())?;
            let haul = served.take(count, self.take_timeout).await?;
            for ((index, wanted), key) in unnamed.into_iter().zip(haul.keys()) {
                places.push(index);
                binds.push(self.new_bind(served, key_text(key), Kind::Issued, &wanted));
            }
        }
        let names: Vec<String> = binds.iter().map(|bind| bind.name.clone()).collect();
        let bound = self.registry()?.bind_all(binds).await.map_err(refuse)?;
        for ((index, name), bound) in places.into_iter().zip(names).zip(bound) {
            self.remembered.forget(served.name.as_str(), &name);
            let link = match bound {
                Bound::New(entry) => Ok(self.view(served, &entry)),
                other => Err(not_new(other, &name)),
            };
            made.push((index, link));
        }
        Ok(made)
    }

    /// Says of a name that the pool has passed what has it now. The others are looked for when they are bound.
    async fn refuse_standing(
        &self,
        served: &Arc<Served>,
        name: &str,
        standing: Standing,
    ) -> Result<(), Refusal> {
        if standing == Standing::Withheld {
            return Ok(());
        }
        self.refuse_known(served, name).await?;
        self.refuse_unless_withheld(served, name, standing).await
    }

    /// Withholds all chosen names of a batch at once.
    async fn standings(&self, served: &Served, named: &[(usize, Wanted)]) -> Result<Vec<Standing>, Refusal> {
        self.node.refuse_unless_serving()?;
        let number_of = |(_, wanted): &(usize, Wanted)| served.mint()?.number_of(wanted.alias.as_deref()?);
        let numbers: Vec<_> = named.iter().map(number_of).collect();
        let spelled: Vec<_> = numbers.iter().copied().flatten().collect();
        if spelled.is_empty() {
            return Ok(vec![Standing::Withheld; named.len()]);
        }
        let withheld = self.node.withhold(served, spelled, HoleKind::Alias).await;
        let mut withheld = withheld.map_err(|error| Refusal::from(&error))?.into_iter();
        let each = |number: &Option<_>| match number {
            Some(_) => withheld.next().map_or(Standing::Taken, standing),
            None => Standing::Withheld,
        };
        Ok(numbers.iter().map(each).collect())
    }

    pub(crate) async fn link(&self, served: &Served, text: &str) -> Result<LinkView, Refusal> {
        let name = self.name_of(served, text);
        let entry = self.registry()?.entry(served.name.as_str(), &name).await.map_err(refuse)?;
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
            .registry()?
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
        let reusable =
            (self.reuse_after > Duration::ZERO).then(|| at_ms.saturating_add(ms(self.reuse_after)));
        let deleted = self.registry()?.delete(served.name.as_str(), &name, at_ms, reusable).await;
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
        let Page { entries, next: next_cursor } = self.registry()?.list(listing).await.map_err(refuse)?;
        let links = entries.iter().map(|entry| self.view(served, entry)).collect();
        Ok(LinkList { links, next_cursor })
    }

    /// The name of a link that may be there.
    fn kept_name(&self, served: &Served, text: &str) -> Result<String, Refusal> {
        let name = self.name_of(served, text).into_owned();
        if is_name(&name) { Ok(name) } else { Err(no_link(&name)) }
    }

    fn wanted(&self, served: &Served, link: NewLink) -> Result<Wanted, Refusal> {
        Ok(Wanted {
            target: self.target(served, &link.url)?,
            alias: link.alias.map(|alias| self.alias_of(served, &alias)).transpose()?,
            owner: link.owner.map(super::reference::owner).transpose()?,
            expires_at_ms: self.expiry(served, link.expires_in)?,
        })
    }

    fn new_bind(&self, served: &Served, name: String, kind: Kind, wanted: &Wanted) -> Bind {
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

    async fn refuse_known(&self, served: &Served, name: &str) -> Result<(), Refusal> {
        match self.registry()?.entry(served.name.as_str(), name).await.map_err(refuse)? {
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

fn problem(refusal: &Refusal) -> LinkOutcome {
    LinkOutcome::Problem(refusal.problem())
}

fn no_link(name: &str) -> Refusal {
    Refusal::new(Code::KeyNotFound, format!("`{}` leads nowhere; bind it with PUT", name.escape_debug()))
}

fn not_new(bound: Bound, name: &str) -> Refusal {
    match bound {
        Bound::LookAlike { name: other } => {
            name_taken("alias", format!("`{name}` looks like `{other}`; choose another name"))
        }
        Bound::New(entry) | Bound::Same(entry) | Bound::AlreadyBound(entry) => taken_by_entry(&entry, name),
        Bound::Gone | Bound::Overtaken { .. } => {
            name_taken("bound", format!("`{name}` was in use and is not given again; choose another name"))
        }
    }
}
