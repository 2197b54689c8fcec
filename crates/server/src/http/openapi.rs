//! The API as a document: made from the handlers, served at `/openapi.json`, kept in the repository.

use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;

use super::{decode, keyspaces, ledger, status};

#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Keymill",
        description = "Unique keys and IDs, served from memory. Keys and ledger numbers are strings; errors are \
                       problem+json with a stable `code`.",
        license(name = "MIT OR Apache-2.0")
    ),
    paths(
        keyspaces::take_doc, keyspaces::inspect, keyspaces::create, keyspaces::list, keyspaces::show,
        keyspaces::tune, keyspaces::retire, decode::decode,
        decode::at,
        decode::range,
        ledger::show, ledger::advance, ledger::backup, ledger::nodes,
        ledger::workers,
        ledger::claims, status::healthz, status::readyz
    ),
    components(schemas(keymill_api::Problem, keymill_api::FieldError)),
    tags((name = "keys"), (name = "keyspaces"), (name = "decode"), (name = "ledger"), (name = "status"))
)]
struct Document;

/// The document, as text that ends in a newline.
pub fn text() -> String {
    let mut text = Document::openapi().to_pretty_json().expect("the document is plain data");
    text.push('\n');
    text
}

pub(crate) async fn serve() -> Response {
    ([(axum::http::header::CONTENT_TYPE, "application/json")], text()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE=1 cargo test -p keymill-server openapi` writes the file anew.
    #[test]
    fn the_document_in_the_repository_is_what_the_server_serves() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.json");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, text()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), text(), "run this test with UPDATE=1");
    }
}
