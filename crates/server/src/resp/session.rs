//! What one connection said of itself, and the keyspace it used last.

use std::sync::Arc;

use keymill_id::Definition;
use keymill_issuer::{Node, Served};

use super::reply::Protocol;
use crate::auth::Caller;

/// The longest name a connection may give itself.
const NAME_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Session {
    pub id: u64,
    pub protocol: Protocol,
    /// As CLIENT SETNAME put it.
    pub name: Option<Box<str>>,
    /// Who it is; `None` until it has shown a token, where one is needed.
    pub caller: Option<Caller>,
    /// Nearly every connection asks for one keyspace over and over.
    last: Option<Used>,
}

#[derive(Debug, Clone)]
pub(crate) struct Used {
    pub served: Arc<Served>,
    /// Its keys are integers as Redis writes them.
    pub counts: bool,
}

impl Used {
    pub(crate) fn new(served: Arc<Served>) -> Self {
        Self { counts: counts(&served.definition), served }
    }
}

impl Session {
    pub(crate) fn new(id: u64, caller: Option<Caller>) -> Self {
        Self { id, protocol: Protocol::default(), name: None, caller, last: None }
    }

    /// Whoever asks; the table lets nobody ask for keys who has not said who they are.
    pub(crate) fn caller(&self) -> &Caller {
        self.caller.as_ref().unwrap_or(&Caller::ANYONE)
    }

    /// From here on the connection is somebody else, who may see other keyspaces.
    pub(crate) fn become_caller(&mut self, caller: Caller) {
        self.caller = Some(caller);
        self.forget();
    }

    #[inline]
    pub(crate) fn used_last(&self, name: &[u8]) -> bool {
        self.last.as_ref().is_some_and(|last| last.served.name.as_str().as_bytes() == name)
    }

    /// The keyspace of that name, if this node knows it. One that was closed since – retired, or burned by
    /// a halt – has nothing ready; whoever finds nothing ready must [`forget`](Self::forget) it.
    #[inline]
    pub(crate) fn keyspace(&mut self, node: &Node, name: &[u8]) -> Option<(&Used, &Caller)> {
        if !self.used_last(name) {
            self.last = Some(Used::new(node.known(std::str::from_utf8(name).ok()?)?));
        }
        Some((self.last.as_ref()?, self.caller()))
    }

    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// As it was when the connection was made.
    pub(crate) fn reset(&mut self, caller: Option<Caller>) {
        *self = Self::new(self.id, caller);
    }
}

/// Whether a keyspace's keys are plain decimal numbers: no prefix, no check symbol, no padding.
fn counts(definition: &Definition) -> bool {
    match definition {
        Definition::Sequence(sequence) => {
            let decimal = sequence.alphabet().to_string() == "decimal";
            decimal && sequence.prefix().is_empty() && !sequence.check() && sequence.length() == 1
        }
        _ => false,
    }
}

/// Whether a connection may call itself that.
pub(crate) fn is_name(text: &[u8]) -> bool {
    text.len() <= NAME_MAX && text.iter().all(u8::is_ascii_graphic)
}
