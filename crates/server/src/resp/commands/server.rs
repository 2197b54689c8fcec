//! What the server says of itself: `COMMAND`, `INFO`, `CONFIG`.

use std::fmt::Write;

use keymill_issuer::NodeState;

use super::{
    super::{
        Front,
        table::{self, Command},
    },
    Call, Outcome,
};
use crate::auth::Caller;

/// The version whose behaviour this is; clients look at it.
pub(crate) const REDIS_VERSION: &str = "7.0.0";

/// Answers to the only settings that tools ask for before they begin.
const SETTINGS: [(&[u8], &[u8]); 2] = [(b"save", b""), (b"appendonly", b"no")];

pub(crate) fn command(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let asked = || arguments.iter().skip(2);
    let subcommand = call.argument(1).to_ascii_lowercase();
    let mut reply = call.reply();
    match subcommand.as_slice() {
        b"count" => reply.integer(table::COMMANDS.len() as u64),
        b"list" => {
            reply.array(table::COMMANDS.len());
            table::COMMANDS.iter().for_each(|command| reply.bulk(command.name.as_bytes()));
        }
        b"docs" => {
            let wanted: Vec<&Command> = match arguments.len() {
                2 => table::COMMANDS.iter().collect(),
                _ => asked().filter_map(table::find).collect(),
            };
            reply.map(wanted.len());
            for command in wanted {
                reply.bulk(command.name.as_bytes());
                reply.map(2);
                reply.bulk(b"summary");
                reply.bulk(command.summary.as_bytes());
                reply.bulk(b"group");
                reply.bulk(b"generic");
            }
        }
        b"" => {
            reply.array(table::COMMANDS.len());
            table::COMMANDS.iter().for_each(|command| describe(&mut reply, command));
        }
        b"info" => {
            reply.array(arguments.len() - 2);
            for name in asked() {
                match table::find(name) {
                    Some(command) => describe(&mut reply, command),
                    None => reply.null(),
                }
            }
        }
        _ => {
            let text = format!("unknown subcommand '{}'", call.argument(1).escape_ascii());
            return call.error(&text);
        }
    }
    Outcome::Answered
}

/// Name, arity, flags, positions of keys; then what newer versions of Redis add, empty.
fn describe(reply: &mut super::Reply<'_>, command: &Command) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    let least = command.least as u64;
    if command.least == command.most {
        reply.integer(least);
    } else {
        reply.at_least(least);
    }
    reply.set(1);
    reply.simple("fast");
    for _ in 0..3 {
        reply.integer(u64::from(command.keyed));
    }
    for _ in 0..4 {
        reply.set(0);
    }
}

/// `CONFIG GET`: next to nothing here is Redis' to configure, but tools ask all the same.
pub(crate) fn config(call: &mut Call<'_>) -> Outcome {
    if !call.argument(1).eq_ignore_ascii_case(b"get") {
        return call.error("CONFIG only knows GET; `keymill serve --check` shows what can be set, and where");
    }
    let arguments = call.arguments;
    let asked = |name: &[u8]| arguments.iter().skip(2).any(|asked| asked.eq_ignore_ascii_case(name));
    let known: Vec<_> = SETTINGS.iter().filter(|(name, _)| asked(name)).collect();
    let mut reply = call.reply();
    reply.map(known.len());
    for (name, value) in known {
        reply.bulk(name);
        reply.bulk(value);
    }
    Outcome::Answered
}

pub(crate) fn info(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let wanted = |section: &str| {
        let names = || arguments.iter().skip(1);
        let all = [&b"all"[..], b"default", b"everything"];
        arguments.len() == 1
            || names().any(|name| {
                name.eq_ignore_ascii_case(section.as_bytes())
                    || all.iter().any(|word| name.eq_ignore_ascii_case(word))
            })
    };
    let mut text = String::new();
    for (name, section) in SECTIONS {
        if wanted(name) {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            let _ = write!(text, "{gap}# {name}\r\n");
            for (field, value) in section(call.front, call.session.caller()) {
                let _ = write!(text, "{field}:{value}\r\n");
            }
        }
    }
    call.reply().bulk(text.as_bytes());
    Outcome::Answered
}

type Section = fn(&Front, &Caller) -> Vec<(&'static str, String)>;

const SECTIONS: [(&str, Section); 6] = [
    ("Server", |front, _| {
        vec![
            ("redis_version", REDIS_VERSION.to_owned()),
            ("keymill_version", crate::VERSION.to_owned()),
            ("redis_mode", "standalone".to_owned()),
            ("process_id", std::process::id().to_string()),
            ("tcp_port", front.port.to_string()),
            ("uptime_in_seconds", front.started.elapsed().as_secs().to_string()),
            ("keymill_node", front.node.name().to_string()),
        ]
    }),
    ("Clients", |front, _| {
        vec![
            ("connected_clients", front.connected().to_string()),
            ("maxclients", front.limits.resp_connections.to_string()),
        ]
    }),
    ("Persistence", |front, _| {
        let state = front.node.state().borrow().clone();
        let away = matches!(state, NodeState::Starting { .. } | NodeState::Draining | NodeState::Dead { .. });
        vec![("loading", u8::from(away).to_string())]
    }),
    ("Replication", |_, _| vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
    ("Cluster", |_, _| vec![("cluster_enabled", "0".to_owned())]),
    ("Keyspace", |front, caller| {
        let known = front.node.all_known();
        let seen = known.iter().filter(|served| !served.is_retired() && caller.sees(served.name.as_str()));
        let served = seen.count();
        if served == 0 { Vec::new() } else { vec![("db0", format!("keys={served},expires=0,avg_ttl=0"))] }
    }),
];
