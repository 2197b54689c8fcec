//! Any definition and any text: what is read as a key spells the same key again, and nothing panics.
#![no_main]

use keymill_id::{Definition, Digest, KeyspaceName, Mint, NONCE_LENGTH, Secret, Stated};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|case: (&str, &str)| {
    let (definition, text) = case;
    let _ = KeyspaceName::parse(text);
    let Ok(stated) = serde_json::from_str::<Stated>(definition) else { return };
    let Ok(definition) = Definition::resolve(&stated, Secret::from_bytes([7; Secret::LENGTH])) else { return };
    let mint = match &definition {
        Definition::Pool(_) | Definition::Sequence(_) => Mint::compile(&definition),
        Definition::Digest(digest) => return content(&Digest::compile(digest), text),
        Definition::Snowflake(_) | Definition::Free(_) => return,
    };
    let Some(number) = mint.number_of(text) else { return };
    assert!(number.get() < mint.size());
    if let Some(spelled) = mint.spell_one(number) {
        // Some alphabets are read in either case.
        assert_eq!(mint.number_of(&spelled), Some(number));
        assert_eq!(spelled.len(), text.len());
    }
});

fn content(digest: &Digest, text: &str) {
    if let Some(key) = digest.key_of(text) {
        assert_eq!(digest.key_of(&key).as_ref(), Some(&key));
    }
    let Ok(subject) = digest.subject(text.as_bytes(), Some(text), &[7; NONCE_LENGTH]) else { return };
    for key in subject.candidates().take(8) {
        assert_eq!(digest.key_of(&key), Some(key));
    }
}
