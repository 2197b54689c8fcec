//! `keymill.v1`, as compiled from `proto/keymill/v1/keymill.proto`.
#![allow(
    clippy::all,
    unreachable_pub,
    missing_debug_implementations,
    unused_qualifications,
    reason = "generated"
)]

tonic::include_proto!("keymill.v1");

/// The protocol as data, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keymill.v1.bin"));
