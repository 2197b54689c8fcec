//! A Keymill server, asked from outside over HTTP.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use keymill_issuer::quantity::Mark;
use serde::Deserialize;

use super::{Target, within};
use crate::{
    marks::Marks,
    sample::{Ground, GroundState, Look, Reading, Sample, Seen, Supply},
    web::{Address, Method, Request, Web},
};

/// Keyspaces a page.
const PAGE: usize = 1000;
/// Pages that are read; more keyspaces than that no ledger has.
const PAGES_MAX: usize = 100;

#[derive(Debug)]
pub struct Keymill {
    pub server: Address,
    pub web: Arc<dyn Web>,
    /// A token with the scope `inspect`.
    pub bearer: Option<String>,
    /// Only these, or every keyspace with marks.
    pub keyspaces: Vec<String>,
    /// Marks to use instead of the server's own.
    pub marks: Marks,
    /// Without anyone to restart, the server's restart marks are its own business.
    pub restarts: bool,
}

/// What is read of `GET /v1/ledger`.
#[derive(Debug, Deserialize)]
struct Ledger {
    id: Option<String>,
    state: String,
    reason: Option<String>,
}

/// What is read of `GET /v1/keyspaces`.
#[derive(Debug, Deserialize)]
struct Page {
    keyspaces: Vec<Keyspace>,
    next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Keyspace {
    name: String,
    state: String,
    scheme: String,
    definition: Definition,
    tuning: Tuning,
    level: Option<String>,
    stock: Option<String>,
    rate: Option<f64>,
    runway_seconds: Option<f64>,
    claims: Claims,
}

impl Keyspace {
    fn is_rows(&self) -> bool {
        matches!(self.definition.store.as_deref(), Some("table" | "redis"))
    }
}

#[derive(Debug, Deserialize)]
struct Definition {
    store: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Tuning {
    restart_below: Option<Mark>,
    page_below: Option<Mark>,
}

#[derive(Debug, Deserialize)]
struct Claims {
    issued: String,
}

impl Keymill {
    async fn get<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, String> {
        let url = self.server.below(path);
        let request = Request { method: Method::Get, url, bearer: self.bearer.clone(), body: None };
        let answer = self.web.send(request).await?;
        if !answer.is_success() {
            let text = String::from_utf8_lossy(&answer.body);
            let detail = serde_json::from_str::<serde_json::Value>(&text).ok();
            let detail = detail.and_then(|problem| Some(problem.get("detail")?.as_str()?.to_owned()));
            return Err(format!(
                "{} answered {}: {}",
                self.server,
                answer.status,
                detail.unwrap_or_default()
            ));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|error| format!("{} answered what this version cannot read: {error}", self.server))
    }

    async fn keyspaces(&self) -> Result<Vec<Keyspace>, String> {
        let mut found = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let after = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
            let page: Page = self.get(&format!("/v1/keyspaces?limit={PAGE}{after}")).await?;
            found.extend(page.keyspaces);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        // The list tells of rows what was last known; to ask for one counts them.
        for keyspace in found.iter_mut().filter(|keyspace| keyspace.is_rows() && self.wants(keyspace)) {
            *keyspace = self.get(&format!("/v1/keyspaces/{}", keyspace.name)).await?;
        }
        Ok(found)
    }

    /// Whether it is to be watched.
    fn wants(&self, keyspace: &Keyspace) -> bool {
        let is_named = self.keyspaces.is_empty() || self.keyspaces.contains(&keyspace.name);
        keyspace.state == "active" && is_named && self.marks_of(keyspace).is_set()
    }

    fn marks_of(&self, keyspace: &Keyspace) -> Marks {
        let restart_below = self.marks.restart_below.or(keyspace.tuning.restart_below);
        Marks {
            restart_below: restart_below.filter(|_| self.restarts),
            page_below: self.marks.page_below.or(keyspace.tuning.page_below),
        }
    }

    /// Those that were asked for by name and are not there are unmeasured, not forgotten.
    fn seen(&self, found: &[Keyspace]) -> Vec<Seen> {
        let active =
            |name: &String| found.iter().any(|keyspace| keyspace.name == *name && keyspace.state == "active");
        let missing = self.keyspaces.iter().filter(|name| !active(name)).map(|name| Seen {
            keyspace: name.clone(),
            marks: self.marks,
            reading: Reading::Unmeasured {
                why: format!("{} has no active keyspace of that name", self.server),
            },
        });
        let there = found.iter().filter(|keyspace| self.wants(keyspace)).map(|keyspace| Seen {
            keyspace: keyspace.name.clone(),
            marks: self.marks_of(keyspace),
            reading: reading(keyspace),
        });
        there.chain(missing).collect()
    }

    async fn ask(&self) -> Result<(Ledger, Vec<Seen>), String> {
        let ledger: Ledger = self.get("/v1/ledger").await?;
        let seen = if ledger.state == "ok" { self.seen(&self.keyspaces().await?) } else { Vec::new() };
        Ok((ledger, seen))
    }
}

fn reading(keyspace: &Keyspace) -> Reading {
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
    let Some(level) = number(&keyspace.level) else {
        return Reading::Unmeasured { why: format!("the server tells no level of `{}`", keyspace.name) };
    };
    let left = keyspace.runway_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let supply = match (keyspace.scheme.as_str(), left) {
        ("snowflake", Some(left)) => Supply::Epoch { left },
        _ if keyspace.is_rows() => Supply::Pool,
        _ => Supply::Keyspace,
    };
    // The stock of an epoch is a window that is renewed as time goes by; a row pool has none but its rows.
    let stock = number(&keyspace.stock).filter(|_| supply == Supply::Keyspace);
    let issued = keyspace.claims.issued.parse().ok();
    Reading::Measured(Sample { level, supply, rate: keyspace.rate, issued, stock })
}

#[async_trait]
impl Target for Keymill {
    async fn look(&self, patience: Duration) -> Look {
        let mut scope = self.server.to_string();
        let (state, seen) = match within(patience, self.ask()).await {
            Err(why) => (GroundState::Unmeasured { why }, Vec::new()),
            Ok((ledger, seen)) => {
                let reason = ledger.reason.unwrap_or_default();
                scope = ledger.id.unwrap_or(scope);
                match ledger.state.as_str() {
                    "ok" => (GroundState::Fine, seen),
                    "halted" => (GroundState::Halted { reason }, seen),
                    other => {
                        (GroundState::Unmeasured { why: format!("its ledger is {other}: {reason}") }, seen)
                    }
                }
            }
        };
        Look { scope, ground: Ground { name: "server", state }, seen }
    }
}
