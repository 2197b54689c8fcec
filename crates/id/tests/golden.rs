//! Keys that must never change: a definition that spells other keys than it did would repeat some.
//!
//! The shuffled keys and the fingerprints were computed by a second implementation, written from the
//! description in `shuffle.rs` and `feistel.rs` in another language over another AES.

mod common;

use common::{key, mint, number, resolve};
use keymill_id::{Alphabet, check_symbol, verify_check};

/// Definition, the keys of the first four numbers, the key of the last number.
type Vector = (&'static str, &'static [&'static str], &'static str);

const POOLS: &[Vector] = &[
    (r#"{"scheme":"pool"}"#, &["ooHtnoI", "eAueCT8", "XGemL8e", "9WMVc81"], "5sEvaQo"),
    (
        r#"{"scheme":"pool","length":10}"#,
        &["kE1vtgR0n1", "pYUxnMfDkc", "aqk9rCfXih", "uKtxqFEj4r"],
        "OUPIycnLAg",
    ),
    (r#"{"scheme":"pool","length":3}"#, &["iqr", "KFw", "lDB", "HdQ"], "lhA"),
    (
        r#"{"scheme":"pool","alphabet":"base58","length":6}"#,
        &["n9FR7n", "KeG7kM", "njvM4o", "qFBjRn"],
        "Z1BjSy",
    ),
    (
        r#"{"scheme":"pool","alphabet":"base56","length":8}"#,
        &["yUEGAEFy", "C9qTSbLU", "NtiHRUjK", "Zd4cK2Bp"],
        "MzJRkvbD",
    ),
    (r#"{"scheme":"pool","alphabet":"base36","length":2}"#, &["vr", "0z", "pk", "xm"], "93"),
    (
        r#"{"scheme":"pool","alphabet":"crockford32","length":8}"#,
        &["WQ4NPDGB", "8PKHYPEG", "5769YN9A", "NTZQ8CGS"],
        "AVK5YA07",
    ),
    (
        r#"{"scheme":"pool","alphabet":"base64url","length":5}"#,
        &["CFYiD", "FMvO2", "pxJJ_", "_m-39"],
        "GejXr",
    ),
    (r#"{"scheme":"pool","alphabet":"decimal","length":4}"#, &["0640", "4957", "0881", "8931"], "6867"),
    (
        r#"{"scheme":"pool","alphabet":"custom:ab","length":62}"#,
        &[
            "aaaabaaaabbbbabaababbaaaaaabbababbbabbbbbaabbbaaabbaabaabbbbab",
            "bbaaaaabbaaabbbaaabbbabababbabbaaabaabbaaaaaabaabaaababbbbbabb",
            "abbbbbbbbbaabababbaaabbaabbaababaaabaabbababbbbbbabbbbaabaabab",
            "bbaabbaaaababbabbbabaaaaaabbabbabbbabbbabaabbaabaabbababbbbaaa",
        ],
        "bbaaabaaaabbbabaaabaaaabaaaabbabbbabbbabbbbaaaaaabbbbbbaababbb",
    ),
    (r#"{"scheme":"pool","alphabet":"custom:ab","length":1}"#, &["b", "a"], "a"),
    (r#"{"scheme":"pool","order":"sequential","length":3}"#, &["000", "001", "002", "003"], "zzz"),
];

const SEQUENCES: &[Vector] = &[
    (r#"{"scheme":"sequence"}"#, &["1", "2", "3", "4"], "9223372036854775807"),
    (r#"{"scheme":"sequence","offset":0}"#, &["0", "1", "2", "3"], "9223372036854775806"),
    (r#"{"scheme":"sequence","offset":2,"step":2}"#, &["2", "4", "6", "8"], "9223372036854775806"),
    (
        r#"{"scheme":"sequence","length":6,"prefix":"T-","check":true}"#,
        &["T-0000017", "T-0000025", "T-0000033", "T-0000041"],
        "T-92233720368547758071",
    ),
    (
        r#"{"scheme":"sequence","alphabet":"base62","length":2,"offset":"61"}"#,
        &["0z", "10", "11", "12"],
        "AzL8n0Y58m7",
    ),
];

#[test]
fn every_definition_spells_the_keys_it_always_spelled() {
    for (definition, first, last) in POOLS.iter().chain(SEQUENCES) {
        let mint = mint(definition);
        for (n, expected) in (0..).zip(*first) {
            assert_eq!(key(&mint, n), *expected, "{definition} at {n}");
            assert_eq!(mint.number_of(expected), Some(number(n)), "{definition} at {n}");
        }
        assert_eq!(key(&mint, mint.size() - 1), *last, "{definition} at its end");
    }
}

#[test]
fn a_prefix_and_a_check_symbol_surround_the_same_symbols() {
    let mint = mint(r#"{"scheme":"pool","prefix":"go-","check":true}"#);
    let keys: Vec<_> = (0..4).map(|n| key(&mint, n)).collect();
    assert_eq!(keys, ["go-ooHtnoID", "go-eAueCT8b", "go-XGemL8ey", "go-9WMVc81Q"]);
}

#[test]
fn a_pool_that_grows_begins_each_length_with_a_shuffle_of_its_own() {
    let two = mint(r#"{"scheme":"pool","alphabet":"base36","length":2,"grow":true}"#);
    let three = mint(r#"{"scheme":"pool","alphabet":"base36","length":3}"#);
    assert_eq!((key(&two, 0).as_str(), key(&two, 1295).as_str()), ("vr", "93"));
    for n in [0, 1, 46_655] {
        assert_eq!(key(&two, 1296 + n), key(&three, n), "a length is shuffled alike, grown into or not");
    }
}

#[test]
fn fingerprints_are_what_they_always_were() {
    let fingerprint = |json| resolve(json).unwrap().fingerprint();
    assert_eq!(
        fingerprint(r#"{"scheme":"pool"}"#),
        "af9661d55ca9e0e38233a3cb85c1dc40b5472728e536927426af9c887330a8b0"
    );
    assert_eq!(
        fingerprint(
            r#"{"scheme":"pool","root":true,"order":"sequential","blocklist":"default","grow":true,
                "alphabet":"base36","check":true,"prefix":"p_"}"#
        ),
        "cd6c3e0f12a3c901ea234216d82aae47a7b2a76b238dd9d923a3df704ddd8ed5"
    );
    assert_eq!(
        fingerprint(r#"{"scheme":"sequence"}"#),
        "5adbbc77491bfb972df0c11b7a564549a1867a7543039f113830e6ea01c77838"
    );
}

#[test]
fn the_stored_text_is_what_it_always_was() {
    assert_eq!(
        resolve(r#"{"scheme":"pool"}"#).unwrap().to_stored_json(),
        r#"{"alphabet":"base62","blocklist":[],"check":false,"grow":false,"length":7,"order":"shuffled","prefix":"","root":false,"scheme":"pool","secret":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f","store":"virtual"}"#
    );
    assert_eq!(
        resolve(r#"{"scheme":"sequence"}"#).unwrap().to_stored_json(),
        r#"{"alphabet":"decimal","check":false,"length":1,"offset":"1","prefix":"","scheme":"sequence","step":"1"}"#
    );
}

#[test]
fn check_symbols_agree_with_published_examples_of_iso_7064() {
    let examples = [
        // MOD 11,10: the specimen of a German tax number, and a Croatian OIB.
        ("decimal", "3657426180", '9'),
        ("decimal", "3339200596", '1'),
        // MOD 37,36: the specimen of a Global Release Identifier.
        ("custom:0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", "A12425GABC1234002", 'M'),
        // MOD 63,62: no example is published; from a second implementation.
        ("base62", "aZ3k9Qp", 'L'),
        ("base62", "0000000", '2'),
    ];
    for (alphabet, body, check) in examples {
        let alphabet = Alphabet::parse(alphabet).unwrap();
        assert_eq!(check_symbol(&alphabet, body.as_bytes()).map(char::from), Some(check), "{body}");
        assert!(verify_check(&alphabet, format!("{body}{check}").as_bytes()), "{body}");
    }
}
