//! A keyspace's frozen definition: complete, valid, and never changed.
//!
//! Everything that shapes keys is in here, so two nodes with equal definitions spell equal keys. A
//! [`Definition`] cannot be invalid: it comes from [`Definition::resolve`], or from the ledger's text by the
//! same checks. It is stored as sorted compact JSON, and its fingerprint is a hash over that.
//!
//! **Adding a frozen field later**: definitions that are already stored do not have it, and must keep their
//! text and their fingerprint. So a new field gets the value that means what its absence meant, and
//! `fields` leaves it out while it has that value.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;
use sha2::{Digest, Sha256};
use thiserror::Error;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    alphabet::Alphabet,
    blocklist::{Blocklist, BlocklistChoice},
    hex,
    layout::Layout,
    number::NUMBER_MAX,
    secret::Secret,
    spelling::Spelling,
    stated::{Order, Scheme, Stated, Store},
};

const POOL_ALPHABET: &str = "base62";
const POOL_LENGTH: u32 = 7;
const SEQUENCE_ALPHABET: &str = "decimal";
const SEQUENCE_LENGTH: u32 = 1;

const PREFIX_LENGTH_MAX: usize = 16;
/// Wide enough for 2^63−1 in any alphabet; padding beyond it says nothing.
const SEQUENCE_LENGTH_MAX: u32 = 64;

/// What a keyspace is, for ever.
///
/// Not `Serialize`, so that no secret ends up in an answer by accident: say which form is meant with
/// [`to_stored_json`](Self::to_stored_json) or [`to_public_json`](Self::to_public_json).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Definition {
    Pool(PoolDefinition),
    Sequence(SequenceDefinition),
    Snowflake(SnowflakeDefinition),
    /// Made without asking anyone; there is nothing to define.
    Free(FreeScheme),
}

/// Schemes that need no ledger: their keys are unique by chance alone.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum FreeScheme {
    Uuid4,
    Uuid7,
    Ulid,
}

/// All texts of a length over an alphabet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolDefinition {
    root: bool,
    alphabet: Alphabet,
    length: u32,
    prefix: String,
    check: bool,
    blocklist: BlocklistChoice,
    grow: bool,
    /// Present if and only if the order is shuffled.
    secret: Option<Secret>,
}

/// `offset`, `offset + step`, `offset + 2 · step`, …
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceDefinition {
    alphabet: Alphabet,
    length: u32,
    prefix: String,
    check: bool,
    offset: u64,
    step: u64,
}

/// Time-ordered IDs of up to 63 bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnowflakeDefinition {
    layout: Layout,
    region: u32,
}

/// Why a definition was refused. All but the last are for whoever stated it to correct.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DefinitionError {
    /// State the field.
    #[error("`{field}` is required: {hint}")]
    Missing { field: &'static str, hint: &'static str },
    /// State another value.
    #[error("`{field}` is not valid: {reason}")]
    Invalid { field: &'static str, reason: String },
    /// Leave the field out, or choose what it applies to.
    #[error("`{field}` applies to {applies_to}, not to {not_to}")]
    Misplaced { field: &'static str, applies_to: String, not_to: &'static str },
    /// Wait for a version that has it.
    #[error("`{field}` = `{value}` is not part of this version yet")]
    NotBuilt { field: &'static str, value: &'static str },
    /// The ledger holds a text that this version did not write: it is damaged, or from a newer one.
    #[error("the stored definition cannot be read: {reason}")]
    Unreadable { reason: String },
}

/// A frozen field that is stated otherwise than it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    pub field: &'static str,
    pub stated: String,
    pub stored: String,
}

