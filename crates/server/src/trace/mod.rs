//! Traces: a span for a request that someone follows, sent to a collector by OTLP.
//!
//! Off unless `trace.otlp_endpoint` is set, and then a request costs one branch. Whether one is followed is decided
//! before anything is made for it: by its `traceparent`, if it has one that can be read, else by a throw of dice
//! that needs no lock. There is a span per request, per batch of Redis commands and per ledger call, never one per
//! key; and none of them says a key, a token or where a link leads.

use std::{
    cell::Cell,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::HeaderMap;
use keymill_ledger::Ledger;
use opentelemetry::{
    Context, KeyValue,
    trace::{Span as _, SpanContext, SpanKind, TraceContextExt, Tracer as _, TracerProvider as _},
};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};

use crate::config::TraceConfig;

mod export;
mod ledger;
mod parent;
mod route;

pub(crate) use parent::{TRACEPARENT, traceparent};
pub(crate) use route::route;

tokio::task_local! {
    /// What the calls of a followed request belong to.
    static FOLLOWED: SpanContext;
}

#[derive(Debug)]
pub(crate) struct Traces {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
    /// How likely a request without a parent is followed, in 2^64ths.
    odds: AtomicU64,
}

impl Traces {
    /// `None`: nobody collects them. To be called on the runtime, which carries the exporter's connection.
    pub(crate) fn open(config: &TraceConfig, node: &str) -> anyhow::Result<Option<Arc<Self>>> {
        if config.otlp_endpoint.is_empty() {
            return Ok(None);
        }
        let provider = export::to_collector(&config.otlp_endpoint, node)?;
        let tracer = provider.tracer("keymill");
        Ok(Some(Arc::new(Self { tracer, provider, odds: AtomicU64::new(odds(config.sample_ratio)) })))
    }

    pub(crate) fn set_ratio(&self, ratio: f64) {
        self.odds.store(odds(ratio), Ordering::Relaxed);
    }

    /// What a request's span belongs to; `None` if the request is not followed. A caller who follows it decides;
    /// one that says nothing, or nothing that can be read, leaves it to chance.
    #[inline]
    pub(crate) fn parent(&self, headers: &HeaderMap) -> Option<Context> {
        match parent::read(headers) {
            Some(parent) if parent.is_sampled() => Some(Context::new().with_remote_span_context(parent)),
            Some(_) => None,
            None => self.by_chance(),
        }
    }

    /// For what brings no headers.
    #[inline]
    pub(crate) fn by_chance(&self) -> Option<Context> {
        let odds = self.odds.load(Ordering::Relaxed);
        (odds > 0 && roll() <= odds).then(Context::new)
    }

    pub(crate) fn span(
        &self,
        name: impl Into<std::borrow::Cow<'static, str>>,
        kind: SpanKind,
        attributes: Vec<KeyValue>,
        parent: &Context,
    ) -> Span {
        let builder = self.tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
        builder.start_with_context(&self.tracer, parent)
    }

    /// The same ledger, whose calls are followed.
    pub(crate) fn around(self: &Arc<Self>, ledger: Arc<dyn Ledger>) -> Arc<dyn Ledger> {
        Arc::new(ledger::Followed { inner: ledger, traces: self.clone() })
    }

    /// Sends what is left, for as long as is allowed.
    pub(crate) async fn close(&self, within: Duration) {
        let provider = self.provider.clone();
        // It waits for its own thread, so not on one of ours.
        let closed = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(within));
        let _ = tokio::time::timeout(within, closed).await;
    }
}

/// Runs what belongs to a span, so that ledger calls in it are its children.
pub(crate) fn under<F: Future>(span: &Span, what: F) -> impl Future<Output = F::Output> + use<F> {
    FOLLOWED.scope(span.span_context().clone(), what)
}

/// What this task's calls belong to, if it answers a followed request.
fn followed() -> Option<Context> {
    FOLLOWED.try_with(|followed| Context::new().with_remote_span_context(followed.clone())).ok()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 1")]
fn odds(ratio: f64) -> u64 {
    (ratio * u64::MAX as f64) as u64
}

/// A number that is as good as random, from a state that each thread has for itself (SplitMix64).
fn roll() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(getrandom::u64().unwrap_or(0x5eed));
    }
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_followed_as_the_ratio_says() {
        for (ratio, fewest, most) in [(0.0, 0, 0), (0.5, 4_000, 6_000), (1.0, 10_000, 10_000)] {
            let odds = odds(ratio);
            let followed = (0..10_000).filter(|_| odds > 0 && roll() <= odds).count();
            assert!((fewest..=most).contains(&followed), "{ratio}: {followed}");
        }
    }
}
