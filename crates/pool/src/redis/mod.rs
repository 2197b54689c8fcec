//! A pool in Redis: a list or a set, from which other programs take with plain `LPOP` or `SPOP`.
//!
//! Beside it lies a small hash, `{KEY}:keymill`, that says whose pool it is, in which era it was begun, how far it was
//! filled (`next`), and on which server that was. A push compares the hash and changes it together with the rows, in
//! one transaction; a pop by a node compares it too, in one script. So a server that restarted, failed over or was
//! replaced hands out nothing before the filler has looked at it. Other programs are not held back: a Redis that
//! forgets a pop hands that key out again.

use std::time::Duration;

use async_trait::async_trait;
use keymill_id::{Number, RedisType, Rows, Slab};
use keymill_issuer::{
    Settings,
    rowed::{Begun, Era, PoolError, Popped, Pushed, RowHome, RowPool, Standing},
};
use keymill_ledger::NodeName;
use redis::{Script, Value};

mod durability;
mod link;

use link::Link;

/// Keys that one script imports: a script lets nobody else in until it is done.
const IMPORT_MAX: usize = 1000;

#[derive(Debug)]
pub struct RedisPool {
    names: Names,
    kind: RedisType,
    /// Ledger and keyspace: two that name the same key are told apart by it.
    owner: String,
    /// For everything but pushes, which need a connection of their own: a transaction belongs to one.
    link: Link,
    pushes: Link,
    scripts: Scripts,
}

/// What the pool's keys are called.
#[derive(Debug)]
struct Names {
    pool: String,
    meta: String,
    imported: String,
    filler: String,
}

#[derive(Debug)]
struct Scripts {
    standing: Script,
    vouch: Script,
    begin: Script,
    pop: Script,
    import: Script,
    lead: Script,
    resign: Script,
}

impl Names {
    /// All in one slot of a Redis Cluster: the pool's own name, or what it has in braces, is the tag.
    fn of(pool: &str) -> Self {
        let tag = pool.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
        let meta = match tag {
            Some(tag) if !tag.is_empty() => format!("{pool}:keymill"),
            _ => format!("{{{pool}}}:keymill"),
        };
        Self {
            pool: pool.to_owned(),
            imported: format!("{meta}:imported"),
            filler: format!("{meta}:filler"),
            meta,
        }
    }
}

impl RedisPool {
    /// Nothing is connected to before the first call.
    pub fn open(home: &RowHome, settings: &Settings) -> Result<Self, PoolError> {
        let Rows::Redis { key, kind } = &home.rows else {
            return Err(PoolError::Refused(format!("keyspace `{}` is no pool in Redis", home.keyspace)));
        };
        let Some(url) = &settings.places.redis_url else {
            return Err(PoolError::Refused(format!(
                "keyspace `{0}` keeps its keys in Redis, and no `redis_url` says which; set it with `keymill \
                 keyspace tune {0} --redis-url redis://HOST:6379`",
                home.keyspace
            )));
        };
        Ok(Self {
            names: Names::of(key),
            kind: *kind,
            owner: format!("{} {}", home.ledger, home.keyspace),
            link: Link::new(url)?,
            pushes: Link::new(url)?,
            scripts: Scripts {
                standing: Script::new(include_str!("standing.lua")),
                vouch: Script::new(include_str!("vouch.lua")),
                begin: Script::new(include_str!("begin.lua")),
                pop: Script::new(include_str!("pop.lua")),
                import: Script::new(include_str!("import.lua")),
                lead: Script::new(include_str!("lead.lua")),
                resign: Script::new(include_str!("resign.lua")),
            },
        })
    }

    fn foreign(&self, owner: &str) -> PoolError {
        let (ledger, keyspace) = owner.split_once(' ').unwrap_or((owner, "?"));
        PoolError::Refused(format!(
            "the key `{}` of that Redis belongs to keyspace `{keyspace}` of ledger {ledger}; give this keyspace \
             another `redis_key` or another `redis_url`",
            self.names.pool
        ))
    }

    fn strange(&self, what: &str) -> PoolError {
        PoolError::Refused(format!(
            "the key `{}` of that Redis holds a {what} that is not this pool's; take it away, or create a keyspace \
             with another `redis_key` (keys that are in it already are brought in with `keymill import keys`)",
            self.names.pool
        ))
    }

