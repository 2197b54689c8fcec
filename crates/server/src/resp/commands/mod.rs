//! What the Redis protocol can ask for. A file per family; the table beside it says what there is.

use std::{cell::Cell, future::Future, pin::Pin, sync::Arc, time::Duration};

use keymill_api::{Code, Refusal};
use keymill_issuer::{IssueError, haul::Haul};

use super::{
    Front,
    frame::Arguments,
    reply::Reply,
    session::{Session, Used},
};

pub(crate) mod about;
pub(crate) mod connection;
pub(crate) mod count;
pub(crate) mod link;
pub(crate) mod server;
pub(crate) mod take;

/// One command under way.
#[derive(Debug)]
pub(crate) struct Call<'c> {
    pub front: &'c Arc<Front>,
    pub session: &'c mut Session,
    pub arguments: Arguments<'c>,
    pub out: &'c mut Vec<u8>,
    /// What time it is, once somebody has asked: commands that came together share the answer.
    pub moment: &'c Cell<Option<Duration>>,
}

impl<'c> Call<'c> {
    /// The table has made sure of those that must be there.
    #[inline]
    pub(crate) fn argument(&self, index: usize) -> &'c [u8] {
        self.arguments.get(index).unwrap_or_default()
    }

    /// For what is counted by the second.
    #[inline]
    pub(crate) fn clock(&self) -> impl Fn() -> Duration + use<'c> {
        let (node, moment) = (&self.front.node, self.moment);
        move || {
            let now = moment.get().unwrap_or_else(|| node.elapsed());
            moment.set(Some(now));
            now
        }
    }

    #[inline]
    pub(crate) fn reply(&mut self) -> Reply<'_> {
        Reply { out: self.out, protocol: self.session.protocol }
    }

    pub(crate) fn error(&mut self, text: &str) -> Outcome {
        self.front.measure().refused(Code::InvalidRequest);
        self.reply().error("ERR", text);
        Outcome::Answered
    }

    pub(crate) fn refuse(&mut self, refusal: &Refusal) -> Outcome {
        self.front.measure().refused(refusal.code);
        self.reply().refusal(refusal);
        Outcome::Answered
    }

    pub(crate) fn ok(&mut self) -> Outcome {
        self.reply().ok();
        Outcome::Answered
    }
}

/// How a command went.
pub(crate) enum Outcome {
    Answered,
    /// Answered, and the connection ends.
    Close,
    /// It has to wait for something. Later commands of the connection wait with it: answers keep their order.
    Later(Later),
}

pub(crate) type Later = Pin<Box<dyn Future<Output = Result<Answer, Refusal>> + Send>>;

/// What came of a command that had to wait.
#[derive(Debug)]
pub(crate) enum Answer {
    Key(Haul),
    /// One key whose digits are the answer.
    Ticket(Haul),
    Keys {
        haul: Haul,
        unordered: bool,
    },
    Integer(u64),
    Word(&'static str),
    Text(Vec<u8>),
    Null,
}

impl Answer {
    pub(crate) fn write(&self, reply: &mut Reply<'_>) {
        match self {
            Self::Key(haul) => haul.keys().take(1).for_each(|key| reply.bulk(key)),
            Self::Ticket(haul) => haul.keys().take(1).for_each(|digits| reply.digits(digits)),
            Self::Keys { haul, unordered } => {
                let count = haul.count() as usize;
                if *unordered {
                    reply.set(count)
                } else {
                    reply.array(count)
                }
                haul.pieces().for_each(|piece| reply.keys(piece.joined(), piece.stride()));
            }
            Self::Integer(value) => reply.integer(*value),
            Self::Word(word) => reply.simple(word),
            Self::Text(text) => reply.bulk(text),
            Self::Null => reply.null(),
        }
    }
}

/// The name in a command, owned; what is not even text names no keyspace.
pub(super) fn owned_name(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// The keyspace of that name; one that this node does not know costs a look in the ledger.
async fn find(front: &Front, name: &str) -> Result<Used, Refusal> {
    let found = front.in_time(front.node.keyspace(name)).await?;
    Ok(Used::new(found.map_err(|error| not_found(error, name))?))
}

/// As the table of refusals has it, with the next step in this protocol's words.
pub(super) fn not_found(error: IssueError, name: &str) -> Refusal {
    match error {
        IssueError::KeyspaceNotFound => Refusal::new(
            Code::KeyspaceNotFound,
            format!("there is no keyspace `{}`; create it with POST /v1/keyspaces", name.escape_debug()),
        ),
        other => other.into(),
    }
}

/// A whole number as Redis reads one.
fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

const NOT_AN_INTEGER: &str = "value is not an integer or out of range";

fn too_many(count: i64, least: u32, most: u32) -> Refusal {
    let detail = format!(
        "the count must be from {least} to {most} (limits.count_max), and is {count}; ask several times for more"
    );
    Refusal::new(Code::CountOutOfRange, detail)
}
