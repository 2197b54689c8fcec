//! What a config or a request says about a keyspace, before anything is made of it.
//!
//! [`Stated`] has every frozen field of every scheme, each optional: what is left out takes its default at
//! creation and the ledger's value ever after. It knows names and types; whether values make sense
//! together is for `definition` to say.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{blocklist::BlocklistChoice, name::KeyspaceName};

/// An enum whose variants are single words, the same in JSON, TOML, flags and messages.
macro_rules! words {
    ($(#[$about:meta])* $name:ident, $what:literal: $($(#[$note:meta])* $variant:ident = $word:literal,)+) => {
        $(#[$about])*
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$note])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().find(|word| word.as_str() == text).copied().ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|word| word.as_str()).collect();
                    format!("no {} is called `{}`: choose {}", $what, text.escape_debug(), known.join(", "))
                })
            }
        }
    };
}

words! {
    /// The kind of a keyspace.
    Scheme, "scheme":
    Pool = "pool",
    Sequence = "sequence",
    Snowflake = "snowflake",
    Uuid4 = "uuid4",
    Uuid7 = "uuid7",
    Ulid = "ulid",
    Digest = "digest",
}

words! {
    /// In which order a pool's numbers become keys.
    Order, "order":
    Shuffled = "shuffled",
    Sequential = "sequential",
}

words! {
    /// Where a pool's unused keys are.
    Store, "store":
    /// Nowhere: they are computed.
    Virtual = "virtual",
    /// In two tables of the registry's database.
    Table = "table",
    /// In a list or a set of a Redis server.
    Redis = "redis",
}

words! {
    /// What holds the unused keys of a pool in Redis.
    RedisType, "Redis type":
    /// `LPOP` takes them in the order they were put in.
    List = "list",
    /// `SPOP` takes any of them.
    Set = "set",
}

words! {
    /// What spells the keys of a digest keyspace. What identifies content is SHA-256, whichever it is.
    HashFunction, "hash":
    Sha256 = "sha256",
    Md5 = "md5",
    Blake3 = "blake3",
}

words! {
    /// Whether the same content has the same key when it comes again.
    Dedupe, "dedupe":
    /// Always, whoever sends it.
    Global = "global",
    /// From the same owner only.
    Owner = "owner",
    /// Never.
    Never = "never",
}

words! {
    /// Which differences of content make no difference.
    Canonical, "canonical form":
    /// Those between two ways to write one URL.
    Url = "url",
    /// Also percent-encoding of characters that mean something when they are not encoded.
    UrlDecoded = "url_decoded",
    /// None: content is its bytes.
    None = "none",
}

use Scheme::{Digest, Pool, Sequence, Snowflake};

/// Every frozen field but `scheme`, and the schemes it applies to.
const APPLIES_TO: &[(&str, &[Scheme])] = &[
    ("root", &[Pool, Digest]),
    ("alphabet", &[Pool, Digest, Sequence]),
    ("length", &[Pool, Digest, Sequence]),
    ("order", &[Pool]),
    ("prefix", &[Pool, Digest, Sequence]),
    ("check", &[Pool, Digest, Sequence]),
    ("blocklist", &[Pool, Digest]),
    ("grow", &[Pool]),
    ("store", &[Pool]),
    ("table_prefix", &[Pool]),
    ("redis_key", &[Pool]),
    ("redis_type", &[Pool]),
    ("offset", &[Sequence]),
    ("step", &[Sequence]),
    ("layout", &[Snowflake]),
    ("tick", &[Snowflake]),
    ("epoch", &[Snowflake]),
    ("region", &[Snowflake]),
    ("hash", &[Digest]),
    ("salt", &[Digest]),
    ("dedupe", &[Digest]),
    ("canonical", &[Digest]),
];

/// The frozen fields of a keyspace as stated; unknown ones are refused.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stated {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocklist: Option<BlocklistChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grow: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Store>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_type: Option<RedisType>,
    #[serde(skip_serializing_if = "Option::is_none", with = "decimal")]
    pub offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", with = "decimal")]
    pub step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<HashFunction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<Dedupe>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<Canonical>,
}

