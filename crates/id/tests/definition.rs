//! What may be stated, what becomes of it, and what is refused in which words.

mod common;

use common::{resolve, secret, stated};
use keymill_id::{
    Definition, DefinitionError, KeyspaceName, Order, RedisType, Rows, Scheme, Secret, Stated, Store,
};
use serde_json::json;

fn refused(json: &str) -> (&'static str, String) {
    let error = resolve(json).expect_err(json);
    (error.field(), error.to_string())
}

#[test]
fn defaults_are_those_of_the_contract() {
    let Definition::Pool(pool) = resolve(r#"{"scheme":"pool"}"#).unwrap() else { panic!("a pool") };
    assert_eq!((pool.alphabet().as_str(), pool.length(), pool.order()), ("base62", 7, Order::Shuffled));
    assert_eq!((pool.prefix(), pool.check(), pool.grow()), ("", false, false));
    let Definition::Sequence(sequence) = resolve(r#"{"scheme":"sequence"}"#).unwrap() else {
        panic!("a sequence")
    };
    assert_eq!((sequence.alphabet().as_str(), sequence.length()), ("decimal", 1));
    assert_eq!((sequence.offset(), sequence.step()), (1, 1));
    assert_eq!(
        resolve(r#"{"scheme":"digest"}"#).unwrap().to_stored_json(),
        r#"{"alphabet":"base62","blocklist":[],"canonical":"url","check":false,"dedupe":"global","hash":"sha256","length":8,"prefix":"","root":false,"salt":"","scheme":"digest"}"#
    );
}

#[test]
fn every_wrong_value_is_refused_with_its_field_and_a_way_out() {
    let cases: &[(&str, &str, &str)] = &[
        (r#"{}"#, "scheme", "required"),
        (r#"{"scheme":"pool","alphabet":"base63"}"#, "alphabet", "no alphabet is called `base63`"),
        (r#"{"scheme":"pool","alphabet":"custom:aa"}"#, "alphabet", "`a` comes twice"),
        (r#"{"scheme":"pool","alphabet":"custom:a"}"#, "alphabet", "2 to 64 symbols"),
        (r#"{"scheme":"pool","alphabet":"custom:a b"}"#, "alphabet", "` ` is none of them"),
        (r#"{"scheme":"pool","length":0}"#, "length", "at least one"),
        (r#"{"scheme":"pool","length":11}"#, "length", "62^11 exceeds 2^63−1; the longest base62 key is 10"),
        (r#"{"scheme":"pool","length":11,"grow":true}"#, "length", "the longest base62 key is 10"),
        (r#"{"scheme":"pool","alphabet":"custom:ab","length":63}"#, "length", "2^63 exceeds 2^63−1"),
        (r#"{"scheme":"pool","length":4294967295}"#, "length", "exceeds"),
        (r#"{"scheme":"sequence","length":0}"#, "length", "1 to 64"),
        (r#"{"scheme":"sequence","length":65}"#, "length", "1 to 64"),
        (r#"{"scheme":"pool","prefix":"a/b"}"#, "prefix", "`A-Z`"),
        (r#"{"scheme":"pool","prefix":"é"}"#, "prefix", "`A-Z`"),
        (r#"{"scheme":"sequence","prefix":"12345678901234567"}"#, "prefix", "17 characters and may have 16"),
        (r#"{"scheme":"pool","prefix":"foo-","blocklist":["foo"]}"#, "prefix", "every key would be blocked"),
        (r#"{"scheme":"pool","alphabet":"custom:abc","check":true}"#, "check", "3 symbols"),
        (r#"{"scheme":"sequence","alphabet":"custom:abc","check":true}"#, "check", "even size"),
        (r#"{"scheme":"pool","blocklist":["ab"]}"#, "blocklist", "at least 3 letters"),
        (r#"{"scheme":"pool","blocklist":["a b c"]}"#, "blocklist", "made of letters"),
        (r#"{"scheme":"pool","blocklist":"strict"}"#, "blocklist", "no blocklist is called `strict`"),
        (r#"{"scheme":"sequence","offset":"9223372036854775808"}"#, "offset", "at most 2^63−1"),
        (r#"{"scheme":"sequence","step":0}"#, "step", "1 to 2^63−1"),
        (r#"{"scheme":"sequence","step":"9223372036854775808"}"#, "step", "1 to 2^63−1"),
        (r#"{"scheme":"pool","table_prefix":"x"}"#, "table_prefix", "store `table`, not to store `virtual`"),
        (r#"{"scheme":"pool","redis_key":"x"}"#, "redis_key", "store `redis`"),
        (r#"{"scheme":"pool","redis_type":"set"}"#, "redis_type", "store `redis`"),
        (
            r#"{"scheme":"pool","store":"table","redis_key":"x"}"#,
            "redis_key",
            "store `redis`, not to store `table`",
        ),
        (r#"{"scheme":"pool","store":"table","redis_type":"set"}"#, "redis_type", "not to store `table`"),
        (r#"{"scheme":"pool","store":"redis","table_prefix":"x"}"#, "table_prefix", "not to store `redis`"),
        (
            r#"{"scheme":"pool","store":"table","table_prefix":"Shop_"}"#,
            "table_prefix",
            "`a-z`, `0-9` and `_`",
        ),
        (
            r#"{"scheme":"pool","store":"table","table_prefix":"x;--"}"#,
            "table_prefix",
            "`a-z`, `0-9` and `_`",
        ),
        (r#"{"scheme":"pool","store":"table","table_prefix":"2x"}"#, "table_prefix", "begins with no digit"),
        (
            r#"{"scheme":"pool","store":"table","table_prefix":"a23456789012345678901234567890123"}"#,
            "table_prefix",
            "up to 32",
        ),
        (r#"{"scheme":"pool","store":"table","table_prefix":"sqlite_"}"#, "table_prefix", "SQLite keeps"),
        (r#"{"scheme":"pool","store":"redis","redis_key":""}"#, "redis_key", "1 to 256 visible"),
        (r#"{"scheme":"pool","store":"redis","redis_key":"a b"}"#, "redis_key", "visible ASCII"),
        (r#"{"scheme":"pool","store":"redis","redis_key":"a\nb"}"#, "redis_key", "visible ASCII"),
        (r#"{"scheme":"sequence","store":"table"}"#, "store", "applies to pool, not to sequence"),
        (r#"{"scheme":"digest","store":"redis"}"#, "store", "applies to pool, not to digest"),
        (r#"{"scheme":"digest","length":0}"#, "length", "sha256 in base62 has 1 to 32 symbols"),
        (r#"{"scheme":"digest","length":33}"#, "length", "1 to 32"),
        (r#"{"scheme":"digest","hash":"md5","length":22}"#, "length", "md5 in base62 has 1 to 21 symbols"),
        (
            r#"{"scheme":"digest","prefix":"foo-","blocklist":["foo"]}"#,
            "prefix",
            "every key would be blocked",
        ),
        (r#"{"scheme":"digest","alphabet":"custom:abc","check":true}"#, "check", "even size"),
        (r#"{"scheme":"digest","order":"sequential"}"#, "order", "applies to pool, not to digest"),
        (r#"{"scheme":"digest","grow":true}"#, "grow", "applies to pool, not to digest"),
    ];
    for (json, field, message) in cases {
        let (refused_field, refused_message) = refused(json);
        assert_eq!(refused_field, *field, "{json}");
        assert!(refused_message.contains(message), "{json}: {refused_message}");
    }
}

#[test]
fn the_longest_lengths_are_accepted() {
    for (alphabet, length) in [
        ("base62", 10),
        ("base58", 10),
        ("base36", 12),
        ("crockford32", 12),
        ("base64url", 10),
        ("decimal", 18),
    ] {
        let json = |length| format!(r#"{{"scheme":"pool","alphabet":"{alphabet}","length":{length}}}"#);
        assert!(resolve(&json(length)).is_ok(), "{alphabet} × {length}");
        assert_eq!(refused(&json(length + 1)).0, "length", "{alphabet}");
    }
}

#[test]
fn a_field_of_another_scheme_is_refused_by_name() {
    assert_eq!(
        refused(r#"{"scheme":"pool","layout":"twitter"}"#),
        ("layout", "`layout` applies to snowflake, not to pool".to_owned())
    );
    assert_eq!(
        refused(r#"{"scheme":"sequence","root":true}"#),
        ("root", "`root` applies to pool and digest, not to sequence".to_owned())
    );
    let foreign_to_pools = [
        r#""offset":1"#,
        r#""step":1"#,
        r#""tick":"1ms""#,
        r#""epoch":"2026-01-01T00:00:00Z""#,
        r#""region":0"#,
        r#""hash":"md5""#,
        r#""salt":"""#,
        r#""dedupe":"owner""#,
        r#""canonical":"url""#,
    ];
    let foreign_to_sequences =
        [r#""order":"shuffled""#, r#""blocklist":[]"#, r#""grow":false"#, r#""store":"virtual""#];
    for field in foreign_to_pools {
        assert!(refused(&format!(r#"{{"scheme":"pool",{field}}}"#)).1.ends_with("not to pool"), "{field}");
    }
    for field in foreign_to_sequences {
        assert!(
            refused(&format!(r#"{{"scheme":"sequence",{field}}}"#)).1.ends_with("not to sequence"),
            "{field}"
        );
    }
}

#[test]
fn every_scheme_needs_nothing_but_its_name() {
    for scheme in Scheme::ALL {
        let stated = Stated { scheme: Some(*scheme), ..Stated::default() };
        assert_eq!(Definition::resolve(&stated, secret()).unwrap().scheme(), *scheme);
    }
}

#[test]
fn a_salt_has_a_bound() {
    let with = |length| format!(r#"{{"scheme":"digest","salt":"{}"}}"#, "s".repeat(length));
    assert!(resolve(&with(128)).is_ok());
    assert_eq!(
        refused(&with(129)),
        ("salt", "`salt` is not valid: it has 129 bytes and may have 128".to_owned())
    );
}

#[test]
fn a_pool_says_where_its_unused_keys_are() {
    let pool = |json: &str| match resolve(json).unwrap() {
        Definition::Pool(pool) => pool,
        other => panic!("{other:?} is no pool"),
    };
    let computed = pool(r#"{"scheme":"pool"}"#);
    assert_eq!((computed.store(), computed.rows()), (Store::Virtual, None));
    let tables = pool(r#"{"scheme":"pool","store":"table"}"#);
    assert_eq!(tables.rows(), Some(&Rows::Table { prefix: String::new() }));
    let tables = pool(r#"{"scheme":"pool","store":"table","table_prefix":"shop_2_"}"#);
    assert_eq!(tables.rows(), Some(&Rows::Table { prefix: "shop_2_".into() }));
    assert_eq!(tables.store(), Store::Table);
    let set = pool(r#"{"scheme":"pool","store":"redis","redis_key":"{pool}:keys","redis_type":"set"}"#);
    assert_eq!(set.rows(), Some(&Rows::Redis { key: "{pool}:keys".into(), kind: RedisType::Set }));
}

#[test]
fn keys_in_redis_are_under_the_keyspaces_name_unless_stated_otherwise() {
    let name = KeyspaceName::parse("promo").unwrap();
    let bare = stated(r#"{"scheme":"pool","store":"redis"}"#);
    assert_eq!(Definition::resolve(&bare, secret()).unwrap_err().field(), "redis_key");
    let made = Definition::resolve(&bare.clone().named(&name), secret()).unwrap();
    assert_eq!(made.to_public_json()["redis_key"], "promo");
    assert_eq!(made.to_public_json()["redis_type"], "list");
    assert_eq!(made.conflicts(&bare), [], "what is left out is not compared");
    assert_eq!(made.conflicts(&stated(r#"{"redis_key":"promo"}"#)), []);
    assert_eq!(made.conflicts(&stated(r#"{"scheme":"pool","store":"redis","redis_key":"other"}"#)).len(), 1);
    assert_eq!(made.conflicts(&stated(r#"{"scheme":"pool","store":"table"}"#))[0].stored, "redis");

    let other = stated(r#"{"scheme":"pool","store":"redis","redis_key":"other"}"#).named(&name);
    assert_eq!(other.redis_key.as_deref(), Some("other"));
    assert_eq!(stated(r#"{"scheme":"pool"}"#).named(&name), stated(r#"{"scheme":"pool"}"#));
}

#[test]
fn a_snowflake_keeps_its_layout_epoch_tick_and_region() {
    let fields = |text: &str| {
        let stated: Stated = serde_json::from_str(text).unwrap();
        Definition::resolve(&stated, secret()).unwrap().to_public_json().to_string()
    };
    assert_eq!(
        fields(r#"{"scheme":"snowflake"}"#),
        r#"{"epoch":"2026-01-01T00:00:00Z","layout":"default","region":0,"scheme":"snowflake","tick":"1ms"}"#
    );
    let regional = r#"{"scheme":"snowflake","layout":"regional","region":15,"tick":"10ms","epoch":"2020-01-01T01:00:00+01:00"}"#;
    assert_eq!(
        fields(regional),
        r#"{"epoch":"2020-01-01T00:00:00Z","layout":"regional","region":15,"scheme":"snowflake","tick":"10ms"}"#
    );
}

#[test]
fn a_snowflake_that_cannot_be_is_refused_by_field() {
    for (field, text) in [
        ("layout", r#"{"scheme":"snowflake","layout":"discord"}"#),
        ("layout", r#"{"scheme":"snowflake","layout":"nonsense"}"#),
        ("region", r#"{"scheme":"snowflake","region":1}"#),
        ("region", r#"{"scheme":"snowflake","layout":"regional","region":16}"#),
        ("tick", r#"{"scheme":"snowflake","tick":"soon"}"#),
        ("epoch", r#"{"scheme":"snowflake","epoch":"yesterday"}"#),
        ("alphabet", r#"{"scheme":"snowflake","alphabet":"base62"}"#),
    ] {
        let stated: Stated = serde_json::from_str(text).unwrap();
        assert_eq!(Definition::resolve(&stated, secret()).unwrap_err().field(), field, "{text}");
    }
}

#[test]
fn an_epoch_is_compared_as_a_time_and_not_as_a_text() {
    let stated = |text: &str| serde_json::from_str::<Stated>(text).unwrap();
    let kept = Definition::resolve(&stated(r#"{"scheme":"snowflake"}"#), secret()).unwrap();
    assert_eq!(kept.conflicts(&stated(r#"{"scheme":"snowflake","epoch":"2026-01-01T01:00:00+01:00"}"#)), []);
    let other = kept.conflicts(&stated(r#"{"scheme":"snowflake","epoch":"2027-01-01T00:00:00Z"}"#));
    assert_eq!(other.len(), 1);
    assert!(other[0].stored.contains("2026") && other[0].stated.contains("2027"));
}

const DEFINITIONS: &[&str] = &[
    r#"{"scheme":"pool"}"#,
    r#"{"scheme":"pool","root":true,"grow":true,"blocklist":["foo","BAR"],"prefix":"p-","check":true}"#,
    r#"{"scheme":"pool","order":"sequential","alphabet":"custom:zyx-","length":5,"blocklist":"default"}"#,
    r#"{"scheme":"snowflake"}"#,
    r#"{"scheme":"snowflake","layout":"time:40 region:3 worker:8 sequence:12","region":5}"#,
    r#"{"scheme":"ulid"}"#,
    r#"{"scheme":"pool","store":"table"}"#,
    r#"{"scheme":"pool","store":"table","table_prefix":"shop_"}"#,
    r#"{"scheme":"pool","store":"redis","redis_key":"shop:keys"}"#,
    r#"{"scheme":"pool","store":"redis","redis_key":"shop:keys","redis_type":"set"}"#,
    r#"{"scheme":"digest"}"#,
    r#"{"scheme":"digest","root":true,"alphabet":"base36","length":6,"prefix":"u-","check":true,
        "blocklist":["foo"],"hash":"md5","salt":"pinch \u00e9","dedupe":"owner","canonical":"url_decoded"}"#,
    r#"{"scheme":"sequence"}"#,
    r#"{"scheme":"sequence","offset":"9223372036854775807","step":3,"alphabet":"base36","length":8,"check":true}"#,
];

#[test]
fn a_stored_definition_reads_back_as_itself() {
    for json in DEFINITIONS {
        let definition = resolve(json).unwrap();
        let text = definition.to_stored_json();
        let read = Definition::from_stored_json(&text).unwrap();
        assert_eq!(read, definition);
        assert_eq!(read.to_stored_json(), text);
        assert_eq!(read.fingerprint(), definition.fingerprint());
        assert!(definition.conflicts(&stated(json)).is_empty(), "it agrees with what made it");
    }
}

#[test]
fn a_damaged_or_newer_stored_definition_is_refused_and_its_secret_kept() {
    let good = resolve(r#"{"scheme":"pool"}"#).unwrap().to_stored_json();
    let hex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let damaged = [
        String::new(),
        "[]".to_owned(),
        good.replace('}', ""),
        good.replace(r#""length":7,"#, ""),
        good.replace(r#""grow":false,"#, ""),
        good.replace(r#""length":7"#, r#""length":11"#),
        good.replace("shuffled", "sequential"),
        good.replace(&format!(r#""secret":"{hex}","#), ""),
        good.replace(hex, &hex[1..]),
        good.replace(&format!("\"{hex}\""), "7"),
        good.replace(r#"{"#, r#"{"from_a_newer_version":true,"#),
        good.replace("pool", "ulid"),
        good.replace("virtual", "table"),
        good.replace("virtual", "redis"),
        good.replace(r#"{"#, r#"{"table_prefix":"","#),
    ];
    for text in damaged {
        assert_ne!(text, good);
        let error = Definition::from_stored_json(&text).expect_err(&text);
        assert!(matches!(error, DefinitionError::Unreadable { .. }), "{text}");
        assert_eq!(error.field(), "definition");
        assert!(!error.to_string().contains(&hex[1..]), "{error}");
    }
}

#[test]
fn the_public_form_and_debug_keep_the_secret_and_spell_numbers_as_strings() {
    let pool = resolve(r#"{"scheme":"pool"}"#).unwrap();
    assert_eq!(
        pool.to_public_json(),
        json!({
            "scheme": "pool", "root": false, "alphabet": "base62", "length": 7, "order": "shuffled", "prefix": "",
            "check": false, "blocklist": [], "grow": false, "store": "virtual",
        })
    );
    assert!(format!("{pool:?}").contains("Secret(…)"));
    let sequence = resolve(r#"{"scheme":"sequence","offset":5}"#).unwrap().to_public_json();
    assert_eq!((&sequence["offset"], &sequence["step"]), (&json!("5"), &json!("1")));
}

#[test]
fn fingerprints_differ_where_definitions_do() {
    let mut seen = std::collections::HashSet::new();
    for json in DEFINITIONS {
        assert!(seen.insert(resolve(json).unwrap().fingerprint()), "{json}");
    }
    let other = Definition::resolve(&stated(DEFINITIONS[0]), Secret::from_bytes([9; 32])).unwrap();
    assert!(seen.insert(other.fingerprint()), "another secret is another definition");
}

#[test]
fn only_what_is_stated_is_compared() {
    let definition =
        resolve(r#"{"scheme":"pool","alphabet":"base36","length":8,"blocklist":["foo"]}"#).unwrap();
    assert!(definition.conflicts(&Stated::default()).is_empty());
    assert!(
        definition.conflicts(&stated(r#"{"alphabet":"base36","length":8,"blocklist":["foo"]}"#)).is_empty()
    );
    let conflicts = definition.conflicts(&stated(
        r#"{"scheme":"pool","alphabet":"base62","length":8,"prefix":"x","blocklist":"default","step":2}"#,
    ));
    let said: Vec<_> = conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "`alphabet` is stated as base62, but the ledger has base36",
            "`prefix` is stated as x, but the ledger has \"\"",
            "`blocklist` is stated as default, but the ledger has [\"foo\"]",
            "`step` is stated as 2, but the ledger has nothing, as it is a pool",
        ]
    );
}

#[test]
fn numbers_are_compared_as_numbers_however_they_are_written() {
    let definition = resolve(r#"{"scheme":"sequence","offset":5,"step":"2"}"#).unwrap();
    assert!(definition.conflicts(&stated(r#"{"offset":"5","step":2}"#)).is_empty());
    assert_eq!(definition.conflicts(&stated(r#"{"offset":6}"#)).len(), 1);
}

#[test]
fn another_scheme_is_one_conflict_and_not_ten() {
    let definition = resolve(r#"{"scheme":"pool"}"#).unwrap();
    let conflicts = definition.conflicts(&stated(r#"{"scheme":"sequence","offset":5,"alphabet":"decimal"}"#));
    assert_eq!(conflicts.len(), 1);
    assert_eq!((conflicts[0].field, conflicts[0].stored.as_str()), ("scheme", "pool"));
}

#[test]
fn only_a_pool_or_a_digest_can_be_root() {
    assert!(resolve(r#"{"scheme":"digest","root":true}"#).unwrap().root());
    assert!(!resolve(r#"{"scheme":"digest"}"#).unwrap().root());
    assert!(resolve(r#"{"scheme":"pool","root":true}"#).unwrap().root());
    assert!(!resolve(r#"{"scheme":"pool"}"#).unwrap().root());
    assert!(!resolve(r#"{"scheme":"sequence"}"#).unwrap().root());
    assert_eq!(resolve(r#"{"scheme":"sequence","prefix":"T"}"#).unwrap().prefix(), "T");
}