impl Definition {
    /// Completes what is stated with defaults. `secret` becomes the shuffle's; where nothing is
    /// shuffled it is dropped.
    pub fn resolve(stated: &Stated, secret: Secret) -> Result<Self, DefinitionError> {
        let scheme = stated.scheme.ok_or(DefinitionError::Missing {
            field: "scheme",
            hint: "state what kind of keyspace it is, such as `pool` or `sequence`",
        })?;
        if let Some((field, schemes)) = stated.misplaced(scheme) {
            return Err(DefinitionError::Misplaced {
                field,
                applies_to: schemes.iter().map(|scheme| scheme.as_str()).collect::<Vec<_>>().join(" and "),
                not_to: scheme.as_str(),
            });
        }
        match scheme {
            Scheme::Pool => PoolDefinition::resolve(stated, secret).map(Self::Pool),
            Scheme::Sequence => SequenceDefinition::resolve(stated).map(Self::Sequence),
            Scheme::Snowflake => SnowflakeDefinition::resolve(stated).map(Self::Snowflake),
            Scheme::Uuid4 => Ok(Self::Free(FreeScheme::Uuid4)),
            Scheme::Uuid7 => Ok(Self::Free(FreeScheme::Uuid7)),
            Scheme::Ulid => Ok(Self::Free(FreeScheme::Ulid)),
            Scheme::Digest => Err(DefinitionError::NotBuilt { field: "scheme", value: scheme.as_str() }),
        }
    }

    pub fn scheme(&self) -> Scheme {
        match self {
            Self::Pool(_) => Scheme::Pool,
            Self::Sequence(_) => Scheme::Sequence,
            Self::Snowflake(_) => Scheme::Snowflake,
            Self::Free(FreeScheme::Uuid4) => Scheme::Uuid4,
            Self::Free(FreeScheme::Uuid7) => Scheme::Uuid7,
            Self::Free(FreeScheme::Ulid) => Scheme::Ulid,
        }
    }

    /// Whether it is the keyspace that answers `GET /{key}`.
    pub fn root(&self) -> bool {
        match self {
            Self::Pool(pool) => pool.root,
            _ => false,
        }
    }

    /// What every key begins with.
    pub fn prefix(&self) -> &str {
        match self {
            Self::Pool(pool) => &pool.prefix,
            Self::Sequence(sequence) => &sequence.prefix,
            Self::Snowflake(_) | Self::Free(_) => "",
        }
    }

    /// Where `stated` disagrees. Only what it states is compared, as this scheme would write it; two
    /// spellings of one alphabet stay two, since they are read differently.
    pub fn conflicts(&self, stated: &Stated) -> Vec<Conflict> {
        let fields = self.fields();
        let written =
            Self::resolve(stated, Secret::from_bytes([0; Secret::LENGTH])).map(|stated| stated.fields());
        let mut conflicts = Vec::new();
        for (field, value) in stated.values() {
            let value =
                written.as_ref().ok().and_then(|written| written.get(field)).cloned().unwrap_or(value);
            let stored = fields.get(field);
            if stored == Some(&value) {
                continue;
            }
            let stored = stored.map_or_else(|| format!("nothing, as it is a {}", self.scheme()), shown);
            conflicts.push(Conflict { field, stated: shown(&value), stored });
            // With another scheme every other field differs too, and that helps nobody.
            if field == "scheme" {
                break;
            }
        }
        conflicts
    }

    /// Hex SHA-256 of the stored definition, its secret replaced by the secret's own SHA-256: equal for
    /// equal definitions, safe to show.
    pub fn fingerprint(&self) -> String {
        let mut fields = self.fields();
        if let Some(secret) = self.secret() {
            fields.insert("secret", secret.sha256_hex().into());
        }
        hex::encode(&Sha256::digest(sorted_json(&fields)))
    }

    /// What the ledger keeps: all fields, and the secret.
    pub fn to_stored_json(&self) -> String {
        sorted_json(&self.stored_fields())
    }

