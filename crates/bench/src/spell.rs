//! Shuffling and spelling, as the mill does it.

use std::hint::black_box;

use keymill_id::{Block, Number, Scratch};

use crate::{
    best, compare,
    take::{links, per_item},
};

const CHUNK: u64 = 4096;
const CHUNKS: u64 = 256;

pub(crate) fn run() -> anyhow::Result<()> {
    let mint = links()?;
    let mut scratch = Scratch::default();
    let spell = best(7, || {
        per_item(CHUNK * CHUNKS, || {
            for chunk in 0..CHUNKS {
                let number = |n| Number::new(n).expect("small");
                let block =
                    Block::new(number(chunk * CHUNK), number((chunk + 1) * CHUNK)).expect("not empty");
                black_box(mint.spell_block(block, &[], &mut scratch));
            }
        })
    });
    compare("shuffle and spell a base62 x 7 key", spell, "ns", "the goal", spell / 50.0, "<= 50 ns");
    Ok(())
}
