//! One get-or-create: the same reference always gives the same key.

use axum::http::StatusCode;
use keymill_api::{BATCH_MAX, Code, NewRef, RefList, RefOutcome, RefOutcomes, RefView, Refusal};
use keymill_id::Definition;
use keymill_issuer::Served;
use keymill_registry::{
    NewReference, Reference, Referred,
    rules::reference::{self, ReferenceError},
};

use super::{Names, Once, Said, link::key_text, page_after, receipt::overtaken, refuse};
use crate::auth::Caller;

impl Names {
    /// `POST /v1/keyspaces/{ks}/refs`
    pub(crate) async fn refer(
        &self,
        caller: &Caller,
        served: &Served,
        new: NewRef,
        once: &Once,
    ) -> Result<Said, Refusal> {
        let (reference, owner) = checked(new)?;
        if let Definition::Digest(_) = served.definition {
            let (nonce, expiry) = (once.nonce(0)?, self.expiry(served, None)?);
            let made = self.derive(served, &reference, owner, None, expiry, nonce).await?;
            let status = if made.new { StatusCode::CREATED } else { StatusCode::OK };
            return self.conclude(once, Said::json(status, &view(served, reference, made.entry.name))).await;
        }
        let keyspace = served.name.as_str();
        let registry = self.registry()?;
        if let Some(key) = registry.reference(keyspace, owner.as_deref(), &reference).await.map_err(refuse)? {
            return self.conclude(once, Said::json(StatusCode::OK, &view(served, reference, key))).await;
        }
        caller.charge(served, 1, || self.node.elapsed())?;
        let key = self.take_one(served).await?;
        let said = Said::json(StatusCode::CREATED, &view(served, reference.clone(), key.clone()));
        let receipt = once.receipt(&said);
        let at_ms = self.now_ms();
        let keyspace = keyspace.to_owned();
        let new = NewReference { keyspace, owner, reference: reference.clone(), key, at_ms, receipt };
        match registry.refer(new).await.map_err(refuse)? {
            Referred::New => Ok(said),
            // Someone was quicker; the key that was taken is burned.
            Referred::Known { key } => {
                self.conclude(once, Said::json(StatusCode::OK, &view(served, reference, key))).await
            }
            Referred::Overtaken { answer } => overtaken(answer.as_deref()),
        }
    }

    /// `POST /v1/keyspaces/{ks}/refs/batch`
    pub(crate) async fn refer_all(
        &self,
        caller: &Caller,
        served: &Served,
        refs: Vec<NewRef>,
    ) -> Result<RefOutcomes, Refusal> {
        if refs.len() > BATCH_MAX {
            let detail = format!("`refs` holds {}, and at most {BATCH_MAX} go at once", refs.len());
            return Err(Refusal::field(Code::InvalidField, "refs", detail));
        }
        if matches!(served.definition, Definition::Digest(_)) {
            return self.derive_refs(served, refs).await;
        }
        let checked: Vec<_> = refs.into_iter().map(checked).collect();
        let fine = || checked.iter().filter_map(|checked| checked.as_ref().ok());
        let pairs: Vec<_> = fine().map(|(reference, owner)| (owner.clone(), reference.clone())).collect();
        let keyspace = served.name.to_string();
        let registry = self.registry()?;
        let mut known = registry.references_of(&keyspace, pairs).await.map_err(refuse)?;
        let missing =
            u32::try_from(known.iter().filter(|key| key.is_none()).count()).expect("a batch is small");
        let mut created = 0;
        if missing > 0 {
            caller.charge(served, missing, || self.node.elapsed())?;
            let haul = served.take(missing, self.take_timeout).await;
            let haul = haul.inspect_err(|_| caller.refund(served, missing))?;
            let at_ms = self.now_ms();
            let mut keys = haul.keys();
            let wanted = fine().zip(&mut known).filter(|(_, key)| key.is_none());
            let (slots, new): (Vec<_>, Vec<_>) = wanted
                .zip(&mut keys)
                .map(|(((reference, owner), slot), key)| {
                    let (key, reference) = (key_text(key), reference.clone());
                    let (keyspace, owner) = (keyspace.clone(), owner.clone());
                    (slot, NewReference { keyspace, owner, reference, key, at_ms, receipt: None })
                })
                .unzip();
            let taken: Vec<String> = new.iter().map(|new| new.key.clone()).collect();
            let referred = registry.refer_all(new).await.map_err(refuse)?;
            for ((slot, taken), referred) in slots.into_iter().zip(taken).zip(referred) {
                *slot = match referred {
                    Referred::New => {
                        created += 1;
                        Some(taken)
                    }
                    Referred::Known { key } => Some(key),
                    Referred::Overtaken { .. } => None,
                };
            }
        }
        let mut known = known.into_iter();
        let refs = checked.into_iter().map(|checked| match checked {
            Ok((reference, _)) => match known.next().flatten() {
                Some(key) => RefOutcome::Ref(view(served, reference, key)),
                None => problem(&Refusal::new(Code::Internal, "the registry gave no answer for it")),
            },
            Err(refusal) => problem(&refusal),
        });
        Ok(RefOutcomes { refs: refs.collect(), created })
    }

