//! What the front ends count of themselves, protocol by protocol: how long answers took, what was refused, who
//! is connected. Keys are not counted here: the shelf's own positions say how many left.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use keymill_api::Code;
use keymill_issuer::{Durations, Histogram};
use tokio::runtime::RuntimeMetrics;

const UNBROKEN: &str = "nothing panics while it holds this lock";

#[derive(Debug)]
pub(crate) struct Measures {
    pub http: Protocol,
    pub grpc: Protocol,
    pub resp: Protocol,
    /// Answers over HTTP by class of status: 2xx, 4xx, 5xx.
    classes: [AtomicU64; 6],
    threads: Mutex<Vec<(&'static str, Threads)>>,
}

/// Threads that serve one protocol, as their runtimes see them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Threads(Vec<RuntimeMetrics>);

/// What is counted of one protocol.
#[derive(Debug)]
pub(crate) struct Protocol {
    /// As it is called in labels.
    pub name: &'static str,
    /// Unless `metrics.durations` is off.
    durations: Option<Histogram>,
    /// In the order of [`Code::ALL`].
    refusals: Vec<AtomicU64>,
    connections: AtomicU64,
}

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Presence<'p>(&'p Protocol);

impl Measures {
    /// `durations`: whether answers are timed.
    pub(crate) fn new(durations: bool) -> Self {
        let of = |name| Protocol {
            name,
            durations: durations.then(Histogram::default),
            refusals: Code::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            connections: AtomicU64::new(0),
        };
        let threads = Mutex::default();
        Self { http: of("http"), grpc: of("grpc"), resp: of("resp"), classes: Default::default(), threads }
    }

    /// What an answer over HTTP was; whoever refused left the code with it.
    pub(crate) fn answered_http<B>(&self, response: &hyper::Response<B>) {
        let class = usize::from(response.status().as_u16() / 100).min(self.classes.len() - 1);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        if class >= 4
            && let Some(code) = response.extensions().get::<Code>()
        {
            self.http.refused(*code);
        }
    }

    /// Answers over HTTP by the first digit of their status.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (usize, u64)> {
        self.classes.iter().map(|count| count.load(Ordering::Relaxed)).enumerate().skip(1)
    }

    /// These threads serve `protocol`.
    pub(crate) fn served_by(&self, protocol: &Protocol, runtimes: Vec<RuntimeMetrics>) {
        self.threads.lock().expect(UNBROKEN).push((protocol.name, Threads(runtimes)));
    }

    pub(crate) fn threads(&self) -> Vec<(&'static str, Threads)> {
        self.threads.lock().expect(UNBROKEN).clone()
    }

    pub(crate) fn all(&self) -> [&Protocol; 3] {
        [&self.http, &self.grpc, &self.resp]
    }
}

impl Protocol {
    /// The moment a request was there, if anyone wants to know how long it takes.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Instant> {
        self.durations.is_some().then(Instant::now)
    }

    /// So many requests that were there at `begun` are answered now.
    #[inline]
    pub(crate) fn answered(&self, times: u64, begun: Option<Instant>) {
        if let (1.., Some(durations), Some(begun)) = (times, &self.durations, begun) {
            durations.record_many(times, begun.elapsed());
        }
    }

    #[cold]
    pub(crate) fn refused(&self, code: Code) {
        if let Some(at) = Code::ALL.iter().position(|known| *known == code) {
            self.refusals[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn enter(&self) -> Presence<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Presence(self)
    }

    pub(crate) fn durations(&self) -> Option<Durations> {
        Some(self.durations.as_ref()?.read())
    }

    /// Codes that were answered, and how often.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (Code, u64)> {
        let counts = Code::ALL.iter().zip(&self.refusals);
        counts.map(|(code, count)| (*code, count.load(Ordering::Relaxed))).filter(|(_, count)| *count > 0)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Threads {
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(RuntimeMetrics::num_workers).sum()
    }

    pub(crate) fn busy(&self) -> Duration {
        let workers = |runtime: &RuntimeMetrics| -> Duration {
            (0..runtime.num_workers()).map(|worker| runtime.worker_total_busy_duration(worker)).sum()
        };
        self.0.iter().map(workers).sum()
    }

    pub(crate) fn tasks(&self) -> usize {
        self.0.iter().map(RuntimeMetrics::num_alive_tasks).sum()
    }

    pub(crate) fn queued(&self) -> usize {
        self.0.iter().map(RuntimeMetrics::global_queue_depth).sum()
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
