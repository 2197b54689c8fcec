//! How a call is made: which endpoint is asked, and what happens when it does not answer.
//!
//! Every call of `keymill.v1` may be made again: what a lost answer held is burned, and the next one holds
//! something else. So an attempt that failed in a way that may pass is repeated – on the next endpoint at once,
//! on the same after a pause – until the deadline is over or the retry budget is spent.

use std::{
    future::Future,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use keymill_wire::grpc::keymill_client::KeymillClient;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout},
};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

use crate::{
    backoff,
    budget::Budget,
    dice::Dice,
    endpoint::Endpoint,
    error::{Error, GaveUp},
    failure::{Failure, Verdict},
    stats::{Counters, Stats},
};

/// What all handles of a client share.
#[derive(Debug)]
pub(crate) struct Core {
    pub endpoints: Vec<Endpoint>,
    pub token: Option<MetadataValue<Ascii>>,
    pub deadline: Duration,
    pub attempt_timeout: Duration,
    pub runtime: Handle,
    pub counters: Counters,
    pub dice: Dice,
    /// Whom to ask first: who answered last.
    preferred: AtomicUsize,
    budget: Mutex<Budget>,
    begun: Instant,
}

/// All breakers are open: how long until the first lets a call through, and why it does not.
#[derive(Debug)]
struct Shut {
    wait: Duration,
    trouble: Option<Failure>,
}

/// Hears of a failure that may yet be made good.
pub(crate) type Watch<'w> = &'w (dyn Fn(&Failure) + Send + Sync);

/// How much longer than we wait the server is told to: so it is we who give up, and know why.
const GRACE: Duration = Duration::from_millis(200);

/// One attempt: whom to ask, and how.
#[derive(Debug)]
pub(crate) struct Line {
    pub client: KeymillClient<Channel>,
    token: Option<MetadataValue<Ascii>>,
    /// How long an answer may take to begin.
    patience: Duration,
    /// How long all of it may take.
    left: Duration,
}

impl Line {
    /// A request that shows the token, and tells the server how long we wait.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.left + GRACE);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }

    /// Waits for an answer to begin.
    pub(crate) async fn begin<T>(
        &self,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let late = || {
            let within = self.patience;
            format!("no answer within {within:?}; is this a keymill server, and is it overloaded?")
        };
        timeout(self.patience, answer).await.unwrap_or_else(|_| Err(Status::unavailable(late())))
    }

    /// Waits for an answer to go on. A server that is slow to send more is well: it is short of keys, or may
    /// not send more of them.
    pub(crate) async fn go_on<T>(
        &self,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let late = || format!("no keys for {:?}: it is short of them, or limits their rate", self.patience);
        timeout(self.patience, answer).await.unwrap_or_else(|_| Err(Status::resource_exhausted(late())))
    }
}

impl Core {
    pub(crate) fn new(
        endpoints: Vec<Endpoint>,
        token: Option<MetadataValue<Ascii>>,
        deadline: Duration,
        attempt_timeout: Duration,
        runtime: Handle,
    ) -> Self {
        let dice = Dice::new();
        // Clients begin with different endpoints, so that the first is not everyone's.
        let first = dice.roll() % endpoints.len() as u64;
        Self {
            endpoints,
            token,
            deadline,
            attempt_timeout,
            runtime,
            counters: Counters::default(),
            dice,
            preferred: AtomicUsize::new(usize::try_from(first).unwrap_or(0)),
            budget: Mutex::new(Budget::new()),
            begun: Instant::now(),
        }
    }

