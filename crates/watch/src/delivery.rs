//! Carries out what an outbox says: one task a sink, so that a slow one holds up no other.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Instant, SystemTime},
};

use tokio::sync::Notify;

use crate::{
    board::Board,
    notice::{Notice, Status},
    outbox::{Outbox, Step},
    sink::Sink,
    web::{self, Web},
};

/// Where notices for one sink are put.
#[derive(Debug)]
pub(crate) struct Letterbox {
    sink: Box<dyn Sink>,
    outbox: Mutex<Outbox>,
    arrived: Notify,
    begun: Instant,
}

impl Letterbox {
    pub(crate) fn new(sink: Box<dyn Sink>) -> Arc<Self> {
        let outbox = Mutex::new(Outbox::new(sink.repeat()));
        Arc::new(Self { sink, outbox, arrived: Notify::new(), begun: Instant::now() })
    }

    pub(crate) fn put(&self, notice: Notice) {
        let subject = notice.subject.to_string();
        if !self.lock().put(notice) {
            let sink = self.sink.name();
            tracing::error!(
                sink,
                subject,
                "{sink} has too much to be told already; it will not hear of `{subject}`"
            );
        }
        self.arrived.notify_one();
    }

    /// Delivers, until it is dropped.
    pub(crate) async fn deliver(self: Arc<Self>, web: Arc<dyn Web>, board: Arc<Board>) {
        loop {
            let step = self.lock().step(self.begun.elapsed());
            match step {
                Step::Idle => self.arrived.notified().await,
                Step::Wait(pause) => {
                    tokio::select! {
                        () = self.arrived.notified() => {}
                        () = tokio::time::sleep(pause) => {}
                    }
                }
                Step::Tell(notice) => self.tell(&notice, &*web, &board).await,
            }
        }
    }

    async fn tell(&self, notice: &Notice, web: &dyn Web, board: &Board) {
        let sent = tokio::time::timeout(web::PATIENCE, web.send(self.sink.request(notice))).await;
        let trouble = match sent {
            Ok(Ok(answer)) if answer.is_success() => {
                self.lock().told(notice, self.begun.elapsed());
                if notice.status == Status::Firing {
                    board.notified(notice.incident, SystemTime::now());
                }
                return self.say_told(notice);
            }
            Ok(Ok(answer)) => format!("it answered {}", answer.status),
            Ok(Err(error)) => error,
            Err(_) => format!("no answer within {:?}", web::PATIENCE),
        };
        let failures = self.lock().failed(notice, self.begun.elapsed(), chance());
        // Not at every try: a sink may be down for long.
        if failures.is_power_of_two() {
            let sink = self.sink.name();
            tracing::warn!(
                sink,
                failures,
                trouble,
                "{sink} was not told of `{}`: {trouble}; retrying",
                notice.subject
            );
        }
    }

    fn say_told(&self, notice: &Notice) {
        let (sink, status) = (self.sink.name(), notice.status.as_str());
        tracing::info!(sink, status, subject = %notice.subject, "{sink} was told that `{}` is {status}", notice.subject);
    }

    fn lock(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().expect("nothing panics while it holds an outbox")
    }
}

/// What pauses differ by. Without entropy they are merely less random.
fn chance() -> f64 {
    let mut random = [0; 4];
    let _ = getrandom::fill(&mut random);
    f64::from(u32::from_ne_bytes(random)) / f64::from(u32::MAX)
}
