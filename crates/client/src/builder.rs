//! What a client is told before it begins. Everything is checked before anything is sent.

use std::{fmt, time::Duration};

use tokio::runtime::Handle;
use tonic::metadata::{Ascii, MetadataValue};

use crate::{
    client::Client,
    core::Core,
    dice::Dice,
    endpoint::Endpoint,
    error::Error,
    sizing::Bounds,
    tls::{Pem, Tls},
};

/// Where a server listens unless it is told otherwise.
const ENDPOINT: &str = "http://127.0.0.1:7070";
/// How long a call may take, with all its retries.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long one attempt may take, so that there is time for another.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(2500);
/// Longer, and a call that hangs would look like one that was forgotten.
const DEADLINE_MAX: Duration = Duration::from_secs(3600);
const CACHE: Bounds = Bounds { hold: Duration::from_secs(1), min: 64, max: 100_000 };
/// How far ahead of the clock IDs can be made without a word from a server.
const WINDOW: Duration = Duration::from_secs(60);
/// The longest window that servers lend.
const WINDOW_MAX: Duration = Duration::from_secs(600);
/// The longest name of a holder that servers accept.
const NAME_MAX: usize = 63;
/// No client of one process is meant to use more memory for keys than this.
const CACHE_MAX: u32 = 10_000_000;

/// Builds a [`Client`]. Without any setting it talks to a server on this machine.
#[derive(Clone)]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    token: Option<String>,
    deadline: Duration,
    attempt_timeout: Duration,
    cache: Bounds,
    window: Duration,
    name: Option<String>,
    tls: Tls,
}

/// Without the token and the key.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoints, deadline, attempt_timeout, cache, window, name, .. } = self;
        f.debug_struct("ClientBuilder")
            .field("endpoints", endpoints)
            .field("deadline", deadline)
            .field("attempt_timeout", attempt_timeout)
            .field("cache", cache)
            .field("window", window)
            .field("name", name)
            .finish_non_exhaustive()
    }
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            endpoints: vec![ENDPOINT.to_owned()],
            token: None,
            deadline: DEADLINE,
            attempt_timeout: ATTEMPT_TIMEOUT,
            cache: CACHE,
            window: WINDOW,
            name: None,
            tls: Tls::default(),
        }
    }
}

impl ClientBuilder {
    /// Nodes of one ledger, such as `http://127.0.0.1:7070`. A client begins with any of them, stays with one
    /// that answers, and goes on to the next when it does not. Nodes of different ledgers would hand out the
    /// same keys.
    #[must_use]
    pub fn endpoints<S: Into<String>>(mut self, endpoints: impl IntoIterator<Item = S>) -> Self {
        self.endpoints = endpoints.into_iter().map(Into::into).collect();
        self
    }

