//! `Stream`: keys as fast as they are read.
//!
//! A batch is taken when the connection has room for it, so a reader that stops reading stops the taking, and
//! what waits for it is one batch and what HTTP/2 lets us send ahead.

use std::{pin::Pin, sync::Arc, time::Duration, vec};

use futures_util::{Stream, TryStreamExt, stream};
use keymill_api::grpc::KeyBatch;
use keymill_issuer::{IssueError, Node, NodeState, Served};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use super::{
    batch::{self, Form},
    deadline::Deadline,
    refuse::{self, refused},
};
use crate::{auth::Caller, http::State};

/// No limit makes anyone wait for longer between two batches, however deep in debt another request went.
const PACED_MAX: Duration = Duration::from_secs(365 * 86_400);

pub(super) type KeyStream = Pin<Box<dyn Stream<Item = Result<KeyBatch, Status>> + Send>>;

/// What a caller asked for.
pub(super) struct Order {
    pub served: Arc<Served>,
    /// `None`: as many as are read.
    pub count: Option<u64>,
    /// Keys taken at a time.
    pub batch: u32,
    /// How long to wait for keys.
    pub patience: Duration,
    pub deadline: Deadline,
    pub caller: Caller,
}

/// Keeps `seat` as long as the stream is open.
pub(super) fn keys(state: &State, order: Order, seat: OwnedSemaphorePermit) -> KeyStream {
    let (node, measures) = (state.node.clone(), state.measures.clone());
    let form = Form::of(&order.served.definition);
    let course = Course { node, left: order.count, order, form, ready: Vec::new().into_iter(), _seat: seat };
    let keys = stream::try_unfold(course, Course::next);
    Box::pin(keys.inspect_err(move |status| {
        if let Some(code) = refuse::code(status.metadata().as_ref()) {
            measures.grpc.refused(code);
        }
    }))
}

struct Course {
    node: Arc<Node>,
    order: Order,
    form: Form,
    left: Option<u64>,
    /// Taken, and not sent yet.
    ready: vec::IntoIter<KeyBatch>,
    _seat: OwnedSemaphorePermit,
}

impl Course {
    async fn next(mut self) -> Result<Option<(KeyBatch, Self)>, Status> {
        loop {
            if let Some(batch) = self.ready.next() {
                return Ok(Some((batch, self)));
            }
            let Some(count) = self.next_count() else { return Ok(None) };
            self.ready = self.take(count).await?.into_iter();
        }
    }

    /// How many to take next; `None` once all were.
    fn next_count(&mut self) -> Option<u32> {
        let Order { served, batch, caller, .. } = &self.order;
        let batch = caller.portion(served, *batch);
        let Some(left) = &mut self.left else { return Some(batch) };
        let count = u32::try_from(*left).map_or(batch, |left| left.min(batch));
        *left -= u64::from(count);
        (count > 0).then_some(count)
    }

    async fn take(&self, count: u32) -> Result<Vec<KeyBatch>, Status> {
        let Order { served, patience, deadline, caller, .. } = &self.order;
        deadline.check()?;
        // A stream that was begun is slowed down rather than refused, but not for longer than its caller waits.
        let paced = caller.pace(&self.node, served, count);
        if tokio::time::timeout(deadline.patience(PACED_MAX), paced).await.is_err() {
            deadline.check()?;
        }
        caller.refuse_unless_standing().map_err(refused)?;
        // What is on the shelf still goes out to whoever asks once, but an endless stream has to end.
        if matches!(*self.node.state().borrow(), NodeState::Draining | NodeState::Dead { .. }) {
            return Err(refused(IssueError::Draining));
        }
        let patience = deadline.patience(*patience);
        if let Some(ids) = served.take_ids(count, patience).await {
            return Ok(vec![batch::ids(ids.map_err(refused)?)]);
        }
        let haul = served.take(count, patience).await.map_err(refused)?;
        Ok(match self.form {
            Form::Tickets { step } => vec![batch::tickets(&haul, step)],
            Form::Text => batch::text(&haul),
        })
    }
}
