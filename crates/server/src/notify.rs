//! Tells systemd how this process fares: when it serves, that it lives, what it waits for, that it stops.
//!
//! A beat comes from the runtime that answers callers, so one that hangs is started anew by the unit's
//! `WatchdogSec`. Where nobody asked to be told (no `NOTIFY_SOCKET`), nothing is said.

use std::{sync::Arc, time::Duration};

use keymill_issuer::{Node, NodeState};
use sd_notify::NotifyState as Notice;
use tokio::{sync::watch, time::MissedTickBehavior};

/// How often it beats where systemd does not say how often it must.
const EVERY: Duration = Duration::from_secs(5);
/// How much more time it asks for with each beat while it waits for its ledger: enough for a few beats to be lost.
const PATIENCE_USEC: u32 = 30_000_000;

/// Beats until the node is gone.
pub(crate) fn start(node: &Arc<Node>) {
    if std::env::var_os("NOTIFY_SOCKET").is_some() {
        tokio::spawn(beat(node.state()));
    }
}

async fn beat(mut state: watch::Receiver<NodeState>) {
    let mut beats = tokio::time::interval(often(sd_notify::watchdog_enabled()));
    beats.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut was_up = false;
    loop {
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            _ = beats.tick() => {}
        }
        let now = state.borrow_and_update().clone();
        let progress = match (was_up, is_up(&now)) {
            (true, _) => None,
            (false, true) => Some(Notice::Ready),
            (false, false) => Some(Notice::ExtendTimeoutUsec(PATIENCE_USEC)),
        };
        was_up |= is_up(&now);
        let status = status(&now);
        let notices = [Some(Notice::Watchdog), Some(Notice::Status(&status)), progress];
        tell(&notices.into_iter().flatten().collect::<Vec<_>>());
    }
}

pub(crate) fn stopping() {
    tell(&[Notice::Stopping, Notice::Status("giving back what was not handed out")]);
}

/// Nobody listens any more, or never did: the service goes on all the same.
fn tell(notices: &[Notice<'_>]) {
    if let Err(error) = sd_notify::notify(notices) {
        tracing::debug!(%error, "systemd could not be told: {error}");
    }
}

/// A third of what systemd allows, so that two beats may be late.
fn often(allowed: Option<Duration>) -> Duration {
    allowed.map_or(EVERY, |allowed| (allowed / 3).clamp(Duration::from_millis(1), EVERY))
}

/// A halted ledger needs a person, not a restart: the server is up, and tells them.
fn is_up(state: &NodeState) -> bool {
    matches!(state, NodeState::Serving | NodeState::Halted { .. })
}

/// One line: systemd takes each line for a message of its own.
fn status(state: &NodeState) -> String {
    let status = match state {
        NodeState::Starting { why: None } => "joining the ledger".to_owned(),
        NodeState::Starting { why: Some(why) } => format!("waiting for the ledger: {why}"),
        NodeState::Serving => "serving keys".to_owned(),
        NodeState::Halted { reason } => format!("serves no keys, the ledger is halted: {reason}"),
        NodeState::Draining => "finishing what is under way".to_owned(),
        NodeState::Dead { reason } => reason.clone(),
    };
    status.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_beats_may_be_lost_before_systemd_loses_patience() {
        assert_eq!(often(Some(Duration::from_secs(12))), Duration::from_secs(4));
        assert_eq!(often(Some(Duration::from_secs(600))), EVERY, "the status is renewed, too");
        assert_eq!(often(Some(Duration::ZERO)), Duration::from_millis(1));
        assert_eq!(often(None), EVERY);
    }

    #[test]
    fn a_status_is_one_line() {
        let reason = "first\nsecond".to_owned();
        assert_eq!(status(&NodeState::Dead { reason }), "first second");
    }
}
