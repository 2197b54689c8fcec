//! All tokens of the ledger in memory, and the check of what a request shows.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use hyper::{HeaderMap, header::AUTHORIZATION};
use keymill_api::{Code, Refusal};
use keymill_issuer::clock::Clock;
use keymill_ledger::{Ledger, LedgerError, TokenRow, ops};

use super::{Caller, record, token::Token};
use crate::config::AuthMode;

/// Whether tokens are needed: where anyone but this machine can ask, unless that was waived.
pub(crate) fn is_needed(mode: AuthMode, listening: &[SocketAddr]) -> bool {
    match mode {
        AuthMode::On => true,
        AuthMode::Off => false,
        AuthMode::Auto => listening.iter().any(|at| !at.ip().is_loopback()),
    }
}

type Tokens = HashMap<String, Arc<Token>>;

#[derive(Debug)]
pub(crate) struct Guard {
    on: bool,
    clock: Arc<dyn Clock>,
    /// `None` until the ledger was read for the first time.
    tokens: ArcSwapOption<Tokens>,
    /// The ledger's `changes` when it was.
    changes: AtomicU64,
    /// Held while the tokens are read, so that an older set never replaces a newer one.
    reading: tokio::sync::Mutex<()>,
}

impl Guard {
    pub(crate) fn new(on: bool, clock: Arc<dyn Clock>) -> Self {
        Self {
            on,
            clock,
            tokens: ArcSwapOption::empty(),
            changes: AtomicU64::new(u64::MAX),
            reading: tokio::sync::Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Who shows `Authorization: Bearer TOKEN`.
    pub(crate) fn bearer(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        if !self.on {
            return Ok(Caller::ANYONE);
        }
        let Some(shown) = headers.get(AUTHORIZATION) else {
            let detail = "a token is needed: send `Authorization: Bearer TOKEN`; \
                          `keymill token create` makes one";
            return Err(Refusal::new(Code::Unauthenticated, detail));
        };
        let token =
            shown.as_bytes().split_at_checked(7).filter(|(kind, _)| kind.eq_ignore_ascii_case(b"bearer "));
        token.map_or_else(|| Err(unknown()), |(_, token)| self.holder(token.trim_ascii()))
    }

    /// Who shows that token. What is wrong with it is not said: only its holder needs to know.
    pub(crate) fn holder(&self, text: &[u8]) -> Result<Caller, Refusal> {
        let tokens = self.tokens.load();
        let Some(tokens) = &*tokens else {
            let detail = "the tokens could not be read from the ledger yet; try again in a moment";
            return Err(Refusal::new(Code::LedgerUnavailable, detail));
        };
        let found = record::id_of(text).and_then(|id| tokens.get(id));
        let holds = |token: &&Arc<Token>| token.is(text) && !token.is_over(|| self.clock.wall());
        found.filter(holds).map(|token| Caller::holding(token.clone())).ok_or_else(unknown)
    }

    /// Reads all tokens anew and says how many are accepted. Those that are unchanged stay the same, with what
    /// was charged to them.
    pub(crate) async fn read(&self, ledger: &dyn Ledger) -> Result<usize, LedgerError> {
        let _reading = self.reading.lock().await;
        // The count first: a change that comes in between is read again next time.
        let changes = ledger.survey(ops::Survey { at: self.clock.wall() }).await?.head.changes;
        let rows = ledger.tokens().await?;
        let accepted = self.replace(&rows);
        self.changes.store(changes, Ordering::Relaxed);
        Ok(accepted)
    }

    /// Reads all tokens anew if anything changed in the ledger since the last time.
    pub(super) async fn follow(&self, ledger: &dyn Ledger) -> Result<(), LedgerError> {
        let changes = ledger.survey(ops::Survey { at: self.clock.wall() }).await?.head.changes;
        if changes != self.changes.load(Ordering::Relaxed) {
            self.read(ledger).await?;
        }
        Ok(())
    }

    fn replace(&self, rows: &[TokenRow]) -> usize {
        let before = self.tokens.load_full().unwrap_or_default();
        let token = |row: &TokenRow| match before.get(&row.id).filter(|token| token.is_of(row)) {
            Some(token) => Some((row.id.clone(), token.clone())),
            None => {
                let read = Token::read(row);
                if read.is_none() {
                    tracing::warn!(id = row.id, "token {} cannot be read and is not accepted", row.id);
                }
                read.map(|token| (row.id.clone(), Arc::new(token)))
            }
        };
        let after: Tokens =
            rows.iter().filter_map(token).filter(|(_, token)| !token.is_over(|| self.clock.wall())).collect();
        for token in before.values() {
            if after.get(&token.id).is_none_or(|kept| !Arc::ptr_eq(kept, token)) {
                token.withdraw();
            }
        }
        let accepted = after.len();
        self.tokens.store(Some(Arc::new(after)));
        accepted
    }

    /// Ends what is past its time: connections that showed a token once do not look at the clock.
    pub(super) fn expire(&self) {
        let tokens = self.tokens.load();
        let over = |token: &&Arc<Token>| token.is_over(|| self.clock.wall());
        tokens.iter().flat_map(|tokens| tokens.values()).filter(over).for_each(|token| token.withdraw());
    }
}

#[cold]
fn unknown() -> Refusal {
    let detail =
        "that is no token of this ledger, or its time is over; `keymill token list` shows those there are";
    Refusal::new(Code::Unauthenticated, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_needed_as_soon_as_anyone_else_can_ask() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (here, there) = (at("127.0.0.1:1"), at("0.0.0.0:1"));
        assert!(!is_needed(AuthMode::Auto, &[here, at("[::1]:1"), at("127.9.9.9:1")]));
        for outside in [there, at("[::]:1"), at("10.0.0.1:1"), at("[2001:db8::1]:1")] {
            assert!(is_needed(AuthMode::Auto, &[here, outside]), "{outside}");
            assert!(!is_needed(AuthMode::Off, &[outside]), "it was waived");
        }
        assert!(is_needed(AuthMode::On, &[here]));
    }
}