impl Stated {
    /// The names of all frozen fields, for readers that must tell them from tuning.
    pub fn field_names() -> impl Iterator<Item = &'static str> {
        std::iter::once("scheme").chain(APPLIES_TO.iter().map(|(field, _)| *field))
    }

    /// The same with what a keyspace's name decides: keys in Redis are under it, unless stated otherwise.
    /// For [`Definition::resolve`](crate::Definition::resolve) at creation; a definition that stands is
    /// compared with what was stated and no more.
    #[must_use]
    pub fn named(mut self, name: &KeyspaceName) -> Self {
        if self.store == Some(Store::Redis) {
            self.redis_key.get_or_insert_with(|| name.as_str().to_owned());
        }
        self
    }

    /// The schemes a field applies to, and the field's name, for fields that are stated though they do
    /// not apply to `scheme`.
    pub(crate) fn misplaced(&self, scheme: Scheme) -> Option<(&'static str, &'static [Scheme])> {
        let stated = self.values();
        let mut fields =
            stated.iter().filter_map(|(field, _)| APPLIES_TO.iter().find(|(name, _)| name == field));
        fields.find(|(_, schemes)| !schemes.contains(&scheme)).copied()
    }

    /// What is stated, as name and JSON value.
    pub(crate) fn values(&self) -> Vec<(&'static str, serde_json::Value)> {
        let json = serde_json::to_value(self).expect("plain fields serialise");
        Self::field_names().filter_map(|field| Some((field, json.get(field)?.clone()))).collect()
    }
}

/// Ledger numbers: written as decimal strings, since JavaScript rounds above 2^53; read as either.
mod decimal {
    use std::fmt;

    use serde::{Deserialize, Deserializer, Serializer, de};

    struct Decimal(u64);

    struct DecimalVisitor;

    impl de::Visitor<'_> for DecimalVisitor {
        type Value = Decimal;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number, or a decimal string of one")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Decimal, E> {
            Ok(Decimal(number))
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Decimal, E> {
            u64::try_from(number)
                .map(Decimal)
                .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Decimal, E> {
            // Digits only: `u64::from_str` would take a plus sign as well.
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = if digits { text.parse().ok() } else { None };
            number.map(Decimal).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }

    impl<'de> Deserialize<'de> for Decimal {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(DecimalVisitor)
        }
    }

    pub(super) fn serialize<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match number {
            Some(number) => serializer.collect_str(number),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Ok(Option::<Decimal>::deserialize(deserializer)?.map(|Decimal(number)| number))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(json: serde_json::Value) -> Result<Stated, String> {
        serde_json::from_value(json).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_stated_is_nothing_written() {
        assert_eq!(serde_json::to_string(&Stated::default()).unwrap(), "{}");
        assert_eq!(read(json!({})).unwrap(), Stated::default());
    }

    #[test]
    fn every_frozen_field_has_a_place_in_the_table() {
        let mut all = json!({
            "scheme": "pool", "root": true, "alphabet": "base62", "length": 7, "order": "shuffled",
            "prefix": "", "check": false, "blocklist": [], "grow": false, "store": "virtual",
            "table_prefix": "", "redis_key": "k", "redis_type": "list", "offset": "1", "step": "1",
            "layout": "default", "tick": "1ms", "epoch": "2026-01-01T00:00:00Z", "region": 0,
            "hash": "sha256", "salt": "", "dedupe": "global", "canonical": "url",
        });
        let stated = read(all.clone()).unwrap();
        assert_eq!(serde_json::to_value(&stated).unwrap(), all, "every field reads and writes");
        for field in Stated::field_names() {
            assert!(all.as_object_mut().unwrap().remove(field).is_some(), "{field}");
        }
        assert_eq!(all, json!({}), "and none is missing from the table");
    }

    #[test]
    fn unknown_fields_and_words_are_refused() {
        assert!(read(json!({"lenght": 7})).unwrap_err().contains("lenght"));
        assert!(read(json!({"scheme": "Pool"})).unwrap_err().contains("pool"));
        assert!(read(json!({"length": -1})).is_err());
        assert!(read(json!({"length": 1.5})).is_err());
        assert!(read(json!({"blocklist": "default"})).is_ok());
        assert!(read(json!({"blocklist": 5})).unwrap_err().contains("a list of words"));
    }

    #[test]
    fn offset_and_step_are_numbers_or_decimal_strings() {
        let read = |offset| read(json!({ "offset": offset })).map(|stated| stated.offset.unwrap());
        assert_eq!(read(json!(5)), Ok(5));
        assert_eq!(read(json!("9223372036854775807")), Ok(9_223_372_036_854_775_807));
        for wrong in [json!(-1), json!(1.5), json!("-1"), json!("+1"), json!(""), json!("1e3"), json!(true)] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_are_the_same_in_json_and_in_flags() {
        for scheme in Scheme::ALL {
            assert_eq!(scheme.as_str().parse(), Ok(*scheme));
            assert_eq!(serde_json::to_value(scheme).unwrap(), json!(scheme.as_str()));
        }
        assert!("Pool".parse::<Scheme>().unwrap_err().contains("pool, sequence, snowflake"));
    }
}
