//! What lasts is said once: a trouble that is met again at every try is no news.

use std::sync::{Mutex, PoisonError};

/// The trouble that was said last and is not over yet.
#[derive(Debug, Default)]
pub struct News(Mutex<Option<String>>);

impl News {
    /// Whether this was not said yet.
    pub fn is_new(&self, trouble: &impl ToString) -> bool {
        let trouble = Some(trouble.to_string());
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *said != trouble;
        *said = trouble;
        is_new
    }

    /// All is well: the next trouble is news, whatever it is. Says whether there was one.
    pub fn over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_said_once() {
        let news = News::default();
        assert!(!news.over());
        assert!(news.is_new(&"full") && !news.is_new(&"full"));
        assert!(news.is_new(&"gone"));
        assert!(news.over() && !news.over());
        assert!(news.is_new(&"gone"));
    }
}
