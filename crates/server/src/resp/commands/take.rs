//! `LPOP`, `RPOP` and `SPOP`: taking keys. This is the path that has to be short.
//!
//! A keyspace is used up or it is not: no answer is ever nil, so that no application falls back to drawing
//! keys of its own.

use std::sync::Arc;

use keymill_api::Refusal;
use keymill_issuer::{Served, haul::Haul};

use super::{
    super::{Front, reply::Reply},
    Answer, Call, NOT_AN_INTEGER, Outcome, find, integer, owned_name, too_many,
};
use crate::auth::Caller;

pub(crate) fn pop(call: &mut Call<'_>) -> Outcome {
    match call.arguments.get(2) {
        None => one(call),
        Some(count) => many(call, count, false),
    }
}

pub(crate) fn spop(call: &mut Call<'_>) -> Outcome {
    match call.arguments.get(2) {
        None => one(call),
        Some(count) => many(call, count, true),
    }
}

#[inline]
fn one(call: &mut Call<'_>) -> Outcome {
    let name = call.argument(1);
    let protocol = call.session.protocol;
    let now = call.clock();
    let mut charged = false;
    if let Some((used, caller)) = call.session.keyspace(&call.front.node, name) {
        if let Err(too_fast) = caller.charge(&used.served, 1, now) {
            return call.refuse(&too_fast.into());
        }
        charged = true;
        let mut reply = Reply { out: call.out, protocol };
        if used.served.with_one(|key| reply.bulk(key)).is_some() {
            return Outcome::Answered;
        }
        // The lane's chunk may be used up while the next one lies behind it.
        if let Ok(haul) = used.served.take_ready(1) {
            Answer::Key(haul).write(&mut reply);
            return Outcome::Answered;
        }
    }
    call.session.forget();
    let (front, caller, name) = (call.front.clone(), call.session.caller().clone(), owned_name(name));
    Outcome::Later(Box::pin(async move {
        let used = find(&front, &name).await?;
        if !charged {
            caller.charge(&used.served, 1, || front.node.elapsed())?;
        }
        let taken = used.served.take(1, front.patience()).await;
        Ok(Answer::Key(taken.inspect_err(|_| caller.refund(&used.served, 1))?))
    }))
}

/// Up to so many, as in Redis; fewer only at the end of the keyspace.
fn many(call: &mut Call<'_>, count: &[u8], unordered: bool) -> Outcome {
    let most = call.front.limits.count_max;
    let count = match integer(count) {
        None => return call.error(NOT_AN_INTEGER),
        Some(..0) => return call.error("value is out of range, must be positive"),
        Some(count) => match u32::try_from(count).ok().filter(|count| *count <= most) {
            None => return call.refuse(&too_many(count, 0, most)),
            Some(count) => count,
        },
    };
    let name = call.argument(1);
    let now = call.clock();
    let mut charged = count == 0;
    if count > 0
        && let Some((used, caller)) = call.session.keyspace(&call.front.node, name)
    {
        if let Err(too_fast) = caller.charge(&used.served, count, now) {
            return call.refuse(&too_fast.into());
        }
        charged = true;
        match used.served.take_ready(count) {
            Ok(haul) => {
                Answer::Keys { haul, unordered }.write(&mut call.reply());
                return Outcome::Answered;
            }
            Err(haul) if haul.count() > 0 => {
                let (front, caller, served) = (call.front.clone(), caller.clone(), used.served.clone());
                call.session.forget();
                return Outcome::Later(Box::pin(complete(front, caller, served, haul, count, unordered)));
            }
            Err(_) => {}
        }
    }
    call.session.forget();
    let (front, caller, name) = (call.front.clone(), call.session.caller().clone(), owned_name(name));
    Outcome::Later(Box::pin(async move {
        let served = find(&front, &name).await?.served;
        if !charged {
            caller.charge(&served, count, || front.node.elapsed())?;
        }
        let haul = Haul::default();
        if count == 0 {
            return Ok(Answer::Keys { haul, unordered });
        }
        complete(front, caller, served, haul, count, unordered).await
    }))
}

async fn complete(
    front: Arc<Front>,
    caller: Caller,
    served: Arc<Served>,
    haul: Haul,
    count: u32,
    unordered: bool,
) -> Result<Answer, Refusal> {
    let haul = served.complete(haul, count, front.patience()).await;
    caller.refund(&served, count.saturating_sub(haul.as_ref().map_or(0, Haul::count)));
    Ok(Answer::Keys { haul: haul?, unordered })
}
