//! Keys of an older system, which must never be issued.

use keymill_api::{Code, Refusal, RejectedKey, USED_MAX, UsedAnswer};
use keymill_id::{Definition, Number};
use keymill_issuer::Served;
use keymill_ledger::{HoleKind, ops::Withheld};
use keymill_registry::{Marked, rules::alias::Alias};

use super::{Names, refuse};

/// The longest key of an older system.
const USED_LENGTH_MAX: usize = 64;
/// Numbers withheld by one write in a shared ledger: it asks for each of them over the wire, and has to be done
/// within `ledger.timeout`. A ledger that is our own file takes a whole request, because every write touches most
/// of the pages that hold numbers.
const WITHHELD_AT_ONCE: usize = 500;

/// Keys by what keeps them from being issued, each with its place in the request.
#[derive(Default)]
struct Sorted {
    /// The pool can spell them: they are withheld from it.
    spelled: Vec<(usize, Number)>,
    /// It cannot: they become names that nobody can have.
    others: Vec<(usize, String)>,
    rejected: Vec<RejectedKey>,
}

impl Names {
    /// `POST /v1/keyspaces/{ks}/used`. What was withheld when this fails stays withheld: asking again goes on.
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
        let Sorted { mut spelled, others, rejected } = sorted(served, &keys);
        let mut answer = UsedAnswer { imported: 0, known: 0, rejected };
        let is_own_file = self.node.ledger().store() == "sqlite";
        spelled.sort_by_key(|(_, number)| *number);
        for piece in spelled.chunks(if is_own_file { USED_MAX } else { WITHHELD_AT_ONCE }) {
            self.withhold_used(served, &keys, piece, &mut answer).await?;
        }
        self.name_used(served, others, &mut answer).await?;
        answer.rejected.sort_by_key(|rejected| rejected.index);
        Ok(answer)
    }

    async fn withhold_used(
        &self,
        served: &Served,
        keys: &[String],
        piece: &[(usize, Number)],
        answer: &mut UsedAnswer,
    ) -> Result<(), Refusal> {
        let numbers = piece.iter().map(|(_, number)| *number).collect();
        let withheld = self.node.withhold(served, numbers, HoleKind::Used).await;
        for ((index, _), withheld) in piece.iter().zip(withheld.map_err(|error| Refusal::from(&error))?) {
            let reason = match withheld {
                Withheld::Made => {
                    answer.imported += 1;
                    continue;
                }
                Withheld::AlreadyThere(HoleKind::Used) => {
                    answer.known += 1;
                    continue;
                }
                Withheld::AlreadyThere(HoleKind::Route) => "is a route of the service, and never issued",
                Withheld::AlreadyThere(_) => "is a name or a key that someone has",
                Withheld::Passed => "was issued by this keyspace, or waits to be in some node's stock",
            };
            answer.rejected.push(rejected(*index, &keys[*index], reason));
        }
        Ok(())
    }

    async fn name_used(
        &self,
        served: &Served,
        others: Vec<(usize, String)>,
        answer: &mut UsedAnswer,
    ) -> Result<(), Refusal> {
        if others.is_empty() {
            return Ok(());
        }
        let names = others.iter().map(|(_, name)| name.clone()).collect();
        let marked =
            self.registry_of(served).await?.mark_used(served.name.as_str(), names, self.now_ms()).await;
        for ((index, name), marked) in others.iter().zip(marked.map_err(refuse)?) {
            match marked {
                Marked::New => answer.imported += 1,
                Marked::Known => answer.known += 1,
                Marked::Taken => answer.rejected.push(rejected(*index, name, "is a name that someone has")),
            }
            self.remembered.forget(served.name.as_str(), name);
        }
        Ok(())
    }
}

fn sorted(served: &Served, keys: &[String]) -> Sorted {
    let mut sorted = Sorted::default();
    for (index, key) in keys.iter().enumerate() {
        if let Some(number) = served.mint().and_then(|mint| mint.number_of(key)) {
            sorted.spelled.push((index, number));
            continue;
        }
        match Alias::parse(key, USED_LENGTH_MAX) {
            Err(error) if !error.is_reserved() => {
                sorted.rejected.push(rejected(index, key, &error.to_string()));
            }
            _ => sorted.others.push((index, key.clone())),
        }
    }
    sorted
}

fn rejected(index: usize, key: &str, reason: &str) -> RejectedKey {
    // A line may be megabytes long; its beginning tells which one it was.
    let key = key.chars().take(USED_LENGTH_MAX).collect();
    RejectedKey { index, key, reason: reason.to_owned() }
}
