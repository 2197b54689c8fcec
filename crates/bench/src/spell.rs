//! Shuffling and spelling, as the mill does it.

use std::hint::black_box;

use keymill_id::{Block, Mint, Number, Scratch};

use crate::{
    best, compare,
    take::{links, mint, per_item},
};

const CHUNK: u64 = 4096;
const CHUNKS: u64 = 256;

pub(crate) fn run() -> anyhow::Result<()> {
    let (shuffled, sequential) = (links()?, mint(r#"{"scheme":"pool","order":"sequential"}"#)?);
    let spell = best(7, || spell_all(&shuffled));
    compare("shuffle and spell a base62 x 7 key", spell, "ns", "the goal", spell / 50.0, "<= 50 ns");
    let rising = best(7, || spell_all(&sequential));
    compare("spell a base62 x 7 key, sequential", rising, "ns", "shuffled", rising / spell, "-");
    Ok(())
}

fn spell_all(mint: &Mint) -> f64 {
    let mut scratch = Scratch::default();
    let number = |n| Number::new(n).expect("small");
    per_item(CHUNK * CHUNKS, || {
        for chunk in 0..CHUNKS {
            let block = Block::new(number(chunk * CHUNK), number((chunk + 1) * CHUNK)).expect("not empty");
            black_box(mint.spell_block(block, &[], &mut scratch));
        }
    })
}