    /// Reads what [`to_stored_json`](Self::to_stored_json) wrote, and nothing else: a text that would be
    /// written otherwise is refused, so a missing field is never taken for a default.
    pub fn from_stored_json(text: &str) -> Result<Self, DefinitionError> {
        let unreadable = |reason: String| DefinitionError::Unreadable { reason };
        let fields: BTreeMap<String, Value> =
            serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
        let secret = match fields.get("secret") {
            Some(Value::String(secret)) => Secret::from_hex(secret)
                .ok_or_else(|| unreadable("its secret is not 64 hexadecimal digits".to_owned()))?,
            Some(_) => return Err(unreadable("its secret is not a text".to_owned())),
            // Dropped again, or else found out below.
            None => Secret::from_bytes([0; Secret::LENGTH]),
        };
        let stated = fields.iter().filter(|(field, _)| *field != "secret");
        let stated: Value = stated.map(|(field, value)| (field.clone(), value.clone())).collect();
        let stated: Stated = serde_json::from_value(stated).map_err(|error| unreadable(error.to_string()))?;
        let definition = Self::resolve(&stated, secret).map_err(|error| unreadable(error.to_string()))?;
        let written = definition.stored_fields();
        match written
            .keys()
            .copied()
            .chain(fields.keys().map(String::as_str))
            .find(|field| written.get(field) != fields.get(*field))
        {
            None => Ok(definition),
            Some(field) => {
                Err(unreadable(format!("its `{field}` is missing or was not written by this version")))
            }
        }
    }

    /// All fields but the secret. Ledger numbers are strings, as everywhere in JSON.
    pub fn to_public_json(&self) -> Value {
        self.fields().into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
    }

    fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Pool(pool) => pool.secret.as_ref(),
            _ => None,
        }
    }

    /// Every frozen field but the secret, by name, as it is compared, stored and shown.
    fn fields(&self) -> BTreeMap<&'static str, Value> {
        match self {
            Self::Pool(pool) => pool.fields(),
            Self::Sequence(sequence) => sequence.fields(),
            Self::Snowflake(snowflake) => snowflake.fields(),
            Self::Free(_) => BTreeMap::from([("scheme", self.scheme().as_str().into())]),
        }
    }

    fn stored_fields(&self) -> BTreeMap<&'static str, Value> {
        let mut fields = self.fields();
        if let Some(secret) = self.secret() {
            fields.insert("secret", secret.to_hex().into());
        }
        fields
    }
}

impl PoolDefinition {
    fn resolve(stated: &Stated, secret: Secret) -> Result<Self, DefinitionError> {
        resolve_store(stated)?;
        let alphabet = resolve_alphabet(stated, POOL_ALPHABET)?;
        let length = stated.length.unwrap_or(POOL_LENGTH);
        let longest = longest(&alphabet);
        if length == 0 {
            return Err(invalid("length", "a key has at least one symbol"));
        }
        if length > longest {
            let radix = alphabet.radix();
            return Err(invalid(
                "length",
                format!("{radix}^{length} exceeds 2^63−1; the longest {alphabet} key is {longest}"),
            ));
        }
        let prefix = resolve_prefix(stated)?;
        let blocklist = stated.blocklist.clone().unwrap_or_default();
        let compiled = Blocklist::new(&blocklist).map_err(|error| invalid("blocklist", error.to_string()))?;
        if compiled.blocks(prefix.as_bytes()) {
            return Err(invalid(
                "prefix",
                format!("`{prefix}` contains a word of the blocklist, so every key would be blocked"),
            ));
        }
        Ok(Self {
            root: stated.root.unwrap_or(false),
            check: resolve_check(stated, &alphabet)?,
            alphabet,
            length,
            prefix,
            blocklist,
            grow: stated.grow.unwrap_or(false),
            secret: match stated.order.unwrap_or(Order::Shuffled) {
                Order::Shuffled => Some(secret),
                Order::Sequential => None,
            },
        })
    }

    fn fields(&self) -> BTreeMap<&'static str, Value> {
        BTreeMap::from([
            ("scheme", Scheme::Pool.as_str().into()),
            ("root", self.root.into()),
            ("alphabet", self.alphabet.as_str().into()),
            ("length", self.length.into()),
            ("order", self.order().as_str().into()),
            ("prefix", self.prefix.as_str().into()),
            ("check", self.check.into()),
            ("blocklist", serde_json::to_value(&self.blocklist).expect("plain words serialise")),
            ("grow", self.grow.into()),
            ("store", Store::Virtual.as_str().into()),
        ])
    }

    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// Symbols without prefix and check symbol; the first length, if the pool grows.
    pub fn length(&self) -> u32 {
        self.length
    }

    pub fn order(&self) -> Order {
        if self.secret.is_some() { Order::Shuffled } else { Order::Sequential }
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn check(&self) -> bool {
        self.check
    }

    pub fn blocklist(&self) -> &BlocklistChoice {
        &self.blocklist
    }

    /// Whether the next length follows when one is used up.
    pub fn grow(&self) -> bool {
        self.grow
    }

    pub(crate) fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }
}

