//! Statements about many rows, in few texts: an engine prepares each text it has not seen before, so a batch is
//! cut into pieces of a few sizes instead of making one statement of its very own length.

use std::sync::atomic::{AtomicBool, Ordering};

use keymill_sql::{Dialect, SqlError, Statements};

use crate::ops::moved;

/// Rows of one statement, the largest first. Each is a text of its own. Below 200, for that many values are
/// looked up in the index by MariaDB's planner; of more it only guesses how many rows they have.
const SIZES: [usize; 5] = [128, 32, 8, 2, 1];

/// The items in order, in pieces of [`SIZES`].
pub(crate) fn pieces<T>(mut items: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = SIZES.into_iter().find(|size| *size <= items.len())?;
        let (piece, rest) = items.split_at(size);
        items = rest;
        Some(piece)
    })
}

/// The items in order, in as few pieces as can be, each with a power of two of them: for what can be asked twice in one
/// statement, so that the last item fills the rest.
pub(crate) fn padded<T: Copy>(items: &[T]) -> impl Iterator<Item = Vec<T>> {
    items.chunks(SIZES[0]).map(|piece| {
        let mut padded = piece.to_vec();
        padded.resize(piece.len().next_power_of_two(), piece[piece.len() - 1]);
        padded
    })
}

/// Whether a batch looks for its rows before it makes them. Nearly always all of them are new, so its first run
/// does not look; if one of them was there, that run is undone, and the next one looks.
#[derive(Debug, Default)]
pub(crate) struct Caution(AtomicBool);

impl Caution {
    pub(crate) fn looks_first(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Undoes this run.
    pub(crate) fn look_next_time(&self, what: &str) -> SqlError {
        self.0.store(true, Ordering::Relaxed);
        moved(what)
    }
}

/// Before statements that look for many rows: PostgreSQL keeps the plan of a text that it has seen a few times,
/// and one that was made for an empty table reads all of a full one.
pub(crate) async fn plan_afresh<S: Statements>(statements: &mut S) -> Result<(), SqlError> {
    if statements.dialect() == Dialect::Postgres {
        statements.execute("SET LOCAL plan_cache_mode = force_custom_plan", &[]).await?;
    }
    Ok(())
}

/// `?, ?, ?`
pub(crate) fn question_marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_into_a_few_sizes_and_keeps_its_order() {
        for count in [0, 1, 3, 4, 255, 256, 257, 1_000] {
            let items: Vec<usize> = (0..count).collect();
            let pieces: Vec<&[usize]> = pieces(&items).collect();
            assert_eq!(pieces.concat(), items);
            assert!(pieces.iter().all(|piece| SIZES.contains(&piece.len())), "{count}");
            assert!(pieces.len() <= count / SIZES[0] + 10, "{count}: {}", pieces.len());
        }
    }
}
