//! The first thing a person sees: where it listens, what there is, what to try.

use std::{io::Write, sync::Arc};

use keymill_issuer::{Node, Served};

use crate::{
    config::{Config, LedgerUrl},
    serve::Listening,
};

/// Keyspaces listed by name; more are only counted.
const SHOWN_MAX: usize = 8;

pub(crate) fn print(node: &Arc<Node>, config: &Config, listening: &Listening, guarded: bool) {
    let address = format!("{}://{}", listening.scheme(), listening.http);
    let mut known: Vec<_> = node.all_known().into_iter().filter(|served| !served.is_retired()).collect();
    known.sort_by(|a, b| a.name.cmp(&b.name));
    let ledger = node.ledger();
    let mut lines = vec![
        format!("Keymill {} serves as node {}", crate::VERSION, node.name()),
        format!("  HTTP       {address}   (dashboard; API: {address}/docs)"),
        format!("  ledger     {} {} ({})", ledger.store(), place(config), ledger.grade()),
    ];
    if let Some(resp) = listening.resp {
        let scheme = if listening.tls { "rediss" } else { "redis" };
        lines.insert(2, format!("  Redis      {scheme}://{resp}   (LPOP, SPOP, INCR)"));
    }
    if let Some(admin) = listening.admin {
        lines.push(format!("  admin      {}://{admin}   (ledger, tokens, retire)", listening.scheme()));
    }
    if guarded {
        lines.push("  callers    need a token   (keymill token list)".to_owned());
    }
    for served in known.iter().take(SHOWN_MAX) {
        lines.push(format!("  keyspace   {:<10} {}", served.name.as_str(), describe(&served.definition)));
    }
    if known.len() > SHOWN_MAX {
        lines.push(format!("  and {} more: keymill keyspace list", known.len() - SHOWN_MAX));
    }
    let gives = |served: &&Arc<Served>| served.digest().is_none();
    let one = known.iter().find(|served| served.name.as_str() == "links").filter(gives);
    let one = one.or_else(|| known.iter().find(gives));
    let bearer = if guarded { " -H 'Authorization: Bearer TOKEN'" } else { "" };
    match one {
        Some(served) => lines
            .push(format!("  try        curl{bearer} -X POST {address}/v1/keyspaces/{}/keys", served.name)),
        None => lines.push("  try        keymill keyspace create links --scheme pool".to_owned()),
    }
    // Whoever started us may have stopped reading; that is no reason to die.
    let _ = writeln!(std::io::stdout(), "{}", lines.join("\n"));
}

/// Where the ledger is, for people.
fn place(config: &Config) -> String {
    match config.ledger_url() {
        Ok(LedgerUrl::Shared(url)) => format!("at {url}"),
        _ => format!("in {}", config.data_dir.display()),
    }
}

/// It answers, but serves no keys.
pub(crate) fn print_halted(node: &Node, listening: &Listening, reason: &str) {
    let address = format!("{}://{}", listening.scheme(), listening.http);
    let version = crate::VERSION;
    let _ = writeln!(
        std::io::stdout(),
        "Keymill {version} answers at {address} as node {}, but serves no keys: the ledger is halted.\n  \
         why        {reason}\n  look       keymill ledger show\n  then       keymill ledger advance",
        node.name()
    );
}

fn describe(definition: &keymill_id::Definition) -> String {
    use keymill_id::Definition;
    match definition {
        Definition::Pool(pool) => {
            format!("{} keys of {} {} symbols", pool.order(), pool.length(), pool.alphabet())
        }
        Definition::Sequence(sequence) => {
            format!("tickets {}, {}, …", sequence.offset(), sequence.offset() + sequence.step())
        }
        Definition::Snowflake(snowflake) => {
            let layout = snowflake.layout();
            format!("time-ordered IDs ({layout}), good for {:.0} years", layout.lifetime_years())
        }
        Definition::Digest(digest) => {
            format!(
                "keys of {} {} symbols, from the {} of content",
                digest.length(),
                digest.alphabet(),
                digest.hash()
            )
        }
        Definition::Free(_) => format!("{}, made on the spot", definition.scheme()),
    }
}
