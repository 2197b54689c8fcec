//! `GET` and `SET`: links, as keys of the root keyspace or as `keyspace:key`.

use std::sync::Arc;

use keymill_api::{BindLink, Code, Refusal};
use keymill_issuer::{IssueError, Served};

use super::{super::Front, Answer, Call, Outcome, integer, owned_name};
use crate::{auth::Caller, names::Once};

/// Where a key leads; nil if nowhere.
pub(crate) fn get(call: &mut Call<'_>) -> Outcome {
    let (front, caller) = (call.front.clone(), call.session.caller().clone());
    let text = owned_name(call.argument(1));
    Outcome::Later(Box::pin(async move {
        front.names.registry()?;
        let Some((served, key)) = place(&front, &caller, &text).await? else { return Ok(Answer::Null) };
        let target = front.ask_names(front.names.peek(&served, key)).await??;
        Ok(target.map_or(Answer::Null, |target| Answer::Text(target.into_bytes())))
    }))
}

/// `SET key url NX [EX seconds]`: binds a key that was taken, or a name. The first one wins; the others get nil.
pub(crate) fn set(call: &mut Call<'_>) -> Outcome {
    let options = match options(call) {
        Ok(options) => options,
        Err(text) => return call.error(text),
    };
    let (front, caller) = (call.front.clone(), call.session.caller().clone());
    let (text, url) = (owned_name(call.argument(1)), owned_name(call.argument(2)));
    Outcome::Later(Box::pin(async move {
        front.names.registry()?;
        let Some((served, key)) = place(&front, &caller, &text).await? else {
            let detail = format!("there is no keyspace for `{}`; write KEYSPACE:KEY", text.escape_debug());
            return Err(Refusal::new(Code::KeyspaceNotFound, detail));
        };
        let link = BindLink { url, expires_in: options.seconds };
        let bound = front.ask_names(front.names.bind(&served, key, &link, &Once::Unasked)).await?;
        match bound {
            Ok(_) => Ok(Answer::Word("OK")),
            Err(refusal) if matches!(refusal.code, Code::AlreadyBound | Code::NameTaken | Code::LinkGone) => {
                Ok(Answer::Null)
            }
            Err(refusal) => Err(refusal),
        }
    }))
}

struct Options {
    seconds: Option<u64>,
}

fn options(call: &Call<'_>) -> Result<Options, &'static str> {
    let (mut only_new, mut seconds) = (false, None);
    let mut words = call.arguments.iter().skip(3);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"nx") {
            only_new = true;
        } else if word.eq_ignore_ascii_case(b"ex") && seconds.is_none() {
            let given = words.next().and_then(integer).and_then(|given| u64::try_from(given).ok());
            seconds = Some(given.filter(|given| *given > 0).ok_or("invalid expire time in 'set' command")?);
        } else {
            return Err("syntax error: SET key url NX [EX seconds]");
        }
    }
    if only_new {
        Ok(Options { seconds })
    } else {
        Err("links are bound once: use SET key url NX [EX seconds]")
    }
}

/// `ks:key`, or a key of the root keyspace. `None`: no such keyspace that the caller may see.
pub(super) async fn place<'t>(
    front: &Front,
    caller: &Caller,
    text: &'t str,
) -> Result<Option<(Arc<Served>, &'t str)>, Refusal> {
    let (served, key) = match text.split_once(':') {
        Some((keyspace, key)) => match front.in_time(front.node.keyspace(keyspace)).await? {
            Ok(served) => (Some(served), key),
            Err(IssueError::KeyspaceNotFound) => (None, key),
            Err(other) => return Err(other.into()),
        },
        None => (front.names.root(), text),
    };
    Ok(served.filter(|served| caller.sees(served.name.as_str())).map(|served| (served, key)))
}

/// Whether a key leads somewhere.
pub(super) async fn leads(front: &Front, caller: &Caller, text: &str) -> Result<bool, Refusal> {
    if front.names.registry().is_err() {
        return Ok(false);
    }
    let Some((served, key)) = place(front, caller, text).await? else { return Ok(false) };
    Ok(front.names.peek(&served, key).await?.is_some())
}
