//! Where a key leads: from memory if it was asked for lately, else from the registry.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::http::HeaderValue;
use keymill_api::{Code, RateLimit, Refusal};
use keymill_issuer::Served;
use keymill_registry::rules::target::{Target, TargetRules, check_again};

use super::{
    Counters, Names, refuse,
    remembered::{Found, Place, What},
};

/// What became of a key that someone followed.
#[derive(Debug)]
pub(crate) enum Resolved {
    To(HeaderValue),
    Gone,
    Nothing,
}

impl Names {
    /// Follows a link, and counts it. `from` is charged for asking for one that is not there.
    pub(crate) async fn follow(
        &self,
        served: &Arc<Served>,
        text: &str,
        from: IpAddr,
    ) -> Result<Resolved, Refusal> {
        let found = self.look_up(served, text).await?;
        match &found.what {
            What::Leads { to, expires_at_ms, .. } if !self.is_over(*expires_at_ms) => {
                self.visits.note(&found);
                Ok(Resolved::To(to.clone()))
            }
            What::Leads { .. } | What::Gone => Ok(Resolved::Gone),
            What::Nothing => {
                self.missed(from)?;
                Ok(Resolved::Nothing)
            }
        }
    }

    /// Charges `from` for asking for a link that is not there.
    pub(crate) fn missed(&self, from: IpAddr) -> Result<(), Refusal> {
        Counters::count(&self.counters.absent);
        self.misses.charge(from, self.node.elapsed()).map_err(too_many)
    }

    /// Where a key leads, without a visit.
    pub(crate) async fn peek(&self, served: &Arc<Served>, text: &str) -> Result<Option<String>, Refusal> {
        let found = self.look_up(served, text).await?;
        Ok(match &found.what {
            What::Leads { to, expires_at_ms, .. } if !self.is_over(*expires_at_ms) => {
                to.to_str().ok().map(str::to_owned)
            }
            _ => None,
        })
    }

    async fn look_up(&self, served: &Arc<Served>, text: &str) -> Result<Arc<Found>, Refusal> {
        let name = self.name_of(served, text);
        let keyspace = served.name.as_str();
        let now = self.node.elapsed();
        if let Some(found) = self.remembered.get(keyspace, &name, now) {
            Counters::count(&self.counters.remembered);
            return Ok(found);
        }
        let place = Place { keyspace: served.name.clone(), name: (&*name).into() };
        let as_of = self.remembered.as_of(&place);
        let entry = self.registry_of(served).await?.entry(keyspace, &name).await.map_err(refuse)?;
        Counters::count(&self.counters.found);
        let what = match entry {
            Some(entry) if entry.is_gone(self.now_ms()) => What::Gone,
            Some(entry) => match entry.target.and_then(|target| self.location(served, target)) {
                Some(to) => What::Leads {
                    place: place.clone(),
                    to,
                    expires_at_ms: entry.expires_at_ms.and_then(|ms| u64::try_from(ms).ok()),
                },
                None => What::Nothing,
            },
            None => What::Nothing,
        };
        Ok(self.remembered.put(place, what, now, as_of))
    }

    /// Whether a target that is kept would be accepted today.
    pub(crate) fn is_allowed(&self, served: &Served, target: &str) -> bool {
        check_again(target, &self.target_rules(served)).is_ok()
    }

    /// A target that would be refused today leads nowhere, however it came to be stored.
    fn location(&self, served: &Served, target: String) -> Option<HeaderValue> {
        check_again(&target, &self.target_rules(served)).ok()?;
        HeaderValue::try_from(target).ok()
    }

    pub(super) fn target_rules(&self, served: &Served) -> TargetRules<'_> {
        let deny_private = served.settings().tuned.deny_private_targets;
        TargetRules { deny_private, own_hosts: &self.own_hosts }
    }

    /// Whether a target's host looks like another one on purpose.
    pub(crate) fn is_mixed_script(&self, target: &str) -> bool {
        Target::parse(target, &TargetRules::default()).is_ok_and(|target| target.is_mixed_script())
    }

    fn is_over(&self, expires_at_ms: Option<u64>) -> bool {
        expires_at_ms.is_some_and(|expires_at_ms| expires_at_ms <= self.node.now().0)
    }
}

fn too_many(wait: Duration) -> Refusal {
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
    let detail =
        format!("too many links that are not there were asked for (limits.misses); wait {seconds} s");
    let limit = RateLimit { limit: 1, remaining: 0, reset: seconds.into(), retry_after: seconds };
    Refusal { rate_limit: Some(limit), ..Refusal::new(Code::RateLimited, detail) }
}
