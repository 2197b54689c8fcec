//! Statements about many rows, in few texts: an engine prepares each text it has not seen before, so a batch is
//! cut into pieces of a few sizes instead of making one statement of its very own length.

/// Rows of one statement, the largest first. Each is a text of its own.
const SIZES: [usize; 5] = [256, 64, 16, 4, 1];

/// The items in order, in pieces of [`SIZES`].
pub(crate) fn pieces<T>(mut items: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = SIZES.into_iter().find(|size| *size <= items.len())?;
        let (piece, rest) = items.split_at(size);
        items = rest;
        Some(piece)
    })
}

/// `?, ?, ?`
pub(crate) fn places(count: usize) -> String {
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
            assert!(pieces.len() <= count / SIZES[0] + 12, "{count}: {}", pieces.len());
        }
    }
}
