//! The model: every interleaving of a small world, explored over the real decision code.
//!
//! Two nodes, one store, messages that are lost, come late or twice, crashes, clean stops, and one
//! rewind. [`world`] is a moment, [`step`] what may follow, `desk` runs the real operations on it,
//! [`invariants`] says what must never be, [`search`] looks everywhere, [`controls`] takes one guard
//! away at a time. [`windows`] is a world of its own: two owners of one worker id, and their clocks. `cargo run --release -p keymill-sim` prints the full run.

pub mod controls;
mod desk;
pub mod invariants;
pub mod search;
pub mod step;
pub mod windows;
pub mod world;
pub mod worlds;
