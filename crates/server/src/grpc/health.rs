//! `grpc.health.v1`: SERVING exactly while `/readyz` says so.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use keymill_issuer::{Node, NodeState};
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus::{self, NotServing, ServiceUnknown, Serving},
};

use super::KEYMILL;
use crate::http::status::unready;

/// How often those who watch are told of a clock that is behind; the node's own state is told at once.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Health {
    node: Arc<Node>,
}

impl Health {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

fn is_known(service: &str) -> bool {
    service.is_empty() || service == KEYMILL
}

fn status_of(node: &Node) -> ServingStatus {
    if unready(node).is_none() { Serving } else { NotServing }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl tonic_health::pb::health_server::Health for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !is_known(&request.get_ref().service) {
            return Err(Status::not_found(format!("ask for \"\" or \"{KEYMILL}\"")));
        }
        Ok(Response::new(answer(status_of(&self.node))))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        if !is_known(&request.get_ref().service) {
            // So the protocol wants it: a watcher may come before its service.
            let unknown = stream::iter([Ok(answer(ServiceUnknown))]);
            return Ok(Response::new(Box::pin(futures_util::StreamExt::chain(unknown, stream::pending()))));
        }
        let told = None;
        let changes = stream::unfold((self.node.clone(), told), async |(node, told)| {
            let status = until_changed(&node, told).await?;
            Some((Ok(answer(status)), (node, Some(status))))
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

/// The next status that was not told yet; `None` when there will be none, so that watchers do not hold up a stop.
async fn until_changed(node: &Node, told: Option<ServingStatus>) -> Option<ServingStatus> {
    let mut state = node.state();
    loop {
        let ending = matches!(*state.borrow_and_update(), NodeState::Draining | NodeState::Dead { .. });
        let status = status_of(node);
        if told != Some(status) {
            return Some(status);
        }
        if ending {
            return None;
        }
        tokio::select! {
            changed = state.changed() => changed.ok()?,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}
