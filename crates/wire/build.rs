//! Compiles the protocol in Rust, so that a build needs no protoc.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const PROTO: &str = "keymill/v1/keymill.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // Servers show it to whoever asks what they speak.
    fs::write(out.join("keymill.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        // Copied once, when a message is put together, and not again.
        .bytes(".keymill.v1.Text.joined")
        .compile_fds(descriptors)?;
    Ok(())
}