    /// Why the server that answers may have forgotten something, if it may.
    async fn doubt(&self, told: &Told) -> Result<Option<String>, PoolError> {
        if told.server == told.server_now {
            return Ok(None);
        }
        if !told.has_kept_all(self.link.keeps_all().await?) {
            let why = "Redis restarted, failed over or was replaced, and may have forgotten what was pushed and popped last";
            return Ok(Some(why.to_owned()));
        }
        let mut call = self.scripts.vouch.prepare_invoke();
        call.key(&self.names.meta).arg(&told.server).arg(&told.server_now);
        let vouched: bool = self.link.run(&call).await?;
        if vouched {
            let pool = &self.names.pool;
            tracing::info!(
                key = pool,
                "Redis restarted or was read-only, and kept everything; `{pool}` goes on"
            );
        }
        Ok(if vouched { None } else { Some("Redis restarted again".to_owned()) })
    }

    /// What the script of [`standing`](RowPool::standing) told.
    fn told(&self, (found, fields): (u8, Vec<String>)) -> Result<Told, PoolError> {
        let [owner, era, next, kind, level, server, server_now, predecessor, process, process_now] =
            <[String; 10]>::try_from(fields).map_err(|_| garbled())?;
        if kind != "none" && kind != self.kind.as_str() {
            return Err(self.strange(&kind));
        }
        if found == 1 && owner != self.owner {
            return Err(self.foreign(&owner));
        }
        let (era, next) = match found {
            1 => (Some(Era::parse(&era).ok_or_else(garbled)?), number(&next)?),
            _ => (None, Number::ZERO),
        };
        let level = level.parse().map_err(|_| garbled())?;
        Ok(Told { era, next, level, server, server_now, predecessor, process, process_now })
    }
}

/// What the hash and the server say.
struct Told {
    era: Option<Era>,
    next: Number,
    level: u64,
    /// The server's replication id when the hash was last vouched for, and now. Every restart and every failover
    /// changes it.
    server: String,
    server_now: String,
    /// Whose data it goes on from: a promoted replica's primary, a snapshot's writer, its own former self.
    predecessor: String,
    /// The server's process, likewise.
    process: String,
    process_now: String,
}

impl Told {
    /// A server that has another replication id may still have all it acknowledged. `logs_first`: it writes its log
    /// before it answers.
    fn has_kept_all(&self, logs_first: bool) -> bool {
        if self.process == self.process_now {
            // It was a replica for a while, of nobody that it ever reached: read-only.
            return self.predecessor == self.server;
        }
        // Nobody's successor: it read its own log.
        logs_first && self.predecessor.bytes().all(|byte| byte == b'0')
    }
}

fn number(text: &str) -> Result<Number, PoolError> {
    text.parse().ok().and_then(Number::new).ok_or_else(garbled)
}

fn garbled() -> PoolError {
    PoolError::Refused("what the pool's Redis says of itself was not written by Keymill".to_owned())
}

#[async_trait]
impl RowPool for RedisPool {
    async fn pop(&self, count: u32) -> Result<Popped, PoolError> {
        let mut call = self.scripts.pop.prepare_invoke();
        call.key(&self.names.pool).key(&self.names.meta);
        call.arg(&self.owner).arg(self.kind.as_str()).arg(count);
        let (verdict, detail, keys, left): (String, String, Vec<Vec<u8>>, u64) = self.link.run(&call).await?;
        match verdict.as_str() {
            "popped" => Ok(Popped { keys, left }),
            "foreign" => Err(self.foreign(&detail)),
            "new" => Err(PoolError::Doubtful("the filler has not begun the pool yet".to_owned())),
            _ => Err(PoolError::Doubtful(
                "its Redis is not the one that was filled; the filler looks at it".to_owned(),
            )),
        }
    }

    async fn standing(&self) -> Result<Standing, PoolError> {
        let mut call = self.scripts.standing.prepare_invoke();
        call.key(&self.names.pool).key(&self.names.meta);
        let told = self.told(self.link.run(&call).await?)?;
        let doubt = if told.era.is_some() { self.doubt(&told).await? } else { None };
        Ok(Standing { era: told.era, next: told.next, level: told.level, doubt })
    }

