//! Keys as pure functions of numbers: alphabets, shuffles, schemes. No clock, no entropy, no I/O.
//!
//! The ledger hands out [`Number`]s, each to one node only. This crate turns a number into a key, and a
//! key back into its number, so that "no number twice" becomes "no key twice". Everything here is
//! injective and depends on a frozen [`Definition`] alone; what time it is, who asks and where numbers
//! come from is the business of the crates below.
//!
//! The way in is short: what a config or a request says is [`Stated`]; [`Definition::resolve`] makes it
//! complete and valid or says which field is wrong; [`Mint::compile`] prepares it for speed; and
//! [`Mint::spell_block`] spells a reserved [`Block`] into a [`Slab`] of keys. Only a [`Digest`] has no
//! numbers: it proposes keys for content, and whoever binds them decides.
//!
//! ```
//! use keymill_id::{Definition, Mint, Number, Scheme, Secret, Stated};
//!
//! let stated = Stated { scheme: Some(Scheme::Pool), length: Some(6), ..Stated::default() };
//! let definition = Definition::resolve(&stated, Secret::from_bytes([7; 32]))?;
//! let mint = Mint::compile(&definition);
//! let key = mint.spell_one(Number::ZERO).expect("nothing is blocked");
//! assert_eq!(key.len(), 6);
//! assert_eq!(mint.number_of(&key), Some(Number::ZERO));
//! # Ok::<(), keymill_id::DefinitionError>(())
//! ```

mod alphabet;
mod block;
mod blocklist;
mod check;
mod decode;
mod definition;
mod digest;
mod feistel;
mod form;
mod hex;
mod layout;
mod name;
mod number;
mod pool;
mod profanity;
mod reciprocal;
mod scheme;
mod secret;
mod sequence;
mod shuffle;
mod slab;
mod snowflake;
mod spelling;
mod stated;
mod uuids;
mod window;

pub use alphabet::{Alphabet, AlphabetError};
pub use block::Block;
pub use blocklist::{Blocklist, BlocklistChoice, BlocklistError};
pub use check::{check_symbol, verify_check};
pub use decode::{Kind, Reading, readings};
pub use definition::{
    Conflict, Definition, DefinitionError, DigestDefinition, FreeScheme, PoolDefinition, Rows,
    SequenceDefinition, SnowflakeDefinition,
};
pub use digest::{Candidates, Digest, Identity, NONCE_LENGTH, OwnerMissing, Subject};
pub use layout::{Field, Layout, LayoutError, Parts, Tick};
pub use name::{KeyspaceName, NameError, ROUTE_WORDS};
pub use number::{NUMBER_MAX, Number};
pub use pool::{Pool, Spelled};
pub use scheme::{Mint, Scratch};
pub use secret::Secret;
pub use sequence::Sequence;
pub use shuffle::Shuffle;
pub use slab::Slab;
pub use snowflake::{Generator, Next, OnOverflow, OnRollback, Pause, Run, Settings, SharedGenerator};
pub use spelling::Spelling;
pub use stated::{Canonical, Dedupe, HashFunction, Order, RedisType, Scheme, Stated, Store};
pub use uuids::{Bytes16, ULID_LENGTH, UUID_LENGTH, UlidMonotonic, Uuid7, spell_ulid, spell_uuid, uuid4};
pub use window::Window;
