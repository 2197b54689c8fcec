//! What the tests share: short ways to a definition and its mint.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

use keymill_id::{Block, Definition, DefinitionError, Mint, Number, Scratch, Secret, Slab, Stated};

/// 00 01 02 … 1f, the secret of every golden vector.
pub(crate) fn secret() -> Secret {
    let mut bytes = [0; Secret::LENGTH];
    for (byte, value) in bytes.iter_mut().zip(0..) {
        *byte = value;
    }
    Secret::from_bytes(bytes)
}

/// What a request with this body states.
pub(crate) fn stated(json: &str) -> Stated {
    serde_json::from_str(json).unwrap()
}

pub(crate) fn resolve(json: &str) -> Result<Definition, DefinitionError> {
    Definition::resolve(&stated(json), secret())
}

pub(crate) fn mint(json: &str) -> Mint {
    Mint::compile(&resolve(json).unwrap())
}

pub(crate) fn number(number: u64) -> Number {
    Number::new(number).unwrap()
}

pub(crate) fn key(mint: &Mint, n: u64) -> String {
    mint.spell_one(number(n)).unwrap()
}

pub(crate) fn slab(mint: &Mint, start: u64, end: u64, holes: &[u64]) -> Slab {
    let block = Block::new(number(start), number(end)).unwrap();
    let holes: Vec<_> = holes.iter().copied().map(number).collect();
    mint.spell_block(block, &holes, &mut Scratch::default())
}

pub(crate) fn keys(slab: &Slab) -> Vec<String> {
    (0..slab.len()).map(|at| String::from_utf8(slab.key(at).to_vec()).unwrap()).collect()
}
