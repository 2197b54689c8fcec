//! Many links in one request: one transaction for all that can be had, and for the answer that tells of them.

use std::sync::Arc;

use axum::http::StatusCode;
use keymill_api::{BATCH_MAX, Code, LinkOutcome, LinkOutcomes, NewLink, Refusal};
use keymill_id::Definition;
use keymill_issuer::Served;
use keymill_ledger::HoleKind;
use keymill_registry::{Bind, Bound, Kind, limits::ANSWER_MAX};

use super::{
    Names, Once, Said,
    alias::{Standing, standing},
    link::{Wanted, key_text, not_new},
    receipt::overtaken,
    refuse, shown,
};
use crate::auth::Caller;

/// What an answer says of one link besides its URL, at most and as it is written down.
const OUTCOME_BYTES: usize = 600;

/// What became of each link, as far as that is known before they are bound.
#[derive(Debug)]
struct Outcomes {
    /// In the order of the request; `None` is still to be bound.
    known: Vec<Option<LinkOutcome>>,
    /// Where the outcome of each bind goes, and the name that it binds.
    places: Vec<(usize, String)>,
    short_base: Option<String>,
}

impl Outcomes {
    fn refuse(&mut self, index: usize, refusal: &Refusal) {
        self.known[index] = Some(LinkOutcome::Problem(refusal.problem()));
    }

    /// The answer, once it is known what became of the binds.
    fn said(&self, bound: &[Bound]) -> Said {
        let mut links = self.known.clone();
        for ((index, name), bound) in self.places.iter().zip(bound) {
            links[*index] = Some(match bound {
                Bound::New(entry) => LinkOutcome::Link(shown(entry, self.short_base.as_deref())),
                other => LinkOutcome::Problem(not_new(other.clone(), name).problem()),
            });
        }
        Said::json(StatusCode::OK, &LinkOutcomes { links: links.into_iter().flatten().collect() })
    }
}

impl Names {
    /// `POST /v1/keyspaces/{ks}/links/batch`
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
        let (places, short_base) = (Vec::new(), self.short_base(served));
        let mut outcomes = Outcomes { known: vec![None; links.len()], places, short_base };
        let mut wanted = Vec::new();
        for (index, link) in links.into_iter().enumerate() {
            match self.wanted(served, link) {
                Ok(link) => wanted.push((index, link)),
                Err(refusal) => outcomes.refuse(index, &refusal),
            }
        }
        refuse_long_answer(&outcomes, &wanted, once)?;
        if matches!(served.definition, Definition::Digest(_)) {
            self.derive_all(served, wanted, &mut outcomes, once).await?;
            return self.conclude(once, outcomes.said(&[])).await;
        }
        let binds = self.binds(caller, served, wanted, &mut outcomes).await?;
        let outcomes = Arc::new(outcomes);
        let answer = outcomes.clone();
        let receipt = once.batch_receipt(move |bound| answer.said(bound));
        let bound = self.registry_of(served).await?.bind_all(binds, receipt).await.map_err(refuse)?;
        for (_, name) in &outcomes.places {
            self.remembered.forget(served.name.as_str(), name);
        }
        match bound.first() {
            Some(Bound::Overtaken { answer }) => overtaken(answer.as_deref()),
            _ => Ok(outcomes.said(&bound)),
        }
    }

    async fn derive_all(
        &self,
        served: &Arc<Served>,
        wanted: Vec<(usize, Wanted)>,
        outcomes: &mut Outcomes,
        once: &Once,
    ) -> Result<(), Refusal> {
        for (index, Wanted { target, alias, owner, expires_at_ms }) in wanted {
            if alias.is_some() {
                let detail = "`alias` does not go with a batch of a digest; make that link by itself";
                outcomes.refuse(index, &Refusal::field(Code::InvalidField, "alias", detail));
                continue;
            }
            let nonce = once.nonce(index)?;
            let derived = self.derive(served, target.as_str(), owner, Some(&target), expires_at_ms, nonce);
            match derived.await {
                Ok(derived) => {
                    let link = shown(&derived.entry, outcomes.short_base.as_deref());
                    outcomes.known[index] = Some(LinkOutcome::Link(link));
                }
                Err(refusal) => outcomes.refuse(index, &refusal),
            }
        }
        Ok(())
    }

    /// A key or a name for each link, as far as it can be had.
    async fn binds(
        &self,
        caller: &Caller,
        served: &Arc<Served>,
        wanted: Vec<(usize, Wanted)>,
        outcomes: &mut Outcomes,
    ) -> Result<Vec<Bind>, Refusal> {
        let mut binds = Vec::new();
        let (named, unnamed): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|(_, wanted)| wanted.alias.is_some());
        let standings = self.standings(served, &named).await?;
        for ((index, wanted), standing) in named.into_iter().zip(standings) {
            let alias = wanted.alias.clone().unwrap_or_default();
            match self.refuse_standing(served, &alias, standing).await {
                Ok(()) => {
                    outcomes.places.push((index, alias.clone()));
                    binds.push(self.new_bind(served, alias, Kind::Alias, &wanted));
                }
                Err(refusal) => outcomes.refuse(index, &refusal),
            }
        }
        let count = u32::try_from(unnamed.len()).expect("a batch is small");
        if count > 0 {
            caller.charge(served, count, || self.node.elapsed())?;
            let haul = served.take(count, self.take_timeout).await?;
            for ((index, wanted), key) in unnamed.into_iter().zip(haul.keys()) {
                outcomes.places.push((index, key_text(key)));
                binds.push(self.new_bind(served, key_text(key), Kind::Issued, &wanted));
            }
        }
        Ok(binds)
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
}

/// An answer that is too long to be written down is refused before there is anything to tell.
fn refuse_long_answer(outcomes: &Outcomes, wanted: &[(usize, Wanted)], once: &Once) -> Result<(), Refusal> {
    if !matches!(once, Once::Go(_)) {
        return Ok(());
    }
    let each = OUTCOME_BYTES + outcomes.short_base.as_ref().map_or(0, String::len);
    let urls: usize = wanted.iter().map(|(_, wanted)| wanted.target.as_str().len()).sum();
    if urls + each * outcomes.known.len() <= ANSWER_MAX {
        return Ok(());
    }
    let detail = format!(
        "with an Idempotency-Key the answer may have {ANSWER_MAX} bytes, and these links may need more; send fewer \
         of them at once"
    );
    Err(Refusal::field(Code::InvalidField, "links", detail))
}
