//! Any bytes as the body of a request: refused or understood, never a panic.
#![no_main]

use keymill_api::{KeyspaceSpec, TakeRequest, tuning_patch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    if let Ok(request) = keymill_api::parse::<TakeRequest>(body) {
        let _ = request.count(10_000);
    }
    if let Ok(body) = keymill_api::parse(body) {
        let _ = KeyspaceSpec::from_body(body);
    }
    if let Ok(body) = keymill_api::parse(body) {
        let _ = tuning_patch(body);
    }
});
