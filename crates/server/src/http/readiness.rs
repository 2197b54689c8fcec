//! What a node looks at to know whether it serves keys, what it saw, and what to do about it.

use std::sync::Arc;

use keymill_api::{Check, CheckState, Code, Reason, rfc3339};
use keymill_issuer::{Node, NodeState, Served};

use crate::reload::{Outcome, Reading};

/// One thing that was looked at.
#[derive(Debug)]
pub(super) struct Looked {
    at: &'static str,
    found: Found,
}

#[derive(Debug)]
enum Found {
    Fine,
    /// Keys are served all the same.
    Odd {
        detail: String,
        next: &'static str,
    },
    Bad {
        code: Code,
        detail: String,
        next: &'static str,
    },
}

impl Looked {
    /// Why no keys are served, if this is why.
    pub(super) fn reason(&self) -> Option<Reason> {
        match &self.found {
            // For whoever reads no more than this.
            Found::Bad { code, detail, next } => {
                Some(Reason { code: *code, detail: format!("{detail}; {next}") })
            }
            _ => None,
        }
    }
}

impl From<Looked> for Check {
    fn from(Looked { at, found }: Looked) -> Self {
        let (state, said) = match found {
            Found::Fine => (CheckState::Ok, None),
            Found::Odd { detail, next } => (CheckState::Warning, Some((detail, next))),
            Found::Bad { detail, next, .. } => (CheckState::Failed, Some((detail, next))),
        };
        let (detail, next) = said.map(|(detail, next)| (detail, next.to_owned())).unzip();
        Self { check: at.to_owned(), state, detail, next }
    }
}

const ELSEWHERE: &str = "ask another node";
const WAIT: &str = "wait: it serves as soon as it has joined its ledger";
const BRING_BACK: &str = "bring the ledger's engine back; keys are served again by themselves";
const ADVANCE: &str = "see `keymill ledger show`, then `keymill ledger advance`";

/// Keyspaces that a check names; more are only counted.
const NAMED_MAX: usize = 8;

pub(super) fn checks(node: &Node) -> Vec<Looked> {
    let state = node.state().borrow().clone();
    let is_serving = state == NodeState::Serving;
    let looked = |at, found| Looked { at, found };
    vec![
        looked("node", life(&state)),
        looked("ledger", ledger(&state, is_serving && !node.ledger_answers())),
        looked("stock", if is_serving { stock(node) } else { Found::Fine }),
        looked("clock", if is_serving { clock(node) } else { Found::Fine }),
    ]
}

fn life(state: &NodeState) -> Found {
    let bad = |code, detail: &str, next| Found::Bad { code, detail: detail.to_owned(), next };
    match state {
        NodeState::Serving | NodeState::Halted { .. } | NodeState::Starting { why: Some(_) } => Found::Fine,
        NodeState::Starting { why: None } => bad(Code::Starting, "the node is registering", WAIT),
        NodeState::Draining => bad(Code::Draining, "the node is stopping", ELSEWHERE),
        NodeState::Dead { reason } => bad(Code::Draining, reason, ELSEWHERE),
    }
}

fn ledger(state: &NodeState, is_away: bool) -> Found {
    match state {
        NodeState::Starting { why: Some(why) } => {
            Found::Bad { code: Code::LedgerUnavailable, detail: why.clone(), next: BRING_BACK }
        }
        NodeState::Halted { reason } => {
            Found::Bad { code: Code::LedgerHalted, detail: reason.clone(), next: ADVANCE }
        }
        _ if is_away => Found::Odd {
            detail: "the ledger does not answer; keys come from the stock".to_owned(),
            next: "bring its engine back before the stock is used up",
        },
        _ => Found::Fine,
    }
}

