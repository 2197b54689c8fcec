//! Sinks: whoever is told. A sink turns a notice into a request; it knows no check, and no check knows it.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    notice::Notice,
    web::{Address, Request},
};

mod alertmanager;
mod template;
mod webhook;

pub use template::{Template, TemplateError};

pub trait Sink: fmt::Debug + Send + Sync + 'static {
    /// For the log: what and where, without secrets.
    fn name(&self) -> String;
    /// How often it wants to hear of what still fires; `None`: once is enough.
    fn repeat(&self) -> Option<Duration>;
    /// What to send; any 2xx means that it was taken.
    fn request(&self, notice: &Notice) -> Request;
}

/// A sink as a config or flags state it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkSettings {
    #[serde(rename = "type")]
    pub kind: SinkKind,
    pub url: String,
    /// The JSON body of a webhook; empty for a plain one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub template: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SinkKind {
    Alertmanager,
    Webhook,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    #[error("url is not http(s)://HOST[:PORT][/PATH]")]
    Url,
    #[error("template {0}")]
    Template(#[from] TemplateError),
    #[error("template is for webhooks; an alertmanager has its own format")]
    TemplateOfAlertmanager,
}

impl SinkSettings {
    pub fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let url = Address::parse(&self.url).map_err(|_| SinkError::Url)?;
        match self.kind {
            SinkKind::Alertmanager if !self.template.is_empty() => Err(SinkError::TemplateOfAlertmanager),
            SinkKind::Alertmanager => Ok(Box::new(alertmanager::Alertmanager::new(&url))),
            SinkKind::Webhook => Ok(Box::new(webhook::Webhook::new(url, &self.template)?)),
        }
    }

    pub fn is_secure(&self) -> bool {
        self.url.starts_with("https:")
    }
}

/// Without the URL, which is a secret.
impl fmt::Debug for SinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkSettings").field("kind", &self.kind).finish_non_exhaustive()
    }
}
