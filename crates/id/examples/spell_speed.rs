//! How long a key takes: `cargo run --release -p keymill-id --example spell_speed`.
//!
//! Prints nanoseconds a key on one core, the best of several runs, for base62 × 7 as in `links`.

use std::{hint::black_box, time::Instant};

use keymill_id::{
    Alphabet, Block, BlocklistChoice, Definition, Mint, Number, Scheme, Scratch, Secret, Shuffle, Spelling,
    Stated,
};

const CHUNK: u64 = 4096;
const CHUNKS: u64 = 200;
const RUNS: usize = 9;

fn main() {
    let secret = Secret::from_bytes([7; 32]);
    let space = 62_u64.pow(7);
    let shuffle = Shuffle::new(&secret, 7, space);
    let spelling = Spelling::new(Alphabet::parse("base62").expect("a preset"));

    let mut values: Vec<u64> = Vec::new();
    report("shuffle alone, many at a time", || {
        for chunk in 0..CHUNKS {
            values.clear();
            values.extend(chunk * CHUNK..(chunk + 1) * CHUNK);
            shuffle.forward_many(&mut values);
            black_box(&values);
        }
    });

    let mut out = vec![0; values.len() * 7];
    report("spelling alone", || {
        for _ in 0..CHUNKS {
            for (value, key) in values.iter().zip(out.chunks_exact_mut(7)) {
                spelling.spell(*value, key);
            }
            black_box(&out);
        }
    });

    report("single forward", || {
        for value in 0..CHUNK * CHUNKS {
            black_box(shuffle.forward(black_box(value)));
        }
    });

    report("single backward", || {
        for value in 0..CHUNK * CHUNKS {
            black_box(shuffle.backward(black_box(value)));
        }
    });

    let pool = Stated { scheme: Some(Scheme::Pool), ..Stated::default() };
    slabs("shuffle and spelling, into slabs", &pool);
    slabs("the same with a check symbol", &Stated { check: Some(true), ..pool.clone() });
    let blocklist = Some(BlocklistChoice::Named("default".to_owned()));
    slabs("the same with the default blocklist", &Stated { blocklist, ..pool });
    slabs("sequence, into slabs", &Stated { scheme: Some(Scheme::Sequence), ..Stated::default() });
}

fn slabs(what: &str, stated: &Stated) {
    let definition = Definition::resolve(stated, Secret::from_bytes([7; 32])).expect("a valid definition");
    let mint = Mint::compile(&definition);
    let mut scratch = Scratch::default();
    report(what, || {
        let mut start = Number::new(1_000_000).expect("small");
        for _ in 0..CHUNKS {
            let end = start.checked_add(CHUNK).expect("small");
            let block = Block::new(start, end).expect("not empty");
            black_box(mint.spell_block(block, &[], &mut scratch));
            start = end;
        }
    });
}

fn report(what: &str, mut work: impl FnMut()) {
    let best = (0..RUNS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    let best = best.min().expect("at least one run");
    println!("{:6.1} ns/key  {what}", best.as_secs_f64() * 1e9 / (CHUNK * CHUNKS) as f64);
}
