//! Chosen names.

use axum::http::StatusCode;
use keymill_api::{AliasView, Code, Refusal};
use keymill_id::Definition;
use keymill_issuer::{IssueError, KeyState, Served};
use keymill_ledger::{HoleKind, ops::Withheld};
use keymill_registry::{
    Claim, Claimed, Entry, Kind, TakenBy,
    rules::alias::{Alias, AliasError, skeleton},
};
use std::sync::Arc;

use super::{Names, Once, Said, name_taken, receipt::overtaken, refuse};

/// Whether a text may become a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The pool will never issue it, or could never spell it.
    Withheld,
    /// The pool issued it, or will.
    Passed,
    /// It belongs to nobody who asks here: imported, drawn, or a route.
    Taken,
}

impl Names {
    /// `PUT /v1/keyspaces/{ks}/keys/{alias}`
    pub(crate) async fn claim(&self, served: &Arc<Served>, text: &str, once: &Once) -> Result<Said, Refusal> {
        let name = self.alias_of(served, text)?;
        let registry = self.registry_of(served).await?;
        if let Some(entry) = registry.entry(served.name.as_str(), &name).await.map_err(refuse)? {
            return Err(taken_by_entry(&entry, &name));
        }
        self.withhold_alias(served, &name).await?;
        let view =
            AliasView { keyspace: served.name.to_string(), key: name.clone(), state: "alias".to_owned() };
        let said = Said::json(StatusCode::CREATED, &view);
        let claim = Claim {
            keyspace: served.name.to_string(),
            skeleton: self.skeleton_of(served, &name),
            name,
            at_ms: self.now_ms(),
            receipt: once.receipt(&said),
        };
        let name = claim.name.clone();
        match registry.claim(claim).await.map_err(refuse)? {
            Claimed::Granted(_) => Ok(said),
            Claimed::Taken { by } => Err(taken(&by, &name)),
            Claimed::Overtaken { answer } => overtaken(answer.as_deref()),
        }
    }

    /// The name, if the rules allow it in this keyspace.
    pub(super) fn alias_of(&self, served: &Served, text: &str) -> Result<String, Refusal> {
        if !matches!(served.definition, Definition::Pool(_) | Definition::Digest(_)) {
            let detail = format!(
                "keyspace `{}` is a {}, and its keys cannot be chosen; use a pool",
                served.name,
                served.definition.scheme()
            );
            return Err(Refusal::new(Code::WrongScheme, detail));
        }
        if served.is_retired() {
            return Err(IssueError::Retired.into());
        }
        let most = usize::from(served.settings().tuned.alias_length_max);
        let alias = Alias::parse(text, most).map_err(|error| refuse_alias(&error))?;
        Ok(self.name_of(served, alias.as_str()).into_owned())
    }

    pub(super) fn skeleton_of(&self, served: &Served, name: &str) -> Option<String> {
        served.settings().tuned.confusable_guard.then(|| skeleton(name))
    }

    /// Makes sure that the pool will not issue `name`, or says why that cannot be.
    pub(super) async fn withhold_alias(&self, served: &Arc<Served>, name: &str) -> Result<(), Refusal> {
        let standing = self.standing(served, name).await?;
        self.refuse_unless_withheld(served, name, standing).await
    }

    pub(super) async fn refuse_unless_withheld(
        &self,
        served: &Arc<Served>,
        name: &str,
        standing: Standing,
    ) -> Result<(), Refusal> {
        match standing {
            Standing::Withheld => Ok(()),
            Standing::Taken => Err(name_taken("issued", format!("`{name}` is in use; choose another name"))),
            Standing::Passed => {
                let inspected =
                    self.node.inspect(served, name).await.map_err(|error| Refusal::from(&error))?;
                let in_stock = inspected.is_some_and(|found| found.state == KeyState::InStock);
                let (reason, what) = if in_stock {
                    ("in_stock", "is a key that some node holds and will issue")
                } else {
                    ("issued", "is a key that was issued")
                };
                Err(name_taken(reason, format!("`{name}` {what}; choose another name")))
            }
        }
    }

    /// Withholds `name` from the pool, if it could ever spell it.
    pub(super) async fn standing(&self, served: &Served, name: &str) -> Result<Standing, Refusal> {
        self.node.refuse_unless_serving()?;
        let Some(number) = served.mint().and_then(|mint| mint.number_of(name)) else {
            return Ok(Standing::Withheld);
        };
        let withheld = self.node.withhold(served, vec![number], HoleKind::Alias).await;
        let withheld = withheld.map_err(|error| Refusal::from(&error))?;
        Ok(withheld.first().copied().map_or(Standing::Taken, standing))
    }
}

pub(super) fn standing(withheld: Withheld) -> Standing {
    match withheld {
        Withheld::Made | Withheld::AlreadyThere(HoleKind::Alias) => Standing::Withheld,
        Withheld::AlreadyThere(_) => Standing::Taken,
        Withheld::Passed => Standing::Passed,
    }
}

fn refuse_alias(error: &AliasError) -> Refusal {
    let code = if error.is_reserved() { Code::ReservedWord } else { Code::InvalidAlias };
    Refusal::field(code, "alias", error.to_string())
}

pub(super) fn taken(by: &TakenBy, name: &str) -> Refusal {
    match by {
        TakenBy::Alias => name_taken("alias", format!("`{name}` was chosen by someone; choose another name")),
        TakenBy::Bound => {
            name_taken("bound", format!("`{name}` leads somewhere already; choose another name"))
        }
        TakenBy::Used => name_taken("issued", format!("`{name}` is in use; choose another name")),
        TakenBy::Tombstone => {
            name_taken("bound", format!("`{name}` was in use and is not given again; choose another name"))
        }
        TakenBy::LookAlike { name: other } => {
            name_taken("alias", format!("`{name}` looks like `{other}`; choose another name"))
        }
    }
}

pub(super) fn taken_by_entry(entry: &Entry, name: &str) -> Refusal {
    let by = match entry {
        entry if entry.deleted_at_ms.is_some() => TakenBy::Tombstone,
        Entry { kind: Kind::Used, .. } => TakenBy::Used,
        Entry { target: Some(_), .. } => TakenBy::Bound,
        _ => TakenBy::Alias,
    };
    taken(&by, name)
}
