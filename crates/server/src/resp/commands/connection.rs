//! What a connection says of itself: `HELLO`, `AUTH`, `CLIENT`, `SELECT`, `PING` and their kin.

use keymill_api::Code;

use super::{
    super::{
        reply::Protocol,
        session::{Session, is_name},
    },
    Call, NOT_AN_INTEGER, Outcome, integer,
};

const NO_PASSWORD: &str = "AUTH <password> called without any password configured for the default user. \
                           Are you sure your configuration is correct?";
const HELLO_AS_NOBODY: &str = "HELLO must be called with the client already authenticated, otherwise the HELLO \
                               <proto> AUTH <user> <pass> option can be used to authenticate the client and select \
                               the RESP protocol version at the same time";
const BAD_NAME: &str = "Client names cannot contain spaces, newlines or special characters.";

pub(crate) fn ping(call: &mut Call<'_>) -> Outcome {
    match call.arguments.get(1) {
        None => call.reply().simple("PONG"),
        Some(text) => call.reply().bulk(text),
    }
    Outcome::Answered
}

pub(crate) fn echo(call: &mut Call<'_>) -> Outcome {
    let text = call.argument(1);
    call.reply().bulk(text);
    Outcome::Answered
}

pub(crate) fn quit(call: &mut Call<'_>) -> Outcome {
    call.reply().ok();
    Outcome::Close
}

pub(crate) fn reset(call: &mut Call<'_>) -> Outcome {
    call.session.reset(call.front.newcomer());
    call.reply().simple("RESET");
    Outcome::Answered
}

/// There is one database.
pub(crate) fn select(call: &mut Call<'_>) -> Outcome {
    match integer(call.argument(1)) {
        Some(0) => call.ok(),
        Some(_) => call.error("DB index is out of range"),
        None => call.error(NOT_AN_INTEGER),
    }
}

/// `AUTH token` or `AUTH any token`. Where no token is needed, it answers as a Redis without a password does: a
/// bare password is a misunderstanding, and a user without a password may have any.
pub(crate) fn auth(call: &mut Call<'_>) -> Outcome {
    let bare = call.arguments.len() == 2;
    if !call.front.guard.is_on() {
        return if bare { call.error(NO_PASSWORD) } else { call.ok() };
    }
    match show(call, call.argument(if bare { 1 } else { 2 })) {
        Ok(()) => call.ok(),
        Err(outcome) => outcome,
    }
}

/// Shows a token. One that is not known leaves the connection as it was, as in Redis.
fn show(call: &mut Call<'_>, token: &[u8]) -> Result<(), Outcome> {
    match call.front.guard.holder(token) {
        Ok(caller) => {
            call.session.become_caller(caller);
            Ok(())
        }
        Err(refusal) if refusal.code == Code::Unauthenticated => {
            call.reply().error("WRONGPASS", &refusal.detail);
            Err(Outcome::Answered)
        }
        Err(refusal) => Err(call.refuse(&refusal)),
    }
}

/// `HELLO [2|3 [AUTH user token] [SETNAME name]]`
pub(crate) fn hello(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let mut protocol = call.session.protocol;
    if let Some(version) = arguments.get(1) {
        protocol = match integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => {
                call.reply().error("NOPROTO", "unsupported protocol version");
                return Outcome::Answered;
            }
            None => return call.error("Protocol version is not an integer or out of range"),
        };
    }
    let (mut name, mut token) = (None, None);
    let mut at = 2;
    while let Some(option) = arguments.get(at) {
        at += match (option.to_ascii_lowercase().as_slice(), arguments.len() - at - 1) {
            (b"auth", 2..) => {
                token = arguments.get(at + 2);
                3
            }
            (b"setname", 1..) => {
                name = arguments.get(at + 1);
                2
            }
            _ => {
                let text = format!("Syntax error in HELLO option '{}'", option.escape_ascii());
                return call.error(&text);
            }
        };
    }
    if call.front.guard.is_on() {
        if let Some(token) = token
            && let Err(outcome) = show(call, token)
        {
            return outcome;
        }
        if call.session.caller.is_none() {
            call.reply().error("NOAUTH", HELLO_AS_NOBODY);
            return Outcome::Answered;
        }
    }
    if let Some(name) = name
        && !set_name(call.session, name)
    {
        return call.error(BAD_NAME);
    }
    call.session.protocol = protocol;
    greet(call);
    Outcome::Answered
}

fn greet(call: &mut Call<'_>) {
    let (id, protocol) = (call.session.id, call.session.protocol);
    let mut reply = call.reply();
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(super::server::REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

fn set_name(session: &mut Session, name: &[u8]) -> bool {
    let allowed = is_name(name);
    if allowed {
        let name = String::from_utf8_lossy(name);
        session.name = (!name.is_empty()).then(|| name.into());
    }
    allowed
}

/// What clients say and ask when they connect.
pub(crate) fn client(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let subcommand = call.argument(1).to_ascii_lowercase();
    match (subcommand.as_slice(), arguments.len()) {
        (b"id", 2) => {
            let id = call.session.id;
            call.reply().integer(id);
            Outcome::Answered
        }
        (b"getname", 2) => {
            match call.session.name.clone() {
                Some(name) => call.reply().bulk(name.as_bytes()),
                None => call.reply().null(),
            }
            Outcome::Answered
        }
        (b"setname", 3) => {
            let name = call.argument(2);
            if set_name(call.session, name) { call.ok() } else { call.error(BAD_NAME) }
        }
        (b"info", 2) => {
            let Session { id, name, protocol, .. } = &*call.session;
            let version = if *protocol == Protocol::Resp3 { 3 } else { 2 };
            let name = name.as_deref().unwrap_or_default();
            let line = format!("id={id} name={name} db=0 resp={version}\n");
            call.reply().bulk(line.as_bytes());
            Outcome::Answered
        }
        // Said by libraries of themselves, or about memory that is not held here: heard, and of no consequence.
        (b"setinfo", 4) | (b"no-evict" | b"no-touch", 3) => call.ok(),
        _ => {
            let text = format!(
                "unknown subcommand or wrong number of arguments for '{}'; CLIENT has ID, GETNAME, SETNAME, INFO, \
                 SETINFO, NO-EVICT and NO-TOUCH",
                call.argument(1).escape_ascii()
            );
            call.error(&text)
        }
    }
}
