//! The keymill command.
fn main() {}
