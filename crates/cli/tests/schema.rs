//! The API does what `/openapi.json` says, whatever it is sent: schemathesis makes the requests, from a fixed
//! seed. No request is answered with a server error, nor with anything that the document does not tell of.

use std::time::Duration;

mod harness;
use harness::{Home, finish, python::Packages, sized};

const PYTHON: &[&str] = &["schemathesis==4.32.5"];
const SEED: &str = "20260101";
/// What an answer must be. Whether a request *should* have been refused is left to tests that know why.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,unsupported_method,\
                      allow_header_conformance";

#[test]
fn every_answer_is_one_that_the_document_tells_of() {
    let home = Home::new();
    let server = home.start();
    let mut command = Packages::installed("schemathesis", PYTHON).python();
    command
        .current_dir(home.path())
        .args(["-m", "schemathesis.cli", "run", &format!("{}/openapi.json", server.url())])
        .args(["--seed", SEED, "--max-examples", &sized(20, 500).to_string()])
        .args(["--phases", "examples,coverage,fuzzing", "--checks", CHECKS])
        .args(["--workers", "1", "--continue-on-failure", "--generation-database", "none", "--no-color"]);
    let finished = finish(command, Duration::from_secs(if sized(0, 1) == 0 { 300 } else { 3600 }));
    assert_eq!(finished.code, Some(0), "{}\n{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("Tested: "), "it tested nothing: {}", finished.stdout);
    // Whatever was created on the way, keys still come.
    assert_eq!(server.take("links", 10).len(), 10);
    server.terminate();
}
