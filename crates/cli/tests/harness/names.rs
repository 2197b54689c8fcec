//! Asking for names, links and references, in few words.

use std::{
    io,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Answer, Connection, LOOK_EVERY, PATIENCE, Server};

impl Server {
    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask("PUT", path, Some(&body.to_string()))
    }

    #[track_caller]
    pub(crate) fn patch(&self, path: &str, body: &Value) -> Answer {
        self.ask("PATCH", path, Some(&body.to_string()))
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, None)
    }

    /// Claims a name in a keyspace.
    #[track_caller]
    pub(crate) fn claim(&self, keyspace: &str, name: &str) -> Answer {
        self.ask("PUT", &format!("/v1/keyspaces/{keyspace}/keys/{name}"), None)
    }

    /// Makes a link of whatever the body says.
    #[track_caller]
    pub(crate) fn link(&self, keyspace: &str, body: &Value) -> Answer {
        self.post(&format!("/v1/keyspaces/{keyspace}/links"), &body.to_string())
    }

    /// Makes a link that must be had, and returns its key.
    #[track_caller]
    pub(crate) fn linked(&self, keyspace: &str, url: &str) -> String {
        let answer = self.link(keyspace, &json!({ "url": url }));
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        answer.json()["key"].as_str().unwrap().to_owned()
    }

    /// Sends a request with an Idempotency-Key.
    #[track_caller]
    pub(crate) fn once(&self, method: &str, path: &str, key: &str, body: &str) -> Answer {
        send_once(&mut self.connect(), method, path, key, body).expect("it is answered")
    }

    /// Where `path` redirects to.
    #[track_caller]
    pub(crate) fn leads_to(&self, path: &str) -> Option<String> {
        let answer = self.get(path);
        let location = answer.header("location").map(str::to_owned);
        assert_eq!(location.is_some(), matches!(answer.status, 301 | 302 | 307 | 308), "{answer:?}");
        location
    }

    /// Changes a keyspace's tuning.
    #[track_caller]
    pub(crate) fn tune(&self, keyspace: &str, tuning: &Value) {
        let answer = self.patch(&format!("/v1/keyspaces/{keyspace}"), tuning);
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// A sample of `/metrics`, by its name without the prefix.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = self.get("/metrics").text();
        let sample = |line: &str| line.strip_prefix("keymill_")?.strip_prefix(name)?.trim().parse().ok();
        page.lines().find_map(sample).unwrap_or_else(|| panic!("no `{name}` in\n{page}"))
    }
}

pub(crate) fn send_once(
    connection: &mut Connection,
    method: &str,
    path: &str,
    key: &str,
    body: &str,
) -> io::Result<Answer> {
    let headers = [("Idempotency-Key", key), ("Content-Type", "application/json")];
    connection.send(method, path, &headers, body.as_bytes())
}

/// Waits until `is_so`.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(LOOK_EVERY.max(Duration::from_millis(20)));
    }
}

/// The status, the code of a problem, and the reason why a name is taken.
pub(crate) fn told(answer: &Answer) -> (u16, String, String) {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let field = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (answer.status, field("code"), field("reason"))
}

/// As [`told`] tells of a name that is taken.
pub(crate) fn taken(reason: &str) -> (u16, String, String) {
    (409, "name_taken".to_owned(), reason.to_owned())
}
