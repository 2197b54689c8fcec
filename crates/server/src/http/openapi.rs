//! The API as a document: made from the handlers, served at `/openapi.json`, kept in the repository.

use axum::response::{IntoResponse, Response};
use utoipa::{
    Modify, OpenApi,
    openapi::{ContentBuilder, PathItem, Ref, RefOr, ResponseBuilder, Schema, path::Operation},
};

use super::{decode, history, incidents, issued, keyspaces, ledger, links, rows, status, stream, tokens};

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
        keyspaces::tune, keyspaces::retire, rows::fill, rows::import,
        links::claim, links::create, links::create_all, links::bind, links::show, links::change, links::delete,
        links::list, links::refer, links::refer_all, links::referred, links::references, links::import_used,
        decode::decode,
        decode::at,
        decode::range,
        ledger::show, ledger::advance, ledger::backup, ledger::nodes,
        ledger::workers,
        ledger::claims, tokens::create, tokens::list, tokens::revoke, incidents::list, history::show, issued::list, status::healthz, status::readyz, stream::stream
    ),
    components(schemas(keymill_api::Snapshot, keymill_api::Problem, keymill_api::FieldError)),
    modifiers(&Refusals),
    tags((name = "keys"), (name = "keyspaces"), (name = "names"), (name = "decode"), (name = "ledger"), (name = "tokens"), (name = "status"))
)]
struct Document;

const PROBLEM: &str = "application/problem+json";

/// Any call may be refused, and every refusal is a problem: said here, once for all.
struct Refusals;

impl Modify for Refusals {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let problem = Ref::from_schema_name("Problem");
        let refused = ResponseBuilder::new()
            .description("Refused: `code` says why, `detail` what to do next")
            .content(PROBLEM, ContentBuilder::new().schema(Some(problem.clone())).build())
            .build();
        for operation in document.paths.paths.values_mut().flat_map(operations) {
            for response in operation.responses.responses.values_mut() {
                let RefOr::T(response) = response else { continue };
                let is_problem = |schema: &RefOr<Schema>| *schema == RefOr::Ref(problem.clone());
                for (kind, content) in std::mem::take(&mut response.content) {
                    let problem = matches!(&content, RefOr::T(content) if content.schema.as_ref().is_some_and(is_problem));
                    response.content.insert(if problem { PROBLEM.to_owned() } else { kind }, content);
                }
            }
            operation.responses.responses.insert("default".to_owned(), refused.clone().into());
        }
    }
}

fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, patch, delete, .. } = path;
    [get, put, post, patch, delete].into_iter().flatten()
}

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