    async fn begin(&self, after: Option<Era>, era: Era, next: Number) -> Result<Begun, PoolError> {
        let aside = format!("{}:aside:{era}", self.names.meta);
        let mut call = self.scripts.begin.prepare_invoke();
        call.key(&self.names.pool).key(&self.names.meta).key(aside);
        call.arg(&self.owner).arg(after.map(|era| era.to_string()).unwrap_or_default());
        call.arg(era.to_string()).arg(next.get().to_string());
        let (verdict, detail, rows): (String, String, u64) = self.link.run(&call).await?;
        match verdict.as_str() {
            "begun" => Ok(Begun::Anew { burned: rows }),
            "aside" => {
                tracing::warn!(
                    rows,
                    "{rows} rows of `{}` hold imported keys, or nobody knows what: they are kept aside as \
                     `{detail}`, for someone to look at",
                    self.names.pool
                );
                Ok(Begun::Anew { burned: rows })
            }
            "foreign" => Err(self.foreign(&detail)),
            "strange" => Err(self.strange(&detail)),
            _ => Ok(Begun::Overtaken),
        }
    }

    async fn push(&self, era: Era, slab: &Slab) -> Result<Pushed, PoolError> {
        let Names { pool, meta, .. } = &self.names;
        let (from, to) = (slab.block().start().get().to_string(), slab.block().end().get().to_string());
        let mut connection = self.pushes.alone().await?;
        let mut look = redis::pipe();
        look.cmd("WATCH").arg(meta).ignore();
        look.cmd("HMGET").arg(meta).arg(&["owner", "era", "next", "server"]);
        look.cmd("INFO").arg("replication").cmd("TYPE").arg(pool);
        let (kept, info, kind): ([Option<String>; 4], String, String) = connection.query(&look).await?;
        // The connection cannot outlive the server's process, so this holds until the transaction below.
        let is_as_expected =
            [Some(self.owner.clone()), Some(era.to_string()), Some(from), link::replication_id(&info)];
        if kept != is_as_expected || (kind != "none" && kind != self.kind.as_str()) {
            return Ok(Pushed::Overtaken);
        }
        let mut change = redis::pipe();
        change.atomic();
        let (add, count) = match self.kind {
            RedisType::List => ("RPUSH", "LLEN"),
            RedisType::Set => ("SADD", "SCARD"),
        };
        if !slab.is_empty() {
            change.add_command(link::with_keys(add, pool, slab)).ignore();
        }
        change.cmd("HSET").arg(meta).arg("next").arg(to).ignore().cmd(count).arg(pool);
        match connection.query(&change).await? {
            Value::Nil => Ok(Pushed::Overtaken),
            level => {
                let (level,): (u64,) = redis::from_redis_value(level).map_err(|_| garbled())?;
                Ok(Pushed::Done { level })
            }
        }
    }

    async fn import(&self, era: Era, keys: &[&str]) -> Result<Option<Vec<bool>>, PoolError> {
        let mut added = Vec::with_capacity(keys.len());
        for keys in keys.chunks(IMPORT_MAX) {
            let mut call = self.scripts.import.prepare_invoke();
            call.key(&self.names.pool).key(&self.names.meta).key(&self.names.imported);
            call.arg(&self.owner).arg(era.to_string()).arg(self.kind.as_str()).arg(keys);
            let outcome: Option<Vec<bool>> = self.link.run(&call).await?;
            let Some(outcome) = outcome else { return Ok(None) };
            added.extend(outcome);
        }
        Ok(Some(added))
    }

    async fn lead(&self, node: &NodeName, term: Duration) -> Result<bool, PoolError> {
        let millis = u64::try_from(term.as_millis()).unwrap_or(u64::MAX);
        let mut call = self.scripts.lead.prepare_invoke();
        call.key(&self.names.filler).arg(node.as_str()).arg(millis);
        self.link.run(&call).await
    }

    async fn resign(&self, node: &NodeName) -> Result<(), PoolError> {
        let mut call = self.scripts.resign.prepare_invoke();
        call.key(&self.names.filler).arg(node.as_str());
        self.link.run(&call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_of_a_pool_share_its_hash_tag() {
        let names = Names::of("codes");
        assert_eq!((names.pool.as_str(), names.meta.as_str()), ("codes", "{codes}:keymill"));
        assert_eq!(names.imported, "{codes}:keymill:imported");
        assert_eq!(Names::of("{shop}:codes").meta, "{shop}:codes:keymill");
        assert_eq!(Names::of("{}codes").meta, "{{}codes}:keymill", "an empty tag is none");
    }
}
