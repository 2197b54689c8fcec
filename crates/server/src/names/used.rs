//! Keys of an older system, which must never be issued.

use keymill_api::{Code, Refusal, RejectedKey, USED_MAX, UsedAnswer};
use keymill_id::Definition;
use keymill_issuer::Served;
use keymill_ledger::{HoleKind, ops::Withheld};
use keymill_registry::rules::alias::Alias;

use super::{Names, refuse};

/// The longest key of an older system.
const USED_LENGTH_MAX: usize = 64;

impl Names {
    /// `POST /v1/keyspaces/{ks}/used`: those that the pool can spell are withheld from it, and the others become
    /// names that nobody can have.
    pub(crate) async fn import_used(
        &self,
        served: &Served,
        keys: Vec<String>,
    ) -> Result<UsedAnswer, Refusal> {
        if keys.len() > USED_MAX {
            let detail = format!("`keys` holds {}, and at most {USED_MAX} go at once", keys.len());
            return Err(Refusal::field(Code::InvalidField, "keys", detail));
        }
        if !matches!(served.definition, Definition::Pool(_) | Definition::Digest(_)) {
            let detail = "only the keys of a pool or a digest can be withheld";
            return Err(Refusal::new(Code::WrongScheme, detail));
        }
        self.node.refuse_unless_serving()?;
        let mut answer = UsedAnswer { imported: 0, known: 0, rejected: Vec::new() };
        let (mut numbers, mut spelled, mut others, mut names) = (vec![], vec![], vec![], vec![]);
        for (index, key) in keys.iter().enumerate() {
            match served.mint().and_then(|mint| mint.number_of(key)) {
                Some(number) => {
                    spelled.push(index);
                    numbers.push(number);
                }
                None => match Alias::parse(key, USED_LENGTH_MAX) {
                    Err(error) if !error.is_reserved() => {
                        answer.rejected.push(rejected(index, key, &error.to_string()));
                    }
                    _ => {
                        others.push(index);
                        names.push(key.clone());
                    }
                },
            }
        }
        if !numbers.is_empty() {
            let withheld = self.node.withhold(served, numbers, HoleKind::Import).await;
            for (index, withheld) in spelled.into_iter().zip(withheld.map_err(|error| Refusal::from(&error))?)
            {
                match withheld {
                    Withheld::Made => answer.imported += 1,
                    Withheld::AlreadyThere(HoleKind::Import) => answer.known += 1,
                    Withheld::AlreadyThere(_) => {
                        answer.rejected.push(rejected(index, &keys[index], "is a name that someone has"));
                    }
                    Withheld::Passed => {
                        answer.rejected.push(rejected(index, &keys[index], "was issued by this keyspace"));
                    }
                }
            }
        }
        if !names.is_empty() {
            let marked = self.registry()?.mark_used(served.name.as_str(), names, self.now_ms()).await;
            for new in marked.map_err(refuse)? {
                if new {
                    answer.imported += 1;
                } else {
                    answer.known += 1;
                }
            }
            for index in others {
                self.remembered.forget(served.name.as_str(), &keys[index]);
            }
        }
        answer.rejected.sort_by_key(|rejected| rejected.index);
        Ok(answer)
    }
}

fn rejected(index: usize, key: &str, reason: &str) -> RejectedKey {
    // A line may be megabytes long; its beginning tells which one it was.
    let key = key.chars().take(USED_LENGTH_MAX).collect();
    RejectedKey { index, key, reason: reason.to_owned() }
}