/// An empty stock that nobody fills is a reason to send callers elsewhere. Rows that cannot be filled are none: they
/// are as far away from every other node, and this one has other keyspaces.
fn stock(node: &Node) -> Found {
    let known = node.all_known();
    if !node.ledger_answers()
        && let Some(named) = named(known.iter().filter(|served| served.has_run_dry()))
    {
        return Found::Bad {
            code: Code::LedgerUnavailable,
            detail: format!("the ledger does not answer, and the stock of {named} is used up"),
            next: BRING_BACK,
        };
    }
    let is_stuck =
        |served: &&Arc<Served>| served.fill_glance().is_some_and(|glance| glance.trouble.is_some());
    named(known.iter().filter(is_stuck)).map_or(Found::Fine, |named| Found::Odd {
        detail: format!("the rows of {named} cannot be filled"),
        next: "see the log, or `trouble` in `keymill keyspace show`",
    })
}

/// Keyspaces by name, if there are any.
fn named<'s>(keyspaces: impl Iterator<Item = &'s Arc<Served>>) -> Option<String> {
    let mut names: Vec<_> = keyspaces.map(|served| &served.name).collect();
    names.sort();
    let mut named: Vec<_> = names.iter().take(NAMED_MAX).map(|name| format!("`{name}`")).collect();
    if names.len() > NAMED_MAX {
        named.push(format!("{} more", names.len() - NAMED_MAX));
    }
    (!named.is_empty()).then(|| named.join(", "))
}

/// So is a clock that may not go on.
fn clock(node: &Node) -> Found {
    let behind = node.all_known().into_iter().find_map(|served| Some((served.unfit()?, served)));
    behind.map_or(Found::Fine, |(by, served)| Found::Bad {
        code: Code::ClockBehind,
        detail: format!("the clock is {by} ms behind IDs of `{}`", served.name),
        next: "fix this machine's time service; IDs resume by themselves",
    })
}

/// Whoever may not see the log learns no more than that something is in it.
pub(super) fn configuration(last: Option<Reading>) -> Looked {
    let found = match last {
        Some(Reading { at, outcome: Outcome::Refused }) => Found::Odd {
            detail: format!("it was read again at {} and could not be put into force", rfc3339(at)),
            next: "see the log for what is wrong with it; what was in force before still is",
        },
        Some(Reading { at, outcome: Outcome::NeedsRestart(settings) }) => Found::Odd {
            detail: format!(
                "it was read again at {}, and {settings} of its settings are not in force",
                rfc3339(at)
            ),
            next: "restart the node; the log names them",
        },
        Some(Reading { outcome: Outcome::InForce, .. }) | None => Found::Fine,
    };
    Looked { at: "configuration", found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(at: &'static str, found: Found) -> Option<(Code, String)> {
        Looked { at, found }.reason().map(|reason| (reason.code, reason.detail))
    }

    #[test]
    fn every_state_but_serving_says_why_and_what_next() {
        let why = || "it is away".to_owned();
        for (state, code, next) in [
            (NodeState::Starting { why: None }, Code::Starting, WAIT),
            (NodeState::Starting { why: Some(why()) }, Code::LedgerUnavailable, BRING_BACK),
            (NodeState::Halted { reason: why() }, Code::LedgerHalted, ADVANCE),
            (NodeState::Draining, Code::Draining, ELSEWHERE),
            (NodeState::Dead { reason: why() }, Code::Draining, ELSEWHERE),
        ] {
            let said = [reason("node", life(&state)), reason("ledger", ledger(&state, false))];
            let [said] = said.into_iter().flatten().collect::<Vec<_>>().try_into().expect("one reason");
            assert_eq!(said.0, code, "{state:?}");
            assert!(said.1.ends_with(next), "{said:?}");
        }
        let serving = NodeState::Serving;
        assert_eq!(reason("node", life(&serving)), None);
        assert_eq!(reason("ledger", ledger(&serving, true)), None, "there is stock");
    }

    #[test]
    fn what_is_odd_is_said_and_serves_all_the_same() {
        let away = Looked { at: "ledger", found: ledger(&NodeState::Serving, true) };
        let check = Check::from(away);
        assert_eq!((check.check.as_str(), check.state), ("ledger", CheckState::Warning));
        assert!(check.detail.is_some() && check.next.is_some());
        assert_eq!(Check::from(configuration(None)).state, CheckState::Ok);
    }
}
