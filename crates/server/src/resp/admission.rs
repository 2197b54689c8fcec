//! Whether a connection may run a command. Asked for each one while callers need tokens, and not at all
//! otherwise.

use keymill_api::{Code, Refusal, Scope};
use keymill_issuer::IssueError;

use super::{
    commands::{Call, not_found, owned_name},
    session::Session,
    table::Command,
};

/// What a command needs of whoever sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it is how a connection shows its token, or ends.
    Nothing,
    /// Any token.
    Token,
    Scope(Scope),
}

#[inline]
pub(super) fn admit(call: &mut Call<'_>, command: &Command) -> Result<(), Refusal> {
    let scope = match command.need {
        Need::Nothing => return Ok(()),
        Need::Token => None,
        Need::Scope(scope) => Some(scope),
    };
    let Session { caller: Some(caller), .. } = &*call.session else { return Err(stranger()) };
    caller.refuse_unless_standing()?;
    if let Some(scope) = scope {
        caller.refuse_unless(scope)?;
    }
    let name = call.argument(1);
    // What a connection used last it may see: showing another token forgets it.
    if !command.keyed || call.session.used_last(name) || caller.sees_bytes(name) || command.asks_whether {
        return Ok(());
    }
    Err(not_found(IssueError::KeyspaceNotFound, &owned_name(name)))
}

#[cold]
fn stranger() -> Refusal {
    Refusal::new(Code::Unauthenticated, "Authentication required: send AUTH TOKEN, or HELLO 3 AUTH any TOKEN")
}
