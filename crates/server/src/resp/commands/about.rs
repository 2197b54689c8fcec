//! `LLEN`, `SCARD`, `TYPE` and `EXISTS`: what there is of a keyspace.

use std::sync::Arc;

use keymill_api::Refusal;
use keymill_id::Definition;
use keymill_issuer::{IssueError, Served};
use keymill_ledger::{Track, ops::TrackAt};

use super::{super::Front, Answer, Call, Outcome, find, link::leads, owned_name};
use crate::{auth::Caller, level::level};

/// The most a length can be: clients read signed numbers.
const LENGTH_MAX: u64 = i64::MAX as u64;

/// Keys that are left, of which this node holds some and the ledger knows the rest.
pub(crate) fn length(call: &mut Call<'_>) -> Outcome {
    let (front, name) = (call.front.clone(), owned_name(call.argument(1)));
    Outcome::Later(Box::pin(async move {
        let served = find(&front, &name).await?.served;
        if served.is_retired() {
            return Ok(Answer::Integer(0));
        }
        let track = TrackAt { track: Track::of(served.name.clone()) };
        let track = front.ask_ledger(front.node.ledger().track(track)).await?;
        let track = track.map_err(|error| Refusal::from(&error))?.unwrap_or_default();
        served.look_at_rows().await;
        let left = level(&served.definition, Some(&served), &track, front.node.now());
        Ok(Answer::Integer(left.unwrap_or(LENGTH_MAX).min(LENGTH_MAX)))
    }))
}

pub(crate) fn kind(call: &mut Call<'_>) -> Outcome {
    let (front, caller) = (call.front.clone(), call.session.caller().clone());
    let name = owned_name(call.argument(1));
    Outcome::Later(Box::pin(async move {
        let found = look(&front, &caller, &name).await?;
        Ok(Answer::Word(found.as_deref().map_or("none", type_of)))
    }))
}

pub(crate) fn exists(call: &mut Call<'_>) -> Outcome {
    let (front, caller) = (call.front.clone(), call.session.caller().clone());
    let names: Vec<String> = call.arguments.iter().skip(1).map(owned_name).collect();
    Outcome::Later(Box::pin(async move {
        let count = async {
            let mut found = 0;
            for name in &names {
                let there =
                    look(&front, &caller, name).await?.is_some() || leads(&front, &caller, name).await?;
                found += u64::from(there);
            }
            Ok(Answer::Integer(found))
        };
        // Many names may cost as many looks; all of them together have the time that one command has.
        front.in_time(count).await?
    }))
}

/// The keyspace of that name, unless there is none that the caller may see or it is retired.
async fn look(front: &Front, caller: &Caller, name: &str) -> Result<Option<Arc<Served>>, Refusal> {
    if !caller.sees(name) {
        return Ok(None);
    }
    match front.in_time(front.node.keyspace(name)).await? {
        Ok(served) => Ok(Some(served).filter(|served| !served.is_retired())),
        Err(IssueError::KeyspaceNotFound) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

fn type_of(served: &Served) -> &'static str {
    match served.definition {
        Definition::Sequence(_) => "string",
        _ => "list",
    }
}