    /// When a call that begins now has to be over.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.deadline
    }

    /// Time that only goes forward, since the client was built.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// A pause after so many failures in a row.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        backoff::pause(failures, self.dice.chance())
    }

    /// Makes `attempt` until it is answered, refused for good, or given up; `watch` hears of what stands in the way.
    pub(crate) async fn call<T, A, F>(
        &self,
        deadline: Instant,
        watch: Watch<'_>,
        attempt: A,
    ) -> Result<T, Error>
    where
        A: Fn(Line) -> F,
        F: Future<Output = Result<T, Status>>,
    {
        self.counters.calls.add(1);
        self.lock_budget().deposit();
        let (mut failures, mut last) = (0u32, None);
        loop {
            let (index, endpoint) = match self.choose() {
                Ok(chosen) => chosen,
                Err(Shut { wait, trouble }) => {
                    trouble.iter().for_each(watch);
                    last = last.or(trouble);
                    self.sleep(wait, deadline, &last).await?;
                    continue;
                }
            };
            if failures > 0 {
                self.counters.retries.add(1);
            }
            let failure = match self.attempt(endpoint, deadline, &attempt).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            watch(&failure);
            failures += 1;
            let verdict = failure.verdict();
            if verdict == Verdict::Final {
                return Err(Error::Refused(failure));
            }
            if !self.lock_budget().withdraw(self.now()) {
                self.counters.retries_denied.add(1);
                return Err(Error::Unanswered { why: GaveUp::RetryBudget, last: Some(failure) });
            }
            let pause = self.after(index, verdict, failures, &failure);
            // That the deadline is over says less than what happened before.
            last = last.filter(|_| Instant::now() >= deadline).or(Some(failure));
            self.sleep(pause, deadline, &last).await?;
        }
    }

    /// One attempt, and what it says about the endpoint.
    async fn attempt<T, A, F>(
        &self,
        endpoint: &Endpoint,
        deadline: Instant,
        attempt: &A,
    ) -> Result<T, Failure>
    where
        A: Fn(Line) -> F,
        F: Future<Output = Result<T, Status>>,
    {
        let left = deadline.saturating_duration_since(Instant::now());
        let (client, token) = (endpoint.client.clone(), self.token.clone());
        let line = Line { client, token, patience: self.attempt_timeout, left };
        endpoint.attempts.add(1);
        let failure = match timeout(left, attempt(line)).await {
            Ok(Ok(answer)) => {
                endpoint.answered();
                return Ok(answer);
            }
            Ok(Err(status)) => Failure::of(&endpoint.address, &status),
            // Our time was up, not the endpoint's: that says nothing about it.
            Err(_) => return Err(Failure::late(&endpoint.address, left)),
        };
        match failure.verdict() {
            Verdict::Unwell => endpoint.failed(&failure, self.now(), self.dice.chance()),
            Verdict::Final | Verdict::Wait | Verdict::Hop => endpoint.answered(),
        }
        Err(failure)
    }

    /// The preferred endpoint, or the next one whose breaker lets us.
    fn choose(&self) -> Result<(usize, &Endpoint), Shut> {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut shut = Shut { wait: Duration::MAX, trouble: None };
        for offset in 0..self.endpoints.len() {
            let index = (first + offset) % self.endpoints.len();
            let endpoint = &self.endpoints[index];
            match endpoint.admit(self.now()) {
                Ok(()) => return Ok((index, endpoint)),
                Err(wait) if wait < shut.wait => shut = Shut { wait, trouble: endpoint.trouble() },
                Err(_) => {}
            }
        }
        Err(shut)
    }

    /// Chooses whom to ask next, and how long to wait before. A round through all endpoints is made without
    /// pauses.
    fn after(&self, index: usize, verdict: Verdict, failures: u32, failure: &Failure) -> Duration {
        let all = self.endpoints.len();
        if verdict != Verdict::Wait {
            let next = (index + 1) % all;
            let _ = self.preferred.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
            if !(failures as usize).is_multiple_of(all) {
                return Duration::ZERO;
            }
        }
        let rounds = failures / u32::try_from(all).unwrap_or(u32::MAX);
        self.pause(rounds.max(1)).max(failure.retry_after.unwrap_or_default())
    }

    /// Sleeps, unless that would be for longer than the caller waits.
    async fn sleep(&self, pause: Duration, deadline: Instant, last: &Option<Failure>) -> Result<(), Error> {
        if Instant::now() + pause >= deadline {
            return Err(Error::Unanswered { why: GaveUp::Deadline(self.deadline), last: last.clone() });
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
        Ok(())
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counters.show(self.endpoints.iter().map(Endpoint::show).collect())
    }

    fn lock_budget(&self) -> std::sync::MutexGuard<'_, Budget> {
        self.budget.lock().expect("nothing panics while it holds the budget")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_shows_the_token_and_how_long_we_wait() {
        let client = KeymillClient::new(Channel::from_static("http://127.0.0.1:1").connect_lazy());
        let token = "Bearer km_x".parse().ok();
        let line = Line { client, token, patience: Duration::from_secs(1), left: Duration::from_secs(2) };
        let request = line.request(());
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer km_x");
        assert!(request.metadata().contains_key("grpc-timeout"));
    }
}
