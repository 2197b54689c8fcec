//! Every command there is, a row each.

use keymill_api::Scope;

use super::{
    admission::{self, Need},
    commands::{Call, Outcome, about, connection, count, link, server, take},
};

#[derive(Debug)]
pub(crate) struct Command {
    /// In lower case, as Redis names commands in its messages.
    pub name: &'static str,
    /// Arguments, the name included.
    pub least: usize,
    pub most: usize,
    /// Whether the first argument names a keyspace or a key.
    pub keyed: bool,
    /// Whether a keyspace that is not there is no error.
    pub asks_whether: bool,
    pub need: Need,
    pub run: fn(&mut Call<'_>) -> Outcome,
    pub summary: &'static str,
}

const MANY: usize = usize::MAX;

macro_rules! commands {
    ($($name:literal $least:literal..=$most:tt $keyed:tt $need:tt $run:path, $summary:literal;)*) => {
        /// Those that are asked for most come first: looking up is looking through.
        pub(crate) const COMMANDS: &[Command] = &[$(Command {
            name: $name,
            least: $least,
            most: $most,
            keyed: commands!(@keyed $keyed),
            asks_whether: commands!(@asks_whether $keyed),
            need: commands!(@need $need),
            run: $run,
            summary: $summary,
        }),*];
    };
    (@keyed plain) => { false };
    (@keyed $keyed:tt) => { true };
    (@asks_whether whether) => { true };
    (@asks_whether $keyed:tt) => { false };
    (@need open) => { Need::Nothing };
    (@need token) => { Need::Token };
    (@need take) => { Need::Scope(Scope::Take) };
    (@need inspect) => { Need::Scope(Scope::Inspect) };
    (@need name) => { Need::Scope(Scope::Name) };
}

commands! {
    "lpop" 2..=3 keyed take take::pop, "Takes one key of a keyspace, or up to so many";
    "rpop" 2..=3 keyed take take::pop, "The same as LPOP";
    "spop" 2..=3 keyed take take::spop, "The same as LPOP; with a count the answer is a set";
    "incr" 2..=2 keyed take count::incr, "Takes the next ticket of a sequence";
    "incrby" 3..=3 keyed take count::incrby, "Takes so many tickets that follow one another and answers the last";
    "ping" 1..=2 plain token connection::ping, "Answers PONG, or what it was given";
    "get" 2..=2 whether inspect link::get, "The URL of a key";
    "set" 3..=MANY whether name link::set, "Binds a key to a URL, with NX";
    "llen" 2..=2 keyed inspect about::length, "How many keys of a keyspace are left";
    "scard" 2..=2 keyed inspect about::length, "The same as LLEN";
    "type" 2..=2 whether inspect about::kind, "list, string (a sequence) or none";
    "exists" 2..=MANY whether inspect about::exists, "How many of these are keyspaces, or keys that lead somewhere";
    "echo" 2..=2 plain token connection::echo, "Answers what it was given";
    "hello" 1..=MANY plain open connection::hello, "Changes the version of the protocol";
    "auth" 2..=3 plain open connection::auth, "Shows a token";
    "select" 2..=2 plain token connection::select, "There is one database, 0";
    "client" 2..=MANY plain token connection::client, "What a connection says of itself";
    "command" 1..=MANY plain token server::command, "What commands there are";
    "info" 1..=MANY plain token server::info, "What the server says of itself";
    "config" 3..=MANY plain token server::config, "CONFIG GET, for tools that ask";
    "reset" 1..=1 plain open connection::reset, "Forgets what the connection said of itself";
    "quit" 1..=MANY plain open connection::quit, "Ends the connection";
}

#[inline]
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Looks a command up, checks how many arguments it has, and runs it.
#[inline]
pub(crate) fn run(call: &mut Call<'_>) -> Outcome {
    let name = call.argument(0);
    let Some(command) = find(name) else { return unknown(call) };
    let count = call.arguments.len();
    if count < command.least || count > command.most {
        let text = format!("wrong number of arguments for '{}' command", command.name);
        return call.error(&text);
    }
    if call.front.guard.is_on()
        && let Err(refusal) = admission::admit(call, command)
    {
        return call.refuse(&refusal);
    }
    (command.run)(call)
}

#[cold]
fn unknown(call: &mut Call<'_>) -> Outcome {
    const SHOWN_MAX: usize = 64;
    let name = call.argument(0);
    // A web page that makes a browser post to this port must not get its body read as commands.
    if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
        call.error("this port speaks the Redis protocol, and that was HTTP; see listen.http");
        return Outcome::Close;
    }
    let text = format!("unknown command '{}'", name[..name.len().min(SHOWN_MAX)].escape_ascii());
    call.error(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_any_case_and_once() {
        assert_eq!(find(b"lPoP").unwrap().name, "lpop");
        assert!(find(b"LPO").is_none() && find(b"").is_none() && find(b"lpop ").is_none());
        let mut names: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COMMANDS.len());
        assert!(COMMANDS.iter().all(|command| command.least <= command.most && command.least > 0));
    }
}
