//! How long texts and batches may be. Whatever is longer is refused before a statement is sent, so that no
//! engine gets to cut it off.

use crate::{RegistryError, tables::Mark};

/// Bytes of whatever is looked up by: keyspaces, names, skeletons, identities, scopes, attempts.
pub const NAME_MAX: usize = 255;
/// Bytes of a target, and of a reference.
pub const TEXT_MAX: usize = 2_048;
/// Bytes of an owner.
pub const OWNER_MAX: usize = 255;
/// Bytes of an answer that is kept for a retry.
pub const ANSWER_MAX: usize = 1 << 20;
/// Items of one call.
pub const BATCH_MAX: usize = 10_000;
/// Candidates of one derived key.
pub const CANDIDATES_MAX: usize = 100;
/// References that are told of one key.
pub const REFERENCES_SHOWN: u32 = 100;
/// Entries or references of one page. One more than others are given at once: it shows whether another page follows.
pub const PAGE_MAX: u32 = 1_001;
/// Entries that one page of a listing looks at.
pub const SCAN_MAX: u32 = 10_000;

pub(crate) type Checked = Result<(), RegistryError>;

/// `what` is looked up by: it must be there, and fit an indexed column.
pub(crate) fn name(what: &str, text: &str) -> Checked {
    if text.is_empty() {
        return Err(RegistryError::Refused(format!("{what} is empty")));
    }
    at_most(what, text, NAME_MAX)
}

/// Kept with a prefix, in an indexed column.
pub(crate) fn mark(what: &str, text: &str) -> Checked {
    at_most(what, text, NAME_MAX - Mark::PREFIX)
}

pub(crate) fn skeleton(skeleton: Option<&String>) -> Checked {
    skeleton.map_or(Ok(()), |skeleton| mark("the skeleton", skeleton))
}

pub(crate) fn text(what: &str, text: &str) -> Checked {
    at_most(what, text, TEXT_MAX)
}

pub(crate) fn owner(owner: Option<&String>) -> Checked {
    owner.map_or(Ok(()), |owner| at_most("the owner", owner, OWNER_MAX))
}

pub(crate) fn answer(answer: &str) -> Checked {
    at_most("the answer to keep", answer, ANSWER_MAX)
}

pub(crate) fn batch(items: usize) -> Checked {
    if items <= BATCH_MAX {
        return Ok(());
    }
    Err(RegistryError::Refused(format!("{items} items are more than {BATCH_MAX} in one call; send fewer")))
}

pub(crate) fn page(limit: u32) -> Checked {
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(());
    }
    Err(RegistryError::Refused(format!("a page of {limit} is not one of 1 to {PAGE_MAX}")))
}

fn at_most(what: &str, text: &str, bytes: usize) -> Checked {
    if text.len() > bytes {
        let len = text.len();
        return Err(RegistryError::Refused(format!("{what} has {len} bytes, and at most {bytes} are kept")));
    }
    // PostgreSQL keeps no NUL, and what one engine refuses all do.
    if text.contains('\0') {
        return Err(RegistryError::Refused(format!("{what} holds a NUL character")));
    }
    Ok(())
}
