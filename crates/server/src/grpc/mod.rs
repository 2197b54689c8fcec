//! The gRPC front end, on the HTTP port: parses, asks, answers. It knows no store.
//!
//! `keymill.v1` is called directly, because it is nearly all of the traffic; health and reflection go
//! through a router.

use std::sync::Arc;

use hyper::{Request, Response, Version, body::Incoming, header::CONTENT_TYPE};
use keymill_api::grpc::{DESCRIPTORS, keymill_server::KeymillServer};
use tonic::{body::Body, service::Routes};
use tonic_health::pb::health_server::HealthServer;
use tower::Service as _;

use crate::{auth::Guard, config::Limits, http::State, measures::Measures};

mod arrival;
mod batch;
mod deadline;
mod health;
mod refuse;
mod service;
mod stream;

use service::Service;

/// The name callers ask the health of.
const KEYMILL: &str = keymill_api::grpc::keymill_server::SERVICE_NAME;

#[derive(Debug, Clone)]
pub(crate) struct Grpc {
    keymill: KeymillServer<Service>,
    others: Routes,
    limits: Arc<Limits>,
    guard: Arc<Guard>,
    measures: Arc<Measures>,
}

impl Grpc {
    pub(crate) fn new(state: Arc<State>) -> Self {
        let limits = Arc::new(state.config.limits.clone());
        let most = usize::try_from(limits.body_bytes.0).unwrap_or(usize::MAX);
        let health = HealthServer::new(health::Health::new(state.node.clone()));
        let others = reflection(Routes::new(health.max_decoding_message_size(most)), most);
        let (guard, measures) = (state.guard.clone(), state.measures.clone());
        let keymill = KeymillServer::new(Service::new(state)).max_decoding_message_size(most);
        Self { keymill, others: others.prepare(), limits, guard, measures }
    }

    pub(crate) async fn call(&self, request: Request<Incoming>) -> Response<Body> {
        let begun = self.measures.grpc.begin();
        let response = self.answer(request).await;
        self.measures.grpc.answered(1, begun);
        if let Some(code) = refuse::code(response.headers()) {
            self.measures.grpc.refused(code);
        }
        response
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        let is_ours = request.uri().path().strip_prefix('/').is_some_and(|path| path.starts_with(KEYMILL));
        let Ok(mut response) = if is_ours {
            // Health and reflection are open to all, as their HTTP kin are.
            match self.guard.bearer(request.headers()) {
                Ok(caller) => request.extensions_mut().insert(caller),
                Err(refusal) => return refuse::status(&refusal).into_http(),
            };
            let within = self.limits.request_timeout;
            self.keymill.clone().call(request.map(|body| arrival::Timely::new(body, within))).await
        } else {
            self.others.clone().call(request).await
        };
        refuse::name_the_libraries_own(&mut response, &self.limits);
        response
    }
}

/// Whether a request speaks gRPC: the protocol needs HTTP/2, and says so in its type.
pub(crate) fn is_grpc(request: &Request<Incoming>) -> bool {
    let kind = || request.headers().get(CONTENT_TYPE)?.as_bytes().strip_prefix(b"application/grpc");
    request.version() == Version::HTTP_2
        && kind().is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Two versions of one service: older clients know only the second.
fn reflection(routes: Routes, most: usize) -> Routes {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (Ok(v1), Ok(v1alpha)) = (builder().build_v1(), builder().build_v1alpha()) else {
        unreachable!("the descriptors were compiled with this program")
    };
    routes
        .add_service(v1.max_decoding_message_size(most))
        .add_service(v1alpha.max_decoding_message_size(most))
}