    /// Takes endpoints from `KEYMILL_SERVER` (commas between several), the token from `KEYMILL_TOKEN`, and the
    /// files of [`tls_ca`](Self::tls_ca) and [`tls_identity`](Self::tls_identity) from `KEYMILL_TLS_CA`,
    /// `KEYMILL_TLS_CERT` and `KEYMILL_TLS_KEY`, where they are set: as the `keymill` command does.
    #[must_use]
    pub fn environment(mut self) -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(servers) = set("KEYMILL_SERVER") {
            self.endpoints = servers.split(',').map(|server| server.trim().to_owned()).collect();
        }
        self.token = set("KEYMILL_TOKEN").or(self.token);
        let file = |name| set(name).map(Pem::File);
        self.tls.ca = file("KEYMILL_TLS_CA").or(self.tls.ca);
        self.tls.identity = file("KEYMILL_TLS_CERT").zip(file("KEYMILL_TLS_KEY")).or(self.tls.identity);
        self
    }

    /// An API token, `km_…`.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How long a call may take, with all its retries: 5 s. A take from a cache that holds keys makes no call.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long one attempt may take: 2.5 s, and never more than half the deadline, so that there is time for
    /// another.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// How long a cache should last at the rate its keys are taken: 1 s. Longer: rides out longer outages.
    /// Shorter: less is burned when the process ends.
    #[must_use]
    pub fn cache_hold(mut self, hold: Duration) -> Self {
        self.cache.hold = hold;
        self
    }

    /// The least and the most keys that a cache is filled to, whatever the rate: 64 and 100 000.
    #[must_use]
    pub fn cache_keys(mut self, min: u32, max: u32) -> Self {
        (self.cache.min, self.cache.max) = (min, max);
        self
    }

    /// How far ahead of the clock a worker's window reaches: 60 s. Longer: IDs are made through longer outages.
    /// Shorter: a worker that was given back can be used again sooner.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// What the servers call us where they list who holds a worker: `sdk-` and some random digits.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The authorities that vouch for `https` endpoints, as PEM: those that the machine trusts, unless others are
    /// named here.
    #[must_use]
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.ca = Some(Pem::Text(pem.into()));
        self
    }

    /// Our own certificate and its key, as PEM, for servers that ask for one.
    #[must_use]
    pub fn tls_identity(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls.identity = Some((Pem::Text(certificate.into()), Pem::Text(key.into())));
        self
    }

    /// Must be called inside a tokio runtime, which then carries connections and refills. Sends nothing:
    /// connections are made when they are needed.
    pub fn build(self) -> Result<Client, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::Settings {
            setting: "build",
            detail: "must be called inside a tokio runtime; use blocking::Client outside of one".to_owned(),
        })?;
        self.check()?;
        let secure = self.endpoints.iter().any(|address| address.starts_with("https:"));
        let trust = secure.then(|| self.tls.read()).transpose()?;
        let attempt_timeout = self.attempt_timeout.min(self.deadline / 2);
        let endpoint = |address: &String| Endpoint::new(address, trust.as_ref(), attempt_timeout);
        let endpoints = self.endpoints.iter().map(endpoint).collect::<Result<_, _>>()?;
        let token = self.token.as_deref().map(bearer).transpose()?;
        let core = Core::new(endpoints, token, self.deadline, attempt_timeout, runtime);
        let name = self.name.unwrap_or_else(|| format!("sdk-{:016x}", Dice::new().roll()));
        Ok(Client::new(core, self.cache, name, self.window))
    }

    fn check(&self) -> Result<(), Error> {
        let Bounds { hold, min, max } = self.cache;
        let symbol = |b: u8| b.is_ascii_alphanumeric() || b"._-:/@".contains(&b);
        let name = self.name.as_deref().unwrap_or("sdk");
        let rules = [
            (!self.endpoints.is_empty(), "endpoints", "must name at least one server".to_owned()),
            (
                (Duration::from_millis(1)..=DEADLINE_MAX).contains(&self.deadline),
                "deadline",
                format!("must be 1 ms to {DEADLINE_MAX:?}, and is {:?}", self.deadline),
            ),
            (!self.attempt_timeout.is_zero(), "attempt_timeout", "must be more than nothing".to_owned()),
            (!hold.is_zero(), "cache_hold", "must be more than nothing".to_owned()),
            (
                (1..=max).contains(&min) && max <= CACHE_MAX,
                "cache_keys",
                format!("must be 1 <= min ({min}) <= max ({max}) <= {CACHE_MAX}"),
            ),
            (
                (Duration::from_millis(1)..=WINDOW_MAX).contains(&self.window),
                "window",
                format!("must be 1 ms to {WINDOW_MAX:?}, and is {:?}", self.window),
            ),
            (
                (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(symbol),
                "name",
                format!("must be 1 to {NAME_MAX} of A-Z a-z 0-9 . _ - : / @"),
            ),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            Some((_, setting, detail)) => Err(Error::Settings { setting, detail }),
            None => Ok(()),
        }
    }
}

fn bearer(token: &str) -> Result<MetadataValue<Ascii>, Error> {
    let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| Error::Settings {
        setting: "token",
        detail: "must be printable ASCII, as `keymill token create` shows it".to_owned(),
    })?;
    // Not in logs of whoever prints a request.
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_work_is_refused_and_named_before_anything_is_sent() {
        let builder = ClientBuilder::default;
        let secure = || builder().endpoints(["https://127.0.0.1:7070"]);
        for (wrong, setting) in [
            (builder().endpoints::<String>([]), "endpoints"),
            (builder().endpoints(["127.0.0.1:7070"]), "endpoints"),
            (builder().endpoints(["https://"]), "endpoints"),
            (secure().tls_ca("nothing"), "tls_ca"),
            (secure().tls_ca("-----BEGIN CERTIFICATE-----\nMIIB"), "tls_ca"),
            (secure().tls_ca("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"), "tls_ca"),
            (secure().tls_identity("nothing", "nothing"), "tls_identity"),
            (builder().endpoints(["http://"]), "endpoints"),
            (builder().endpoints(["redis://127.0.0.1"]), "endpoints"),
            (builder().token("a\nb"), "token"),
            (builder().deadline(Duration::ZERO), "deadline"),
            (builder().deadline(Duration::MAX), "deadline"),
            (builder().attempt_timeout(Duration::ZERO), "attempt_timeout"),
            (builder().cache_hold(Duration::ZERO), "cache_hold"),
            (builder().cache_keys(0, 1), "cache_keys"),
            (builder().cache_keys(2, 1), "cache_keys"),
            (builder().cache_keys(1, u32::MAX), "cache_keys"),
            (builder().window(Duration::ZERO), "window"),
            (builder().window(2 * WINDOW_MAX), "window"),
            (builder().name("two words"), "name"),
        ] {
            match wrong.clone().build() {
                Err(Error::Settings { setting: named, .. }) => assert_eq!(named, setting),
                other => panic!("{wrong:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn building_outside_a_runtime_is_refused_and_says_what_to_use() {
        let error = ClientBuilder::default().build().unwrap_err();
        assert!(error.to_string().contains("blocking::Client"), "{error}");
    }

    #[test]
    fn the_token_is_never_shown() {
        let shown = format!("{:?}", ClientBuilder::default().token("km_secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
