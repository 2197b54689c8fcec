//! Keys from content: which they are, in which order, and what makes two contents one.
//!
//! The golden keys and identities were computed by a second implementation, written from the description in
//! `digest.rs` in another language over other hashes.

mod common;

use std::collections::HashSet;

use common::resolve;
use keymill_id::{Definition, Digest, NONCE_LENGTH, OwnerMissing, ROUTE_WORDS};
use proptest::prelude::*;

const URL: &[u8] = b"http://www.educative.io/distributed.php?id=design";

/// 00 01 02 … 0f.
const NONCE: [u8; NONCE_LENGTH] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

fn digest(json: &str) -> Digest {
    match resolve(json).unwrap() {
        Definition::Digest(definition) => Digest::compile(&definition),
        other => panic!("{other:?} is no digest"),
    }
}

fn keys(digest: &Digest, content: &[u8], count: usize) -> Vec<String> {
    let subject = digest.subject(content, Some("ada"), &NONCE).unwrap();
    subject.candidates().take(count).collect()
}

fn identity(digest: &Digest, content: &[u8], owner: &str, nonce: &[u8; NONCE_LENGTH]) -> String {
    digest.subject(content, Some(owner), nonce).unwrap().identity().to_string()
}

#[test]
fn keys_are_what_they_always_were() {
    let vectors: &[(&str, &[&str])] = &[
        (r#"{"scheme":"digest"}"#, &["9oE2Atb2", "pVOxJFdL", "LKdUBLUh", "eJ1xhU3R", "G6ts97W8", "qkVh8yh8"]),
        (r#"{"scheme":"digest","alphabet":"base36"}"#, &["5p29dp6o", "socu3wrx", "4s5gxv7t", "xm402hhp"]),
        (r#"{"scheme":"digest","alphabet":"base64url"}"#, &["KIGYWCg5", "qSg_DO1n", "94jRx-NH", "vDmNtrgL"]),
        (
            r#"{"scheme":"digest","alphabet":"decimal","length":12}"#,
            &["158227464220", "749641194031", "429620929840", "130503218478"],
        ),
        // Three slices of 21 symbols, then the hash with a count appended.
        (
            r#"{"scheme":"digest","hash":"md5","length":6}"#,
            &["LQKG0t", "gplvLH", "V0ClPz", "503dH5", "nwww5I"],
        ),
        (
            r#"{"scheme":"digest","hash":"md5","length":8,"alphabet":"base36"}"#,
            &["cfudj2sj", "8liwj3uw", "2wjaid62", "dqygf7tr"],
        ),
        (
            r#"{"scheme":"digest","hash":"md5","length":21}"#,
            &["LQKG0tgplvLHV0ClPzv5n", "503dH5nwww5IUZhBdHgYO", "6sHWNLbqlaKvPadEwPlZQ"],
        ),
        (r#"{"scheme":"digest","hash":"blake3"}"#, &["frQsJVkd", "V8lU8MlR", "CLgVWsDB", "HoFYi3MK"]),
        (
            r#"{"scheme":"digest","hash":"blake3","alphabet":"crockford32","length":10}"#,
            &["NKCMW6XTNQ", "JGCDCB6SBT", "7PF9R9EQGE", "GJ94C54Y3Q"],
        ),
        (r#"{"scheme":"digest","salt":"pinch é"}"#, &["22bfsYwl", "PwXpLDKt"]),
        (r#"{"scheme":"digest","dedupe":"owner"}"#, &["hHBOsfzR", "xTMd0UCc"]),
        (
            r#"{"scheme":"digest","dedupe":"never","hash":"md5","length":21}"#,
            &["tRAhBMoa35C3k68ABOFe9", "zMbYjbd48QpVjzUNrP9ku"],
        ),
    ];
    for (json, expected) in vectors {
        assert_eq!(keys(&digest(json), URL, expected.len()), *expected, "{json}");
    }
}

#[test]
fn in_base64_a_key_is_what_every_base64_tool_says() {
    // printf %s "$URL" | openssl md5 -binary | basenc --base64url
    let encoded = "WHaFCius1JpS9IRVhGzOgA==";
    let six = digest(r#"{"scheme":"digest","hash":"md5","alphabet":"base64url","length":6}"#);
    assert_eq!(keys(&six, URL, 3), [&encoded[..6], &encoded[6..12], &encoded[12..18]]);
}

#[test]
fn identities_are_what_they_always_were_whatever_spells_the_key() {
    for hash in ["sha256", "md5", "blake3"] {
        let of = |dedupe| {
            let json =
                format!(r#"{{"scheme":"digest","hash":"{hash}","dedupe":"{dedupe}","salt":"{hash}"}}"#);
            identity(&digest(&json), URL, "ada", &NONCE)
        };
        assert_eq!(of("global"), "7c71d76352d91a5d206f33a1556a58e800339e698478928411177699ce74681c");
        assert_eq!(of("owner"), "5a669b83888e85aafae1d512b7f168bbf83602172b749a93ff994a64585b3ecb");
        assert_eq!(of("never"), "8a3787fd1e26fa6d9ef133793152315759ab3ae02b737ad34cae5862d11cd69b");
    }
}

#[test]
fn two_files_with_one_md5_are_two_contents() {
    // Wang's pair of 2004: 128 bytes that differ in six places and have the same MD5.
    let hex = |text: &str| -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    };
    let one = hex(concat!(
        "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f89",
        "55ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5b",
        "d8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0",
        "e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70",
    ));
    let other = hex(concat!(
        "d131dd02c5e6eec4693d9a0698aff95c2fcab50712467eab4004583eb8fb7f89",
        "55ad340609f4b30283e4888325f1415a085125e8f7cdc99fd91dbd7280373c5b",
        "d8823e3156348f5bae6dacd436c919c6dd53e23487da03fd02396306d248cda0",
        "e99f33420f577ee8ce54b67080280d1ec69821bcb6a8839396f965ab6ff72a70",
    ));
    let md5 = digest(r#"{"scheme":"digest","hash":"md5","canonical":"none"}"#);
    assert_eq!(keys(&md5, &one, 2), keys(&md5, &other, 2), "they propose the same keys");
    assert_ne!(identity(&md5, &one, "", &NONCE), identity(&md5, &other, "", &NONCE));
}

#[test]
fn what_dedupe_adds_decides_who_shares_a_key() {
    let other = [9; NONCE_LENGTH];
    let of = |dedupe: &str, owner: &str, nonce: &[u8; NONCE_LENGTH]| {
        let json = format!(r#"{{"scheme":"digest","dedupe":"{dedupe}"}}"#);
        identity(&digest(&json), URL, owner, nonce)
    };
    assert_eq!(of("global", "ada", &NONCE), of("global", "bob", &other));
    assert_eq!(of("owner", "ada", &NONCE), of("owner", "ada", &other));
    assert_ne!(of("owner", "ada", &NONCE), of("owner", "bob", &NONCE));
    assert_ne!(of("never", "ada", &NONCE), of("never", "ada", &other));
}

#[test]
fn an_owner_is_asked_for_only_where_owners_are_kept_apart() {
    let apart = digest(r#"{"scheme":"digest","dedupe":"owner"}"#);
    assert_eq!(apart.subject(URL, None, &NONCE).unwrap_err(), OwnerMissing);
    assert_eq!(apart.subject(URL, Some(""), &NONCE).unwrap_err(), OwnerMissing);
    assert!(digest(r#"{"scheme":"digest"}"#).subject(URL, None, &NONCE).is_ok());
}

#[test]
fn parts_cannot_be_shifted_into_each_other() {
    let owner = digest(r#"{"scheme":"digest","dedupe":"owner"}"#);
    let mut seen = HashSet::new();
    for (content, name) in [("ab", "c"), ("a", "bc"), ("abc", "owner"), ("abcowner", "x")] {
        assert!(seen.insert(identity(&owner, content.as_bytes(), name, &NONCE)), "{content} {name}");
    }
}

#[test]
fn a_blocked_word_is_left_out() {
    let free = keys(&digest(r#"{"scheme":"digest"}"#), URL, 3);
    // Three letters of the second proposal, as the list reads them.
    let blocking = digest(r#"{"scheme":"digest","blocklist":["VOx"]}"#);
    assert!(free[1].contains("VOx"));
    assert_eq!(keys(&blocking, URL, 2), [free[0].as_str(), &free[2]]);
}

#[test]
fn where_every_key_is_blocked_the_proposals_end() {
    let hopeless = digest(
        r#"{"scheme":"digest","alphabet":"custom:ab","length":3,
            "blocklist":["aaa","aab","aba","abb","baa","bab","bba","bbb"]}"#,
    );
    assert_eq!(keys(&hopeless, URL, 1), Vec::<String>::new());
}

#[test]
fn a_small_space_is_spelled_whole_before_the_proposals_end() {
    let small = digest(r#"{"scheme":"digest","alphabet":"base36","length":2}"#);
    let all: HashSet<String> = keys(&small, URL, usize::MAX).into_iter().collect();
    assert_eq!(Some(all.len() as u64), small.size());
}

#[test]
fn the_root_keyspace_spells_no_route() {
    for (root, hides) in [(true, false), (false, true)] {
        let json = format!(r#"{{"scheme":"digest","root":{root},"alphabet":"custom:v1","length":2}}"#);
        let proposed: HashSet<String> = keys(&digest(&json), URL, usize::MAX).into_iter().collect();
        assert_eq!(proposed.contains("v1"), hides);
        assert!(proposed.contains("1v"));
    }
    assert!(ROUTE_WORDS.contains(&"v1"));
}

#[test]
fn prefix_and_check_symbol_are_around_the_symbols() {
    let dressed = digest(r#"{"scheme":"digest","prefix":"u-","check":true}"#);
    let key = &keys(&dressed, URL, 1)[0];
    assert!(key.starts_with("u-9oE2Atb2"), "{key}");
    assert_eq!(key.len(), 11);
    assert_eq!(dressed.key_of(key).as_ref(), Some(key));
    for wrong in ["9oE2Atb2", "u-9oE2Atb2", "u-9oE2Atb2!", "", "u-"] {
        assert_eq!(dressed.key_of(wrong), None, "{wrong}");
    }
    assert_eq!(dressed.size(), Some(62_u64.pow(8)));
    assert_eq!(digest(r#"{"scheme":"digest","length":32}"#).size(), None);
}

#[test]
fn a_key_is_read_as_people_type_it() {
    let crockford = digest(r#"{"scheme":"digest","alphabet":"crockford32","length":4,"prefix":"k-"}"#);
    assert!(crockford.is_lenient());
    assert_eq!(crockford.key_of("k-oiLz").as_deref(), Some("k-011Z"));
    assert_eq!(crockford.key_of("K-011Z"), None, "a prefix is read exactly");
    let base62 = digest(r#"{"scheme":"digest"}"#);
    assert!(!base62.is_lenient());
    assert_eq!(base62.key_of("9oE2Atb2").as_deref(), Some("9oE2Atb2"));
}

#[test]
fn the_first_symbol_is_as_even_as_the_last() {
    // Written as a plain number, an MD5 in base62 would begin with one of eight symbols.
    let md5 = digest(r#"{"scheme":"digest","hash":"md5","length":6}"#);
    for at in [0, 5] {
        let seen: HashSet<u8> =
            (0..2000_u32).map(|n| keys(&md5, &n.to_be_bytes(), 1)[0].as_bytes()[at]).collect();
        assert_eq!(seen.len(), 62, "symbol {at}");
    }
}

fn definitions() -> impl Strategy<Value = String> {
    let alphabets = prop::sample::select(vec![
        "base62",
        "base58",
        "base36",
        "crockford32",
        "base64url",
        "decimal",
        "custom:ab",
        "custom:xyz",
    ]);
    let hashes = prop::sample::select(vec!["sha256", "md5", "blake3"]);
    let dedupes = prop::sample::select(vec!["global", "owner", "never"]);
    (alphabets, hashes, dedupes, 1..=21_u32, any::<bool>()).prop_map(
        |(alphabet, hash, dedupe, length, check)| {
            let check = check && alphabet != "custom:xyz";
            format!(
                r#"{{"scheme":"digest","alphabet":"{alphabet}","hash":"{hash}","dedupe":"{dedupe}","length":{length},
                    "check":{check},"prefix":"p-"}}"#
            )
        },
    )
}

proptest! {
    #[test]
    fn every_proposal_is_a_key_of_the_keyspace_and_the_same_ones_come_again(
        json in definitions(),
        content in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let digest = digest(&json);
        let proposed = keys(&digest, &content, 40);
        prop_assert_eq!(proposed.len(), 40);
        for key in &proposed {
            prop_assert_eq!(digest.key_of(key), Some(key.clone()));
        }
        prop_assert_eq!(proposed, keys(&digest, &content, 40));
    }

    #[test]
    fn contents_that_differ_have_identities_that_differ(
        json in definitions(),
        one in prop::collection::vec(any::<u8>(), 0..64),
        other in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let digest = digest(&json);
        let same = identity(&digest, &one, "ada", &NONCE) == identity(&digest, &other, "ada", &NONCE);
        prop_assert_eq!(same, one == other);
    }
}
