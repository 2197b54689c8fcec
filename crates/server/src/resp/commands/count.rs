//! `INCR` and `INCRBY`: tickets as integers.

use keymill_api::{Code, Refusal};
use keymill_id::{Definition, Mint, Number};

use super::{
    super::{reply::Reply, session::Used},
    Answer, Call, NOT_AN_INTEGER, Outcome, find, integer, owned_name, too_many,
};

pub(crate) fn incr(call: &mut Call<'_>) -> Outcome {
    let name = call.argument(1);
    let protocol = call.session.protocol;
    let now = call.clock();
    let mut charged = false;
    if let Some((used, caller)) = call.session.keyspace(&call.front.node, name)
        && used.counts
    {
        if let Err(too_fast) = caller.charge(&used.served, 1, now) {
            return call.refuse(&too_fast.into());
        }
        charged = true;
        let mut reply = Reply { out: call.out, protocol };
        if used.served.with_one(|digits| reply.digits(digits)).is_some() {
            return Outcome::Answered;
        }
        // The chunk that is shown may be used up while the next one lies behind it.
        if let Ok(haul) = used.served.take_ready(1) {
            Answer::Ticket(haul).write(&mut reply);
            return Outcome::Answered;
        }
    }
    call.session.forget();
    let (front, caller, name) = (call.front.clone(), call.session.caller().clone(), owned_name(name));
    Outcome::Later(Box::pin(async move {
        let used = find(&front, &name).await?;
        refuse_unless_counting(&used)?;
        if !charged {
            caller.charge(&used.served, 1, || front.node.elapsed())?;
        }
        let taken = used.served.take(1, front.patience()).await;
        Ok(Answer::Ticket(taken.inspect_err(|_| caller.refund(&used.served, 1))?))
    }))
}

pub(crate) fn incrby(call: &mut Call<'_>) -> Outcome {
    let most = call.front.limits.count_max;
    let Some(count) = integer(call.argument(2)) else { return call.error(NOT_AN_INTEGER) };
    match u32::try_from(count).ok().filter(|count| (1..=most).contains(count)) {
        None => call.refuse(&too_many(count, 1, most)),
        Some(1) => incr(call),
        Some(count) => run(call, count),
    }
}

/// Answers the last of `count` tickets that follow one another.
fn run(call: &mut Call<'_>, count: u32) -> Outcome {
    call.session.forget();
    let (front, name) = (call.front.clone(), owned_name(call.argument(1)));
    let caller = call.session.caller().clone();
    Outcome::Later(Box::pin(async move {
        let used = find(&front, &name).await?;
        let step = refuse_unless_counting(&used)?;
        if step != 1 {
            let detail =
                format!("`{name}` counts in steps of {step}, and INCRBY by {count} needs 1; use INCR");
            return Err(Refusal::new(Code::WrongScheme, detail));
        }
        caller.charge(&used.served, count, || front.node.elapsed())?;
        let run = used.served.take_run(count, front.patience()).await;
        let first = run.inspect_err(|_| caller.refund(&used.served, count))?;
        last_of(&used, first, count).ok_or_else(|| keymill_issuer::IssueError::Internal.into())
    }))
}

fn last_of(used: &Used, first: Number, count: u32) -> Option<Answer> {
    let Some(Mint::Sequence(sequence)) = used.served.mint() else { return None };
    let last = Number::new(first.get() + u64::from(count) - 1)?;
    Some(Answer::Integer(sequence.value_of(last)))
}

/// The step of a sequence whose tickets are integers.
fn refuse_unless_counting(used: &Used) -> Result<u64, Refusal> {
    match &used.served.definition {
        Definition::Sequence(sequence) if used.counts => Ok(sequence.step()),
        other => {
            let (name, scheme) = (&used.served.name, other.scheme());
            let detail = format!(
                "`{name}` is no sequence of plain decimal numbers (its scheme is {scheme}; prefix, check, length and \
                 other alphabets make text); take its keys with LPOP"
            );
            Err(Refusal::new(Code::WrongScheme, detail))
        }
    }
}
