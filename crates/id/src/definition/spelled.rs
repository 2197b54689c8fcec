//! What pools, sequences and digests have in common: how their keys are written.

use super::error::{DefinitionError, invalid};
use crate::{
    alphabet::Alphabet,
    blocklist::{Blocklist, BlocklistChoice},
    stated::Stated,
};

const PREFIX_LENGTH_MAX: usize = 16;

pub(super) fn resolve_alphabet(stated: &Stated, default: &str) -> Result<Alphabet, DefinitionError> {
    let text = stated.alphabet.as_deref().unwrap_or(default);
    Alphabet::parse(text).map_err(|error| invalid("alphabet", error.to_string()))
}

pub(super) fn resolve_prefix(stated: &Stated) -> Result<String, DefinitionError> {
    let prefix = stated.prefix.as_deref().unwrap_or_default();
    if !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        return Err(invalid("prefix", "it is made of `A-Z`, `a-z`, `0-9`, `_` and `-`"));
    }
    if prefix.len() > PREFIX_LENGTH_MAX {
        let reason = format!("it has {} characters and may have {PREFIX_LENGTH_MAX}", prefix.len());
        return Err(invalid("prefix", reason));
    }
    Ok(prefix.to_owned())
}

pub(super) fn resolve_check(stated: &Stated, alphabet: &Alphabet) -> Result<bool, DefinitionError> {
    let check = stated.check.unwrap_or(false);
    if check && !alphabet.radix().is_multiple_of(2) {
        let reason = format!(
            "ISO 7064 MOD N+1,N needs an alphabet of even size and {alphabet} has {} symbols; \
             add or drop one, or leave `check` out",
            alphabet.radix()
        );
        return Err(invalid("check", reason));
    }
    Ok(check)
}

/// The words no key may contain; the prefix, which is in every key, must not contain one.
pub(super) fn resolve_blocklist(stated: &Stated, prefix: &str) -> Result<BlocklistChoice, DefinitionError> {
    let blocklist = stated.blocklist.clone().unwrap_or_default();
    let compiled = Blocklist::new(&blocklist).map_err(|error| invalid("blocklist", error.to_string()))?;
    if compiled.blocks(prefix.as_bytes()) {
        return Err(invalid(
            "prefix",
            format!("`{prefix}` contains a word of the blocklist, so every key would be blocked"),
        ));
    }
    Ok(blocklist)
}
