//! A request that has to arrive in time: whoever sends headers and then nothing does not hold a place for ever.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use keymill_api::{Code, Refusal};
use keymill_issuer::quantity::Span;
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::refuse;

/// A body, and how long it may take from the first time it keeps us waiting.
#[derive(Debug)]
pub(super) struct Timely {
    body: Incoming,
    within: Span,
    /// Set once the body had to be waited for; most are there at once.
    late: Option<Pin<Box<Sleep>>>,
}

impl Timely {
    pub(super) fn new(body: Incoming, within: Span) -> Self {
        Self { body, within, late: None }
    }
}

impl Body for Timely {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| {
                frame.map_err(|_| refuse::broken("the request did not arrive whole; send it again"))
            }));
        }
        let within = self.within;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(within.duration())));
        late.as_mut().poll(context).map(|()| {
            let detail = format!("the request did not arrive within limits.request_timeout ({within})");
            Some(Err(refuse::status(&Refusal::new(Code::RequestTimeout, detail))))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
