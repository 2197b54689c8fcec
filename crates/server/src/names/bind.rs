//! Binding a key that was taken earlier. The first bind wins.

use std::sync::Arc;

use axum::http::StatusCode;
use keymill_api::{BindLink, Code, Refusal};
use keymill_id::Definition;
use keymill_issuer::{KeyState, Served};
use keymill_registry::{Bind, Bound, Entry, Kind, TakenBy};

use super::{
    Names, Once, Said,
    alias::{Standing, taken, taken_by_entry},
    name_taken,
    receipt::overtaken,
    refuse,
};

impl Names {
    /// `PUT /v1/keyspaces/{ks}/links/{key}`, and `SET key url NX`.
    pub(crate) async fn bind(
        &self,
        served: &Arc<Served>,
        text: &str,
        link: &BindLink,
        once: &Once,
    ) -> Result<Said, Refusal> {
        let target = self.target(served, &link.url)?;
        let expires_at_ms = self.expiry(served, link.expires_in)?;
        let name = self.name_of(served, text).into_owned();
        let registry = self.registry_of(served).await?;
        let known = registry.entry(served.name.as_str(), &name).await.map_err(refuse)?;
        let kind = match &known {
            Some(entry) => entry.kind,
            None => self.kind_of(served, &name).await?,
        };
        let mut bind = Bind {
            keyspace: served.name.to_string(),
            name,
            kind,
            target: target.as_str().to_owned(),
            owner: None,
            expires_at_ms,
            at_ms: self.now_ms(),
            skeleton: None,
            only_new: false,
            receipt: None,
        };
        if kind == Kind::Alias && known.is_none() {
            bind.skeleton = self.skeleton_of(served, &bind.name);
        }
        let mut entry = as_bound(&bind);
        if let Some(known) = &known {
            (entry.created_at_ms, entry.visits) = (known.created_at_ms, known.visits);
        }
        let said = Said::json(StatusCode::CREATED, &self.view(served, &entry));
        bind.receipt = once.receipt(&said);
        let name = bind.name.clone();
        let bound = registry.bind(bind).await.map_err(refuse)?;
        self.remembered.forget(served.name.as_str(), &name);
        match bound {
            Bound::New(_) => Ok(said),
            Bound::Same(entry) => {
                self.conclude(once, Said::json(StatusCode::OK, &self.view(served, &entry))).await
            }
            Bound::AlreadyBound(entry) if entry.kind == Kind::Used => Err(taken_by_entry(&entry, &name)),
            Bound::AlreadyBound(_) => {
                let detail =
                    format!("`{name}` leads elsewhere already; change it with PATCH, or take another");
                Err(Refusal::new(Code::AlreadyBound, detail))
            }
            Bound::Gone => Err(gone(&name)),
            Bound::LookAlike { name: other } => Err(taken(&TakenBy::LookAlike { name: other }, &name)),
            Bound::Overtaken { answer } => overtaken(answer.as_deref()),
        }
    }

    /// Whether `name` left the pool, or is to be claimed by the rules for aliases.
    async fn kind_of(&self, served: &Arc<Served>, name: &str) -> Result<Kind, Refusal> {
        if matches!(served.definition, Definition::Pool(_) | Definition::Digest(_)) {
            let number = served.mint().and_then(|mint| mint.number_of(name));
            // A key need not be a name that people may choose: it may be longer, or a reserved word by chance.
            if number.is_none() {
                self.alias_of(served, name)?;
                return Ok(Kind::Alias);
            }
            return match self.standing(served, name).await? {
                Standing::Withheld => self.alias_of(served, name).map(|_| Kind::Alias),
                Standing::Taken => Err(name_taken(
                    "issued",
                    format!("`{name}` is in use; take a key, or choose another name"),
                )),
                Standing::Passed if number.is_some_and(|number| served.holds(number)) => Err(in_stock(name)),
                Standing::Passed => Ok(Kind::Issued),
            };
        }
        let found = self.node.inspect(served, name).await.map_err(|error| Refusal::from(&error))?;
        let number = served.mint().and_then(|mint| mint.number_of(name));
        match found.map(|found| found.state) {
            Some(_) if number.is_some_and(|number| served.holds(number)) => Err(in_stock(name)),
            Some(KeyState::NeverIssued) | None => {
                let detail = format!(
                    "keyspace `{}` never issued `{}`, and the keys of a {} cannot be chosen; take one",
                    served.name,
                    name.escape_debug(),
                    served.definition.scheme()
                );
                Err(Refusal::new(Code::WrongScheme, detail))
            }
            Some(_) => Ok(Kind::Issued),
        }
    }
}

fn in_stock(name: &str) -> Refusal {
    name_taken("in_stock", format!("`{name}` is in this node's stock, and nobody has it yet; take a key"))
}

/// The entry that a bind makes where there is none.
pub(super) fn as_bound(bind: &Bind) -> Entry {
    Entry {
        keyspace: bind.keyspace.clone(),
        name: bind.name.clone(),
        kind: bind.kind,
        target: Some(bind.target.clone()),
        owner: bind.owner.clone(),
        created_at_ms: bind.at_ms,
        expires_at_ms: bind.expires_at_ms,
        deleted_at_ms: None,
        visits: 0,
    }
}

pub(super) fn gone(name: &str) -> Refusal {
    Refusal::new(Code::LinkGone, format!("`{name}` was deleted or has expired, and is not given again"))
}
