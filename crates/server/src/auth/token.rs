//! A token in this node's memory: what it allows, how fast, and whether it still stands.

use std::sync::atomic::{AtomicBool, Ordering};

use keymill_api::Scope;
use keymill_issuer::meter::Meter;
use keymill_ledger::{Timestamp, TokenRow};
use subtle::ConstantTimeEq;

use super::{
    pattern::Pattern,
    record::{self, Record},
};

#[derive(Debug)]
pub(crate) struct Token {
    pub(super) id: String,
    record: Record,
    hash: [u8; 32],
    /// A bit for each scope.
    scopes: u8,
    patterns: Vec<Pattern>,
    everything: bool,
    /// Keys a second, on this node.
    pub(super) meter: Meter,
    /// Gone from the ledger, or past its time; whoever holds on to it asks this.
    withdrawn: AtomicBool,
}

fn bit(scope: Scope) -> u8 {
    1 << scope as u8
}

impl Token {
    /// `None`: a later version wrote it, and what it allows cannot be known.
    pub(super) fn read(row: &TokenRow) -> Option<Self> {
        let record = Record::read(row)?;
        let patterns: Vec<_> = record.keyspaces.iter().map(|text| Pattern::new(text)).collect();
        Some(Self {
            id: row.id.clone(),
            hash: record.hash()?,
            scopes: record.scopes.iter().fold(0, |bits, scope| bits | bit(*scope)),
            everything: patterns.iter().any(Pattern::is_everything),
            patterns,
            meter: Meter::new(record.rate),
            withdrawn: AtomicBool::new(false),
            record,
        })
    }

    pub(super) fn is_of(&self, row: &TokenRow) -> bool {
        Record::read(row).is_some_and(|record| record == self.record)
    }

    /// Whether `text` is this token, in a time that does not depend on where it differs.
    pub(super) fn is(&self, text: &[u8]) -> bool {
        record::hash(text).ct_eq(&self.hash).into()
    }

    pub(super) fn is_over(&self, now: impl FnOnce() -> Timestamp) -> bool {
        self.record.expires_at.is_some_and(|at| at <= now())
    }

    pub(super) fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn stands(&self) -> bool {
        !self.withdrawn.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn has(&self, scope: Scope) -> bool {
        self.scopes & bit(scope) != 0
    }

    #[inline]
    pub(super) fn sees(&self, keyspace: &[u8]) -> bool {
        self.everything || self.patterns.iter().any(|pattern| pattern.matches(keyspace))
    }

    pub(super) fn sees_everything(&self) -> bool {
        self.everything
    }
}
