//! A warning that comes with a `COMMIT`.
//!
//! PostgreSQL answers `COMMIT` with success although a wait for a synchronous standby was cancelled: the
//! transaction is on the primary's disk and perhaps nowhere else. All that tells is a warning beside the
//! answer, and the driver offers warnings in one way only, as events of `tracing`. So a commit is awaited
//! under a subscriber of its own that notes them. It is the subscriber of that one future, whatever
//! logging the process has, and it sees nothing else.

use std::{cell::RefCell, fmt, future::Future, sync::OnceLock};

use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    instrument::WithSubscriber,
    level_filters::LevelFilter,
    span,
};

/// Where the driver puts what PostgreSQL says besides its answers.
const NOTICES: &str = "sqlx::postgres::notice";

tokio::task_local! {
    static WARNING: RefCell<Option<String>>;
}

/// Awaits `commit`, and says what the engine warned of meanwhile.
pub(crate) async fn heard<F: Future>(commit: F) -> (F::Output, Option<String>) {
    static LISTENER: OnceLock<Dispatch> = OnceLock::new();
    let listener = LISTENER.get_or_init(|| Dispatch::new(Listener));
    WARNING
        .scope(RefCell::default(), async {
            let output = commit.with_subscriber(listener.clone()).await;
            (output, WARNING.with(RefCell::take))
        })
        .await
}

struct Listener;

impl Listener {
    fn hears(metadata: &Metadata<'_>) -> bool {
        metadata.target() == NOTICES && *metadata.level() <= Level::WARN
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        Self::hears(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        if Self::hears(event.metadata()) {
            let mut message = Message::default();
            event.record(&mut message);
            let _ = WARNING.try_with(|warning| warning.replace(Some(message.0)));
        }
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}
    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}
    fn enter(&self, _span: &span::Id) {}
    fn exit(&self, _span: &span::Id) {}
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_warning_is_heard_by_the_commit_that_it_belongs_to() {
        let warned = heard(async {
            tracing::warn!(target: NOTICES, "canceling wait");
            tokio::task::yield_now().await;
            7
        });
        let quiet = heard(async {
            tokio::task::yield_now().await;
            tracing::warn!("something else");
            tracing::info!(target: NOTICES, "no more than a notice");
        });
        let (warned, quiet) = tokio::join!(warned, quiet);
        assert_eq!(warned, (7, Some("canceling wait".to_owned())));
        assert_eq!(quiet.1, None);
    }
}
