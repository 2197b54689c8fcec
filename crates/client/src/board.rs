//! Where a background task tells those who wait how it goes.

use std::{
    pin::pin,
    sync::{Mutex, MutexGuard},
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use crate::{
    core::Core,
    error::{Error, GaveUp},
    failure::Failure,
};

#[derive(Debug, Default)]
pub(crate) struct Board {
    changed: Notify,
    news: Mutex<News>,
}

/// What went wrong since it last went well.
#[derive(Debug, Default)]
struct News {
    /// The last attempt of a call that may yet succeed.
    failure: Option<Failure>,
    /// Why the last call failed.
    trouble: Option<Error>,
}

impl Board {
    /// It went well: whoever waits should look again.
    pub(crate) fn good_news(&self) {
        *self.lock() = News::default();
        self.changed.notify_waiters();
    }

    pub(crate) fn bad_news(&self, trouble: Error) {
        self.lock().trouble = Some(trouble);
        self.changed.notify_waiters();
    }

    /// An attempt failed. Nobody is woken: the next one may succeed.
    pub(crate) fn note(&self, failure: &Failure) {
        self.lock().failure = Some(failure.clone());
    }

    /// Looks until there is something, or the task says that there will be nothing, or the deadline is over.
    /// `ask` tells the task that somebody waits.
    pub(crate) async fn wait<T>(
        &self,
        core: &Core,
        deadline: Instant,
        mut look: impl FnMut() -> Result<Option<T>, Error>,
        ask: impl Fn(),
    ) -> Result<T, Error> {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on no news is missed.
            changed.as_mut().enable();
            if let Some(found) = look()? {
                return Ok(found);
            }
            ask();
            if timeout_at(deadline, changed).await.is_err() {
                return Err(self.late(core));
            }
            let lasting = self.lock().trouble.clone().filter(|trouble| !trouble.is_transient());
            if let Some(trouble) = lasting {
                return Err(trouble);
            }
        }
    }

    fn late(&self, core: &Core) -> Error {
        let News { failure, trouble } = &*self.lock();
        match trouble {
            Some(clock @ (Error::ClockAhead { .. } | Error::ClockBehind { .. })) => clock.clone(),
            _ => Error::Unanswered { why: GaveUp::Deadline(core.deadline), last: failure.clone() },
        }
    }

    fn lock(&self) -> MutexGuard<'_, News> {
        self.news.lock().expect("nothing panics while it holds the board")
    }
}
