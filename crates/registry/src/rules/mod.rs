//! What may be kept at all: targets, names people choose, references, keys of requests. Pure functions, asked
//! before anything is sent to an engine.

pub mod alias;
pub mod canonical;
pub mod idempotency;
mod network;
pub mod reference;
mod script;
pub mod target;

/// What a message repeats of a text that may be anything: escaped, and no longer than a line.
fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 64;
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}
