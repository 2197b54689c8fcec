//! One server: a connection that is made when it is needed, and a breaker.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use keymill_wire::grpc::keymill_client::KeymillClient;
use tonic::transport::Channel;

use crate::{
    breaker::{Breaker, Change},
    error::Error,
    failure::Failure,
    stats::{Counter, EndpointStats},
    tls::Trust,
};

/// How long the handshake with a server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// An idle connection is asked for a sign of life this often, so that a dead one is found before it is needed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub address: Arc<str>,
    pub client: KeymillClient<Channel>,
    pub attempts: Counter,
    breaker: Mutex<Breaker>,
    /// What its breaker last heard of.
    trouble: Mutex<Option<Failure>>,
    opened: Counter,
    closed: Counter,
}

impl Endpoint {
    /// Must be called inside a runtime, which carries the connection.
    pub(crate) fn new(address: &str, trust: Option<&Trust>, probe_patience: Duration) -> Result<Self, Error> {
        let wrong = |why: &dyn std::fmt::Display| Error::Settings {
            setting: "endpoints",
            detail: format!("must be addresses such as http://127.0.0.1:7070, and one is `{address}`: {why}"),
        };
        let mut channel = Channel::from_shared(address.to_owned()).map_err(|error| wrong(&error))?;
        match (channel.uri().scheme_str(), trust) {
            (Some("http"), _) => {}
            (Some("https"), Some(trust)) => channel = trust.secure(channel, CONNECT_TIMEOUT)?,
            _ => return Err(wrong(&"it must begin with http:// or https://")),
        }
        let channel = channel
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        Ok(Self {
            address: address.into(),
            client: KeymillClient::new(channel.connect_lazy()),
            attempts: Counter::default(),
            breaker: Mutex::new(Breaker::new(probe_patience)),
            trouble: Mutex::default(),
            opened: Counter::default(),
            closed: Counter::default(),
        })
    }

    pub(crate) fn admit(&self, now: Duration) -> Result<(), Duration> {
        self.lock().admit(now)
    }

    pub(crate) fn answered(&self) {
        let change = self.lock().answered();
        self.count(change);
    }

    pub(crate) fn failed(&self, failure: &Failure, now: Duration, chance: f64) {
        let change = self.lock().failed(now, chance);
        self.count(change);
        *self.lock_trouble() = Some(failure.clone());
    }

    /// Why its breaker is open.
    pub(crate) fn trouble(&self) -> Option<Failure> {
        self.lock_trouble().clone()
    }

    fn count(&self, change: Option<Change>) {
        match change {
            Some(Change::Opened) => self.opened.add(1),
            Some(Change::Closed) => self.closed.add(1),
            None => {}
        }
    }

    pub(crate) fn show(&self) -> EndpointStats {
        EndpointStats {
            address: self.address.clone(),
            attempts: self.attempts.count(),
            breaker: self.lock().state(),
            breaker_opened: self.opened.count(),
            breaker_closed: self.closed.count(),
        }
    }

    fn lock_trouble(&self) -> MutexGuard<'_, Option<Failure>> {
        self.trouble.lock().expect("nothing panics while it holds a failure")
    }

    fn lock(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().expect("nothing panics while it holds a breaker")
    }
}
