//! Prometheus' Alertmanager, by its API v2.
//!
//! An alert is known by its labels, so these stay the same for as long as it fires, and whatever changes is an
//! annotation. Alertmanager takes an alert that it does not hear of again for resolved (`resolve_timeout`,
//! five minutes unless set), so what fires is repeated.

use std::time::Duration;

use serde_json::json;

use super::Sink;
use crate::{
    finding::Subject,
    moment::rfc3339,
    notice::{Notice, Status},
    web::{Address, Method, Request},
};

const PATH: &str = "/api/v2/alerts";
const REPEAT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Alertmanager {
    alerts: Address,
}

impl Alertmanager {
    /// `url` may name the Alertmanager or its endpoint.
    pub(super) fn new(url: &Address) -> Self {
        let is_endpoint = url.reveal().trim_end_matches('/').ends_with(PATH);
        Self { alerts: if is_endpoint { url.clone() } else { url.below(PATH) } }
    }
}

impl Sink for Alertmanager {
    fn name(&self) -> String {
        format!("alertmanager {}", self.alerts)
    }

    fn repeat(&self) -> Option<Duration> {
        Some(REPEAT)
    }

    fn request(&self, notice: &Notice) -> Request {
        let mut labels = json!({ "severity": notice.severity.as_str(), "dedup_key": notice.dedup_key });
        match &notice.subject {
            Subject::Keyspace(name) => {
                labels["alertname"] = "KeymillKeyspace".into();
                labels["keyspace"] = name.as_str().into();
            }
            Subject::Ground("ledger") => labels["alertname"] = "KeymillLedger".into(),
            Subject::Ground(_) => labels["alertname"] = "KeymillServer".into(),
        }
        let mut annotations = json!({ "summary": notice.summary, "kind": notice.kind.as_str() });
        if let Some(level) = notice.level {
            annotations["level"] = level.to_string().into();
        }
        if let Some(seconds) = notice.runway_seconds {
            annotations["runway_seconds"] = format!("{seconds:.1}").into();
        }
        let mut alert =
            json!({ "labels": labels, "annotations": annotations, "startsAt": rfc3339(notice.since) });
        if notice.status == Status::Resolved {
            alert["endsAt"] = rfc3339(notice.at).into();
        }
        let body = Some(json!([alert]).to_string());
        Request { method: Method::Post, url: self.alerts.clone(), bearer: None, body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_may_be_named_or_left_out() {
        for url in ["http://am:9093", "http://am:9093/", "http://am:9093/api/v2/alerts"] {
            let sink = Alertmanager::new(&Address::parse(url).unwrap());
            assert_eq!(sink.alerts.reveal(), "http://am:9093/api/v2/alerts");
        }
        let below = Alertmanager::new(&Address::parse("http://am/alerting").unwrap());
        assert_eq!(below.alerts.reveal(), "http://am/alerting/api/v2/alerts");
    }
}
