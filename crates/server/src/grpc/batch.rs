//! Keys of a stream in the cheapest form they have: a run of tickets, numbers, or text side by side.

use bytes::Bytes;
use keymill_api::grpc::{KeyBatch, Numbers, Run, Text, key_batch::Keys};
use keymill_id::Definition;
use keymill_issuer::haul::{Haul, Piece};

/// How keys travel that were spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Tickets in plain decimal: they are the numbers they look like.
    Tickets {
        step: u64,
    },
    Text,
}

impl Form {
    pub(super) fn of(definition: &Definition) -> Self {
        match definition {
            Definition::Sequence(sequence)
                if sequence.alphabet().as_str() == "decimal"
                    && sequence.length() == 1
                    && sequence.prefix().is_empty()
                    && !sequence.check() =>
            {
                Self::Tickets { step: sequence.step() }
            }
            _ => Self::Text,
        }
    }
}

pub(super) fn ids(values: Vec<u64>) -> KeyBatch {
    KeyBatch { keys: Some(Keys::Numbers(Numbers { values })) }
}

/// A message per width: nearly always one.
pub(super) fn text(haul: &Haul) -> Vec<KeyBatch> {
    let pieces: Vec<&Piece> = haul.pieces().collect();
    let same_width = |a: &&Piece, b: &&Piece| a.stride() == b.stride();
    let batches = pieces.chunk_by(same_width).map(|pieces| {
        let joined = match pieces {
            [piece] => Bytes::copy_from_slice(piece.joined()),
            pieces => pieces.iter().map(|piece| piece.joined()).collect::<Vec<_>>().concat().into(),
        };
        let stride = u32::try_from(pieces[0].stride()).expect("keys are short");
        KeyBatch { keys: Some(Keys::Text(Text { joined, stride })) }
    });
    batches.collect()
}

/// Tickets rise. Nearly always each follows the last, and then its first and its length say it all.
pub(super) fn tickets(haul: &Haul, step: u64) -> KeyBatch {
    let mut runs = haul.pieces().map(|piece| whole_run(piece, step));
    let joined = runs.next().flatten().and_then(|first| {
        runs.try_fold(first, |before, next| {
            next.filter(|next| Some(next.first) == end(&before))
                .map(|next| Run { count: before.count + next.count, ..before })
        })
    });
    let keys = match joined {
        Some(run) => Keys::Run(run),
        None => Keys::Numbers(Numbers { values: haul.keys().map(read).collect() }),
    };
    KeyBatch { keys: Some(keys) }
}

/// The piece as a run, if no ticket between its first and its last is missing.
fn whole_run(piece: &Piece, step: u64) -> Option<Run> {
    let (joined, stride) = (piece.joined(), piece.stride());
    let first = read(&joined[..stride]);
    let last = read(&joined[joined.len() - stride..]);
    let count = piece.count();
    let whole = last - first == u64::from(count - 1) * step;
    whole.then_some(Run { first, step, count })
}

/// The ticket that would follow.
fn end(run: &Run) -> Option<u64> {
    run.first.checked_add(run.step.checked_mul(run.count.into())?)
}

fn read(key: &[u8]) -> u64 {
    key.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use keymill_id::{Block, Mint, Number, Scratch, Secret, Stated};
    use keymill_issuer::shelf::{Chunk, Shelf};

    use super::*;

    fn definition(json: &str) -> Definition {
        let stated: Stated = serde_json::from_str(json).unwrap();
        Definition::resolve(&stated, Secret::from_bytes([7; 32])).unwrap()
    }

    /// What a take brings that crosses these blocks of numbers, one of which is missing.
    fn haul(definition: &Definition, blocks: &[(u64, u64)], hole: u64) -> Haul {
        let (mint, shelf) = (Mint::compile(definition), Shelf::new(1));
        let number = |n| Number::new(n).unwrap();
        for (start, end) in blocks {
            let block = Block::new(number(*start), number(*end)).unwrap();
            let holes: Vec<Number> =
                [number(hole)].into_iter().filter(|hole| block.contains(*hole)).collect();
            shelf.stack(Chunk::new(mint.spell_block(block, &holes, &mut Scratch::default())));
        }
        shelf.grab(u32::MAX)
    }

    const NO_HOLE: u64 = 1 << 40;

    #[test]
    fn tickets_that_follow_one_another_are_a_run_and_others_are_numbers() {
        let odd = definition(r#"{"scheme":"sequence","step":2}"#);
        assert_eq!(Form::of(&odd), Form::Tickets { step: 2 });
        let form = |blocks: &[(u64, u64)], hole| tickets(&haul(&odd, blocks, hole), 2).keys.unwrap();
        assert_eq!(form(&[(3, 5), (5, 9)], NO_HOLE), Keys::Run(Run { first: 7, step: 2, count: 6 }));
        let numbers = |values: &[u64]| Keys::Numbers(Numbers { values: values.to_vec() });
        assert_eq!(form(&[(0, 2), (5, 7)], NO_HOLE), numbers(&[1, 3, 11, 13]), "a gap between");
        assert_eq!(form(&[(0, 4)], 2), numbers(&[1, 3, 7]), "a gap inside");
    }

    #[test]
    fn text_is_a_message_for_each_width() {
        let names = definition(r#"{"scheme":"sequence","prefix":"R"}"#);
        assert_eq!(Form::of(&names), Form::Text);
        let batches = text(&haul(&names, &[(5, 7), (7, 9), (9, 11)], NO_HOLE));
        let spelled = |joined: &'static [u8], stride| KeyBatch {
            keys: Some(Keys::Text(Text { joined: Bytes::from_static(joined), stride })),
        };
        assert_eq!(batches, [spelled(b"R6R7R8R9", 2), spelled(b"R10R11", 3)]);
    }

    #[test]
    fn only_plain_decimal_tickets_are_numbers() {
        for other in [r#""length":3"#, r#""prefix":"R""#, r#""check":true"#, r#""alphabet":"base36""#] {
            let padded = definition(&format!(r#"{{"scheme":"sequence",{other}}}"#));
            assert_eq!(Form::of(&padded), Form::Text, "{other}");
        }
        assert_eq!(Form::of(&definition(r#"{"scheme":"pool","alphabet":"decimal"}"#)), Form::Text);
    }
}
