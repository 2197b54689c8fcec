//! The dead man's switch: as long as all is well *and measured*, an address outside hears from us. If it hears
//! nothing – because something is wrong, or because the watcher itself died – it raises the alarm.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::web::{self, Address, Method, Request, Web};

#[derive(Debug)]
pub(crate) struct Heartbeat {
    url: Address,
    web: Arc<dyn Web>,
    under_way: Arc<AtomicBool>,
    failing: Arc<AtomicBool>,
}

impl Heartbeat {
    pub(crate) fn new(url: Address, web: Arc<dyn Web>) -> Self {
        Self { url, web, under_way: Arc::default(), failing: Arc::default() }
    }

    /// Sends one and does not wait for it; one is under way at a time.
    pub(crate) fn beat(&self) {
        if self.under_way.swap(true, Ordering::Relaxed) {
            return;
        }
        let request = Request { method: Method::Get, url: self.url.clone(), bearer: None, body: None };
        let (web, under_way, failing) = (self.web.clone(), self.under_way.clone(), self.failing.clone());
        tokio::spawn(async move {
            let url = request.url.to_string();
            let sent = tokio::time::timeout(web::PATIENCE, web.send(request)).await;
            under_way.store(false, Ordering::Relaxed);
            let trouble = match sent {
                Ok(Ok(answer)) if answer.is_success() => None,
                Ok(Ok(answer)) => Some(format!("it answered {}", answer.status)),
                Ok(Err(error)) => Some(error),
                Err(_) => Some(format!("no answer within {:?}", web::PATIENCE)),
            };
            let was_failing = failing.swap(trouble.is_some(), Ordering::Relaxed);
            match trouble {
                Some(trouble) if !was_failing => {
                    tracing::warn!(url, trouble, "the heartbeat did not reach {url}: {trouble}");
                }
                None if was_failing => tracing::info!(url, "the heartbeat reaches {url} again"),
                _ => {}
            }
        });
    }
}