    async fn derive_refs(&self, served: &Served, refs: Vec<NewRef>) -> Result<RefOutcomes, Refusal> {
        let (mut outcomes, mut created) = (Vec::with_capacity(refs.len()), 0);
        for new in refs {
            let made = match checked(new) {
                Ok((reference, owner)) => self
                    .derive(
                        served,
                        &reference,
                        owner,
                        None,
                        self.expiry(served, None)?,
                        Once::Unasked.nonce(0)?,
                    )
                    .await
                    .map(|made| (reference, made)),
                Err(refusal) => Err(refusal),
            };
            outcomes.push(match made {
                Ok((reference, made)) => {
                    created += u64::from(made.new);
                    RefOutcome::Ref(view(served, reference, made.entry.name))
                }
                Err(refusal) => problem(&refusal),
            });
        }
        Ok(RefOutcomes { refs: outcomes, created })
    }

    /// `GET /v1/keyspaces/{ks}/refs/{ref}`
    pub(crate) async fn referred(
        &self,
        served: &Served,
        reference: String,
        owner: Option<String>,
    ) -> Result<RefView, Refusal> {
        let (reference, owner) = checked(NewRef { reference, owner })?;
        let key = match served.definition {
            Definition::Digest(_) => self.derived(served, &reference, owner).await?,
            _ => {
                let found = self.registry()?.reference(served.name.as_str(), owner.as_deref(), &reference);
                found.await.map_err(refuse)?
            }
        };
        match key {
            Some(key) => Ok(view(served, reference, key)),
            None => {
                let detail = "nothing is known by that reference; make its key with POST";
                Err(Refusal::new(Code::KeyNotFound, detail))
            }
        }
    }

    /// `GET /v1/keyspaces/{ks}/refs`
    pub(crate) async fn references(
        &self,
        served: &Served,
        after: Option<String>,
        limit: usize,
    ) -> Result<RefList, Refusal> {
        let most = u32::try_from(limit + 1).expect("a page is small");
        let after = page_after(after)?;
        let mut found = self
            .registry()?
            .references(served.name.as_str(), after.as_deref(), most)
            .await
            .map_err(refuse)?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next_cursor = found.last().filter(|_| more).map(Reference::cursor);
        let refs = found.into_iter().map(|found| view(served, found.reference, found.key)).collect();
        Ok(RefList { refs, next_cursor })
    }

    /// What refers to a key.
    pub(crate) async fn references_to(&self, served: &Served, key: &str) -> Result<Vec<String>, Refusal> {
        let found = self.registry()?.references_to(served.name.as_str(), key).await.map_err(refuse)?;
        Ok(found.into_iter().map(|found| found.reference).collect())
    }
}

fn view(served: &Served, reference: String, key: String) -> RefView {
    RefView { keyspace: served.name.to_string(), reference, key }
}

fn problem(refusal: &Refusal) -> RefOutcome {
    RefOutcome::Problem(refusal.problem())
}

fn checked(new: NewRef) -> Result<(String, Option<String>), Refusal> {
    reference::check(&new.reference).map_err(|error| refuse_text(&error))?;
    Ok((new.reference, new.owner.map(owner).transpose()?))
}

pub(super) fn owner(text: String) -> Result<String, Refusal> {
    reference::check_owner(&text).map_err(|error| refuse_text(&error))?;
    Ok(text)
}

fn refuse_text(error: &ReferenceError) -> Refusal {
    Refusal::field(Code::InvalidField, error.field(), error.to_string())
}
