//! A request that is followed: its span begins with it, ends with the last byte of its answer, and is named in the
//! answer's `traceparent`.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::{
    HeaderMap, Request, Response,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
};
use keymill_api::{Code, grpc::keymill_server::SERVICE_NAME};
use keymill_id::KeyspaceName;
use opentelemetry::{
    KeyValue,
    trace::{Span as _, SpanKind, Status},
};
use opentelemetry_sdk::trace::Span;

use super::{App, answer::Body};
use crate::trace::{self, TRACEPARENT, Traces};

const GRPC_STATUS: &str = "grpc-status";
/// Statuses that say that the server is to blame, as OpenTelemetry sorts them.
const GRPC_FAILURES: [&str; 6] = ["2", "4", "12", "13", "14", "15"];

/// No call of ours has a longer name.
const METHOD_MAX: usize = 32;

/// Answers it as [`App::route`] would.
pub(super) async fn answer(
    app: &App,
    traces: &Traces,
    parent: opentelemetry::Context,
    request: Request<Incoming>,
    is_grpc: bool,
) -> Response<Body> {
    let (name, attributes) = if is_grpc { call(&request) } else { asked(&request) };
    let mut span = traces.span(name, SpanKind::Server, attributes, &parent);
    let mut response = trace::under(&span, app.route(request, is_grpc)).await;
    if let Some(named) = trace::traceparent(span.span_context()) {
        response.headers_mut().insert(TRACEPARENT, named);
    }
    if !is_grpc {
        let status = response.status();
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
        if status.is_server_error() {
            span.set_status(Status::error(""));
        }
    }
    if let Some(code) = response.extensions().get::<Code>() {
        span.set_attribute(KeyValue::new("error.type", code.as_str()));
    }
    note_status(&mut span, response.headers());
    response.map(|body| Body::Traced(Box::new(Traced { body, span })))
}

fn asked(request: &Request<Incoming>) -> (String, Vec<KeyValue>) {
    let (method, path) = (request.method(), request.uri().path());
    let route = trace::route(path);
    // What is no method of HTTP's may be anything.
    let method = if method.as_str().len() <= 7 { method.as_str() } else { "_OTHER" };
    let mut attributes =
        vec![KeyValue::new("http.request.method", method.to_owned()), KeyValue::new("http.route", route)];
    let keyspace = path.strip_prefix("/v1/keyspaces/").and_then(|rest| rest.split('/').next());
    let keyspace = keyspace.and_then(|name| KeyspaceName::parse(name).ok());
    attributes.extend(keyspace.map(|name| KeyValue::new("keymill.keyspace", name.to_string())));
    (format!("{method} {route}"), attributes)
}

fn call(request: &Request<Incoming>) -> (String, Vec<KeyValue>) {
    let path = request.uri().path().trim_start_matches('/');
    // What is no service of ours may be anything.
    let (service, method) = path.split_once('/').filter(|called| is_known(*called)).unwrap_or(("…", "…"));
    let attribute = |name, value: &str| KeyValue::new(name, value.to_owned());
    let attributes = vec![
        attribute("rpc.system", "grpc"),
        attribute("rpc.service", service),
        attribute("rpc.method", method),
    ];
    (format!("{service}/{method}"), attributes)
}

fn is_known((service, method): (&str, &str)) -> bool {
    let ours = service == SERVICE_NAME
        || service.starts_with("grpc.health.")
        || service.starts_with("grpc.reflection.");
    ours && method.len() <= METHOD_MAX && method.bytes().all(|letter| letter.is_ascii_alphabetic())
}

/// How a call ended; it says so in front of its answer or behind it.
fn note_status(span: &mut Span, headers: &HeaderMap) {
    let Some(status) = headers.get(GRPC_STATUS).and_then(|status| status.to_str().ok()) else { return };
    span.set_attribute(KeyValue::new("rpc.grpc.status_code", status.parse::<i64>().unwrap_or(-1)));
    if GRPC_FAILURES.contains(&status) {
        span.set_status(Status::error(""));
    }
    if let Some(code) = headers.get("keymill-code").and_then(|code| code.to_str().ok()) {
        span.set_attribute(KeyValue::new("error.type", code.to_owned()));
    }
}

/// An answer that holds its span until it is sent or given up.
#[derive(Debug)]
pub(crate) struct Traced {
    body: Body,
    span: Span,
}

impl HttpBody for Traced {
    type Data = Bytes;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Self { body, span } = &mut *self;
        let polled = Pin::new(body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    note_status(span, trailers);
                }
            }
            Poll::Ready(Some(Err(_))) => span.set_status(Status::error("the answer was cut off")),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
