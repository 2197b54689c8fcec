//! Any address that takes JSON: PagerDuty, Slack, one's own.

use std::time::Duration;

use super::{
    Sink,
    template::{PLAIN, Template, TemplateError},
};
use crate::{
    notice::Notice,
    web::{Address, Method, Request},
};

#[derive(Debug)]
pub(super) struct Webhook {
    url: Address,
    template: Template,
}

impl Webhook {
    /// `template` may be empty for a plain one.
    pub(super) fn new(url: Address, template: &str) -> Result<Self, TemplateError> {
        let template = Template::parse(if template.is_empty() { PLAIN } else { template })?;
        Ok(Self { url, template })
    }
}

impl Sink for Webhook {
    fn name(&self) -> String {
        format!("webhook {}", self.url)
    }

    /// Whoever takes it may wake somebody each time.
    fn repeat(&self) -> Option<Duration> {
        None
    }

    fn request(&self, notice: &Notice) -> Request {
        let body = Some(self.template.fill(notice));
        Request { method: Method::Post, url: self.url.clone(), bearer: None, body }
    }
}