impl SequenceDefinition {
    fn resolve(stated: &Stated) -> Result<Self, DefinitionError> {
        let alphabet = resolve_alphabet(stated, SEQUENCE_ALPHABET)?;
        let length = stated.length.unwrap_or(SEQUENCE_LENGTH);
        if !(1..=SEQUENCE_LENGTH_MAX).contains(&length) {
            return Err(invalid("length", format!("the least width is 1 to {SEQUENCE_LENGTH_MAX}")));
        }
        let offset = stated.offset.unwrap_or(1);
        if offset > NUMBER_MAX {
            return Err(invalid("offset", "the first key is at most 2^63−1"));
        }
        let step = stated.step.unwrap_or(1);
        if !(1..=NUMBER_MAX).contains(&step) {
            return Err(invalid("step", "keys are 1 to 2^63−1 apart"));
        }
        Ok(Self {
            check: resolve_check(stated, &alphabet)?,
            alphabet,
            length,
            prefix: resolve_prefix(stated)?,
            offset,
            step,
        })
    }

    fn fields(&self) -> BTreeMap<&'static str, Value> {
        BTreeMap::from([
            ("scheme", Scheme::Sequence.as_str().into()),
            ("alphabet", self.alphabet.as_str().into()),
            ("length", self.length.into()),
            ("prefix", self.prefix.as_str().into()),
            ("check", self.check.into()),
            ("offset", self.offset.to_string().into()),
            ("step", self.step.to_string().into()),
        ])
    }

    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// The least width, zero-padded, without prefix and check symbol.
    pub fn length(&self) -> u32 {
        self.length
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn check(&self) -> bool {
        self.check
    }

    /// The first key.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn step(&self) -> u64 {
        self.step
    }
}

impl SnowflakeDefinition {
    fn resolve(stated: &Stated) -> Result<Self, DefinitionError> {
        let tick = stated.tick.as_deref().map(read_tick).transpose()?;
        let epoch = stated.epoch.as_deref().map(read_time).transpose()?;
        let layout = Layout::parse(stated.layout.as_deref().unwrap_or("default"), tick, epoch)
            .map_err(|error| invalid("layout", error.to_string()))?;
        if !layout.issues() {
            let bits = layout.bits();
            return Err(invalid(
                "layout",
                format!("`{layout}` has {bits} bits; IDs above 63 bits are only decoded"),
            ));
        }
        let region = stated.region.unwrap_or(0);
        if region >= layout.regions() {
            let most = layout.regions() - 1;
            return Err(invalid(
                "region",
                format!("{region} does not fit `{layout}`, whose highest region is {most}"),
            ));
        }
        Ok(Self { layout, region })
    }

    fn fields(&self) -> BTreeMap<&'static str, Value> {
        let layout = self.layout.name().map_or_else(|| self.layout.to_string(), str::to_owned);
        BTreeMap::from([
            ("scheme", Scheme::Snowflake.as_str().into()),
            ("layout", layout.into()),
            ("tick", format!("{}ms", self.layout.tick_ms()).into()),
            ("epoch", write_time(self.layout.epoch_ms()).into()),
            ("region", self.region.into()),
        ])
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn region(&self) -> u32 {
        self.region
    }
}

/// `10ms`, `1s`.
fn read_tick(text: &str) -> Result<u32, DefinitionError> {
    let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let size = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        _ => None,
    };
    let tick = size.and_then(|size| digits.parse::<u32>().ok()?.checked_mul(size));
    tick.ok_or_else(|| {
        invalid("tick", format!("`{}` is not a time such as 1ms, 10ms or 1s", text.escape_debug()))
    })
}

