//! Keys that were made elsewhere – a list of vouchers – become rows of a pool, each once.
//!
//! A text that the pool could spell is withheld first, so that the filler never makes it again; one that the filler
//! has made already is refused. Whether a key is new is the store's to say, in the same step that adds it.

use std::sync::Arc;

use keymill_id::Number;
use keymill_ledger::{HoleKind, ops::Withheld};

use super::{Era, PoolError, Rowed, filler};
use crate::{error::IssueError, node::Node, served::Served};

/// The longest key that can be imported.
pub const IMPORTED_KEY_MAX: usize = 64;

/// What became of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// It is a row now.
    Added,
    /// It was imported before, and is a row still or was taken.
    Known,
    /// The keyspace has issued or granted it.
    Taken(&'static str),
    /// No key looks like that.
    Invalid(String),
}

impl Node {
    /// Adds keys to a row pool. `None`: the keyspace is none.
    pub async fn import(
        self: &Arc<Self>,
        served: &Served,
        keys: &[String],
    ) -> Option<Result<Vec<Imported>, IssueError>> {
        Some(served.rowed()?.import(self, keys).await)
    }
}

impl Rowed {
    async fn import(&self, node: &Arc<Node>, keys: &[String]) -> Result<Vec<Imported>, IssueError> {
        node.refuse_unless_serving()?;
        let pool = self.pool().map_err(|error| IssueError::from(&error))?;
        let era = self.era_to_import_in(node, &*pool).await?;
        let mut outcomes: Vec<Option<Imported>> =
            keys.iter().map(|key| self.flaw(key).map(Imported::Invalid)).collect();
        self.withhold(node, era, keys, &mut outcomes).await?;
        let fit: Vec<usize> = (0..keys.len()).filter(|index| outcomes[*index].is_none()).collect();
        let texts: Vec<&str> = fit.iter().map(|index| keys[*index].as_str()).collect();
        let added = pool.import(era, &texts).await.map_err(|error| IssueError::from(&error))?;
        let added = added.ok_or_else(|| not_yet("another filler began the rows anew"))?;
        for (index, added) in fit.into_iter().zip(added) {
            outcomes[index] = Some(if added { Imported::Added } else { Imported::Known });
        }
        self.filling.look_again();
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// The store's era, if it is the current one: else the filler has to look at it first.
    async fn era_to_import_in(&self, node: &Node, pool: &dyn super::RowPool) -> Result<Era, IssueError> {
        let standing = pool.standing().await.map_err(|error| IssueError::from(&error))?;
        let era = filler::current_era(node, self).await.map_err(|error| IssueError::from_ledger(&error))?;
        match filler::judge(&standing, era, None) {
            None => Ok(era),
            Some(why) => {
                self.filling.look_again();
                Err(not_yet(&why))
            }
        }
    }

    /// Why a text cannot be a key here.
    pub(super) fn flaw(&self, key: &str) -> Option<String> {
        if key.is_empty() {
            return Some("it is empty".to_owned());
        }
        if key.len() > IMPORTED_KEY_MAX {
            return Some(format!("it has {} bytes and may have {IMPORTED_KEY_MAX}", key.len()));
        }
        let odd = key.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_')));
        if let Some(odd) = odd {
            return Some(format!("it holds {odd:?}; keys are letters, digits, `-` and `_`"));
        }
        // Read leniently, two texts would be one key.
        let spelled = self.mint.number_of(key).and_then(|number| self.mint.spell_one(number))?;
        (spelled != key).then(|| format!("the keyspace writes it `{spelled}`"))
    }

    /// Withholds what the pool could spell, and tells what it has spelled or granted already.
    async fn withhold(
        &self,
        node: &Node,
        era: Era,
        keys: &[String],
        outcomes: &mut [Option<Imported>],
    ) -> Result<(), IssueError> {
        let numbers = (0..keys.len()).filter(|index| outcomes[*index].is_none());
        let spellable: Vec<(usize, Number)> =
            numbers.filter_map(|index| Some((index, self.mint.number_of(&keys[index])?))).collect();
        if spellable.is_empty() {
            return Ok(());
        }
        let numbers = spellable.iter().map(|(_, number)| *number).collect();
        let withheld = node.pen.withhold(&self.track, numbers, HoleKind::Import).await.map_err(|error| {
            node.note(&error, "withhold");
            IssueError::from_ledger(&error)
        })?;
        for ((index, _), outcome) in spellable.into_iter().zip(withheld.outcomes) {
            outcomes[index] = match outcome {
                Withheld::Made => None,
                // Withheld, and perhaps not added: a run that was cut off is completed. But once a store has
                // forgotten something, nobody knows whether it was added and taken.
                Withheld::AlreadyThere(HoleKind::Import) if era.term <= 1 => None,
                Withheld::AlreadyThere(HoleKind::Import) => Some(Imported::Known),
                Withheld::AlreadyThere(HoleKind::Alias) => Some(Imported::Taken("it is an alias")),
                Withheld::AlreadyThere(_) => Some(Imported::Taken("it is withheld")),
                Withheld::Passed => Some(Imported::Taken("the pool has made it already")),
            };
        }
        Ok(())
    }
}

fn not_yet(why: &str) -> IssueError {
    IssueError::from(&PoolError::Doubtful(format!("the rows are not ready yet ({why})")))
}
