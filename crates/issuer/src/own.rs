//! What a node's own config says of keyspaces. It wins over the ledger's tuning, and may change while the node runs.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use keymill_id::KeyspaceName;

use crate::{
    node::{Node, Wanted},
    tuning::Tuning,
};

/// No ledger ever counts so many changes: the keyspaces have to be read again.
const UNREAD: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Own {
    pub tuning: HashMap<KeyspaceName, Tuning>,
    pub wanted: Vec<Wanted>,
}

impl Own {
    /// What is wanted is also tuned.
    pub(crate) fn of(wanted: Vec<Wanted>) -> Self {
        let tuning = wanted.iter().map(|wanted| (wanted.name.clone(), wanted.tuning.clone())).collect();
        Self { tuning, wanted }
    }
}

impl Node {
    /// The config says something else now. What it wants exists already, as it states it; the tuning is put into force
    /// at once, or with the first heartbeat that reaches the ledger.
    pub async fn want(self: &Arc<Self>, wanted: Vec<Wanted>) {
        self.own.store(Arc::new(Own::of(wanted)));
        let changes = self.changes.swap(UNREAD, Ordering::Relaxed);
        if let Err(error) = self.reload(changes).await {
            self.note(&error, "reload");
        }
    }
}
