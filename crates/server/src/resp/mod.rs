//! The Redis protocol front end, so that an application which pops its keys from Redis only changes an
//! address. It parses, asks and answers, and knows no store.
//!
//! [`frame`] reads commands and `reply` writes answers, both without I/O; the `table` says what there is;
//! `connection` moves the bytes; `listen` accepts, bounds and drains. Connections live on threads of this
//! front end's own, so that HTTP and this one cannot starve each other, and few threads find many commands
//! each time they wake, which is what makes a command cheap. What has to wait – for the ledger, for a
//! refill – waits on the runtime that everything else runs on.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use keymill_api::Refusal;
use keymill_issuer::{IssueError, Node};
use opentelemetry::{KeyValue, trace::SpanKind};
use opentelemetry_sdk::trace::Span;
use tokio::{runtime::Handle, sync::Semaphore};

use crate::{
    auth::{Caller, Guard},
    config::Limits,
    measures::{Measures, Protocol},
    names::Names,
    observers::Observers,
    tls::Tls,
    trace::Traces,
};

mod admission;
mod buffers;
mod commands;
mod connection;
pub mod frame;
pub(crate) mod listen;
mod reply;
mod session;
mod stream;
mod table;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Front {
    node: Arc<Node>,
    names: Arc<Names>,
    limits: Limits,
    guard: Arc<Guard>,
    measures: Arc<Measures>,
    tls: Option<Arc<Tls>>,
    /// Who follows batches of commands, if anyone collects what they see.
    traces: Option<Arc<Traces>>,
    port: u16,
    started: Instant,
    /// One for each connection that may be open.
    seats: Arc<Semaphore>,
    /// One for each command that asks the ledger: a stuck one must not collect them without bound.
    desk: Semaphore,
    /// The same for links, which whole applications ask for.
    names_desk: Semaphore,
    connections: AtomicU64,
    stopping: AtomicBool,
    /// Where commands wait that cannot be answered at once.
    runtime: Handle,
}

impl Front {
    /// To be called on the runtime that the node runs on.
    pub(crate) fn new(
        node: Arc<Node>,
        names: Arc<Names>,
        limits: Limits,
        guard: Arc<Guard>,
        observers: &Observers,
        tls: Option<Arc<Tls>>,
        address: SocketAddr,
    ) -> Arc<Self> {
        let seats = limits.resp_connections.min(u32::MAX as usize >> 1).min(Semaphore::MAX_PERMITS);
        let places = |most: usize| Semaphore::new(most.min(Semaphore::MAX_PERMITS));
        let (desk, names_desk) = (places(limits.admin_requests), places(limits.name_requests));
        Arc::new(Self {
            node,
            names,
            limits,
            guard,
            measures: observers.measures.clone(),
            traces: observers.traces.clone(),
            tls,
            port: address.port(),
            started: Instant::now(),
            seats: Arc::new(Semaphore::new(seats)),
            desk,
            names_desk,
            connections: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            runtime: Handle::current(),
        })
    }

    /// Who a connection is before it says so: nobody, where callers need a token.
    fn newcomer(&self) -> Option<Caller> {
        (!self.guard.is_on()).then_some(Caller::ANYONE)
    }

    /// How long a command may wait for keys.
    fn patience(&self) -> Duration {
        self.limits.take_timeout.duration()
    }

    /// Whatever may have to wait for the ledger, for as long as a caller waits.
    async fn in_time<T>(&self, asked: impl Future<Output = T>) -> Result<T, Refusal> {
        let answered = tokio::time::timeout(self.patience(), asked).await;
        answered.map_err(|_| IssueError::LedgerUnavailable.into())
    }

    /// The same for what only the ledger can answer, so long as not too many ask already.
    async fn ask_ledger<T>(&self, asked: impl Future<Output = T>) -> Result<T, Refusal> {
        let _place = self.desk.try_acquire().map_err(|_| Refusal::from(IssueError::Overloaded))?;
        self.in_time(asked).await
    }

    /// The same for where keys lead.
    async fn ask_names<T>(&self, asked: impl Future<Output = T>) -> Result<T, Refusal> {
        let _place = self.names_desk.try_acquire().map_err(|_| Refusal::from(IssueError::Overloaded))?;
        self.in_time(asked).await
    }

    /// What is counted of this protocol.
    #[inline]
    fn measure(&self) -> &Protocol {
        &self.measures.resp
    }

    /// The span of a batch of commands that is followed. The protocol has no place for who asks, so chance decides.
    fn follow(&self, bytes: usize) -> Option<Span> {
        let traces = self.traces.as_ref()?;
        let parent = traces.by_chance()?;
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let attributes = vec![
            KeyValue::new("network.protocol.name", "redis"),
            KeyValue::new("keymill.received_bytes", bytes),
        ];
        Some(traces.span("redis commands", SpanKind::Server, attributes, &parent))
    }

    fn connected(&self) -> usize {
        self.limits.resp_connections.saturating_sub(self.seats.available_permits())
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
