//! What goes over the wire between servers and SDKs, and no more: the gRPC protocol, and the table of codes that
//! say why something was refused. An SDK that uses this crate builds no store and no server.

mod code;
pub mod grpc;

pub use code::{Code, Grpc};
