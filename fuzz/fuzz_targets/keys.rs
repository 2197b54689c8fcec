//! Any definition and any text: what is read as a key spells the same key again, and nothing panics.
#![no_main]

use keymill_id::{Definition, KeyspaceName, Mint, Secret, Stated};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|case: (&str, &str)| {
    let (definition, text) = case;
    let _ = KeyspaceName::parse(text);
    let Ok(stated) = serde_json::from_str::<Stated>(definition) else { return };
    let Ok(definition) = Definition::resolve(&stated, Secret::from_bytes([7; Secret::LENGTH])) else { return };
    if !matches!(definition, Definition::Pool(_) | Definition::Sequence(_)) {
        return;
    }
    let mint = Mint::compile(&definition);
    let Some(number) = mint.number_of(text) else { return };
    assert!(number.get() < mint.size());
    if let Some(spelled) = mint.spell_one(number) {
        // Some alphabets are read in either case.
        assert_eq!(mint.number_of(&spelled), Some(number));
        assert_eq!(spelled.len(), text.len());
    }
});