/// RFC 3339, to the millisecond.
fn read_time(text: &str) -> Result<u64, DefinitionError> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok();
    let millis = time.and_then(|time| u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok());
    millis.ok_or_else(|| {
        invalid(
            "epoch",
            format!("`{}` is not a time such as 2026-01-01T00:00:00Z, from 1970 on", text.escape_debug()),
        )
    })
}

fn write_time(unix_ms: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_ms) * 1_000_000);
    let text = time.ok().and_then(|time| time.format(&Rfc3339).ok());
    text.expect("a layout's epoch is before the year 9999")
}

impl DefinitionError {
    /// The field to correct; `definition` when it is the stored text as a whole.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Missing { field, .. }
            | Self::Invalid { field, .. }
            | Self::Misplaced { field, .. }
            | Self::NotBuilt { field, .. } => field,
            Self::Unreadable { .. } => "definition",
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is stated as {}, but the ledger has {}", self.field, self.stated, self.stored)
    }
}

fn invalid(field: &'static str, reason: impl Into<String>) -> DefinitionError {
    DefinitionError::Invalid { field, reason: reason.into() }
}

fn resolve_alphabet(stated: &Stated, default: &str) -> Result<Alphabet, DefinitionError> {
    let text = stated.alphabet.as_deref().unwrap_or(default);
    Alphabet::parse(text).map_err(|error| invalid("alphabet", error.to_string()))
}

fn resolve_prefix(stated: &Stated) -> Result<String, DefinitionError> {
    let prefix = stated.prefix.as_deref().unwrap_or_default();
    if !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        return Err(invalid("prefix", "it is made of `A-Z`, `a-z`, `0-9`, `_` and `-`"));
    }
    if prefix.len() > PREFIX_LENGTH_MAX {
        let reason = format!("it has {} characters and may have {PREFIX_LENGTH_MAX}", prefix.len());
        return Err(invalid("prefix", reason));
    }
    Ok(prefix.to_owned())
}

fn resolve_check(stated: &Stated, alphabet: &Alphabet) -> Result<bool, DefinitionError> {
    let check = stated.check.unwrap_or(false);
    if check && !alphabet.radix().is_multiple_of(2) {
        let reason = format!(
            "ISO 7064 MOD N+1,N needs an alphabet of even size and {alphabet} has {} symbols; \
             add or drop one, or leave `check` out",
            alphabet.radix()
        );
        return Err(invalid("check", reason));
    }
    Ok(check)
}

/// Refuses what materialised pools need, as long as there are none.
fn resolve_store(stated: &Stated) -> Result<(), DefinitionError> {
    let store = stated.store.unwrap_or(Store::Virtual);
    if store != Store::Virtual {
        return Err(DefinitionError::NotBuilt { field: "store", value: store.as_str() });
    }
    let needs = [
        ("table_prefix", Store::Table, stated.table_prefix.is_some()),
        ("redis_key", Store::Redis, stated.redis_key.is_some()),
        ("redis_type", Store::Redis, stated.redis_type.is_some()),
    ];
    match needs.iter().find(|(.., is_stated)| *is_stated) {
        None => Ok(()),
        Some((field, store, _)) => Err(DefinitionError::Misplaced {
            field,
            applies_to: format!("store `{store}`"),
            not_to: "store `virtual`",
        }),
    }
}

/// The longest key whose space has at most 2^63−1 values.
fn longest(alphabet: &Alphabet) -> u32 {
    let spelling = Spelling::new(alphabet.clone());
    (1..).take_while(|length| spelling.space(*length as usize).is_some()).last().unwrap_or(0)
}

/// A value for people: texts without quotes, unless they are empty.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        other => other.to_string(),
    }
}

/// Sorted, because a `BTreeMap` is, whatever features of `serde_json` are on elsewhere. All values are
/// plain or lists, so nothing below the top has an order to lose.
fn sorted_json(fields: &BTreeMap<&'static str, Value>) -> String {
    serde_json::to_string(fields).expect("text keys and plain values serialise")
}
