//! What the engines really answer, and what is made of it.

mod alike;
mod common;
mod embedded;
mod shared;
