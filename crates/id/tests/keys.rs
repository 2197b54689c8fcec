//! Numbers become keys and keys become numbers: pools, sequences and the slabs they are spelled into.

mod common;

use std::collections::HashSet;

use common::{key, keys, mint, number, slab};
use keymill_id::{Alphabet, Mint, NUMBER_MAX, Number};
use proptest::prelude::*;

/// Every number spelled, by slabs that end where segments do.
fn all_keys(mint: &Mint) -> Vec<String> {
    let mut all = Vec::new();
    let mut start = Number::ZERO;
    while start.get() < mint.size() {
        let end = mint.segment_end(start);
        let slab = slab(mint, start.get(), end.get(), &[]);
        assert_eq!(slab.stride(), mint.width(start));
        all.extend(keys(&slab));
        start = end;
    }
    all
}

#[test]
fn a_tiny_pool_spells_each_of_its_keys_exactly_once() {
    for order in ["shuffled", "sequential"] {
        let mint = mint(&format!(r#"{{"scheme":"pool","alphabet":"base36","length":2,"order":"{order}"}}"#));
        assert_eq!(mint.size(), 1296);
        let all = all_keys(&mint);
        assert_eq!(all.len(), 1296);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 1296);
        for (n, key) in (0..).zip(&all) {
            assert_eq!(mint.number_of(key), Some(number(n)), "{key}");
            assert_eq!(mint.spell_one(number(n)).as_ref(), Some(key));
        }
    }
}

#[test]
fn three_symbols_of_base62_with_prefix_and_check_spell_each_key_exactly_once() {
    let mint = mint(r#"{"scheme":"pool","length":3,"prefix":"ab-","check":true}"#);
    let all = all_keys(&mint);
    assert_eq!(all.len(), 62 * 62 * 62);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    for (n, key) in (0..).zip(&all) {
        assert_eq!(mint.number_of(key), Some(number(n)), "{key}");
    }
}

#[test]
fn a_growing_pool_runs_on_through_its_lengths() {
    let mint = mint(r#"{"scheme":"pool","alphabet":"custom:abc","length":1,"grow":true,"prefix":"x"}"#);
    let lengths = (1..40).map(|length| 3_u64.pow(length));
    assert_eq!(mint.size(), lengths.sum::<u64>(), "3^40 would pass 2^63−1");
    let mut seen = HashSet::new();
    let mut start = 0;
    for length in 1..=9_u32 {
        let end = start + 3_u64.pow(length);
        assert_eq!(mint.segment_end(number(start)), number(end));
        assert_eq!(mint.segment_end(number(end - 1)), number(end));
        let slab = slab(&mint, start, end, &[]);
        assert_eq!(slab.stride(), 1 + length as usize);
        for (n, key) in (start..).zip(keys(&slab)) {
            assert_eq!(mint.number_of(&key), Some(number(n)), "{key}");
            assert!(seen.insert(key));
        }
        start = end;
    }
}

#[test]
fn growth_ends_where_63_bits_do() {
    let binary = mint(r#"{"scheme":"pool","alphabet":"custom:01","length":1,"grow":true}"#);
    assert_eq!(binary.size(), NUMBER_MAX - 1, "2 + 4 + … + 2^62");
    assert_eq!(key(&binary, binary.size() - 1).len(), 62);
    let base62 = mint(r#"{"scheme":"pool","grow":true}"#);
    assert_eq!(base62.size(), (7..=10).map(|length| 62_u64.pow(length)).sum::<u64>());
    assert_eq!(base62.segment_end(number(base62.size() - 1)), number(base62.size()));
    assert_eq!(base62.segment_end(Number::MAX), number(base62.size()), "beyond the end there is no segment");
    let longest = mint(r#"{"scheme":"pool","length":10,"grow":true}"#);
    assert_eq!(longest.size(), 62_u64.pow(10), "nothing follows the longest length");
}

#[test]
fn the_boundary_numbers_of_the_default_pool_come_back() {
    let space = 62_u64.pow(7);
    for extra in ["", r#","grow":true"#, r#","check":true"#, r#","order":"sequential""#] {
        let mint = mint(&format!(r#"{{"scheme":"pool"{extra}}}"#));
        let powers = (0..7).map(|power| 62_u64.pow(power));
        let edges = powers.flat_map(|power| [power - 1, power, power + 1, space - power - 1, space - power]);
        for n in edges {
            let key = key(&mint, n);
            assert_eq!(mint.number_of(&key), Some(number(n)), "{n} is {key} with{extra}");
        }
    }
}

#[test]
#[should_panic(expected = "outside a pool")]
fn a_number_beyond_a_pool_is_not_spelled() {
    mint(r#"{"scheme":"pool","alphabet":"base36","length":2}"#).spell_one(number(1296));
}

#[test]
#[should_panic(expected = "beyond its segment")]
fn a_block_that_spans_two_widths_is_not_spelled() {
    slab(&mint(r#"{"scheme":"sequence"}"#), 0, 10, &[]);
}

#[test]
fn texts_that_are_no_keys_have_no_number() {
    let plain = mint(r#"{"scheme":"pool"}"#);
    for text in ["", "a", "aaaaaa", "aaaaaaaa", "aaaa-aa", "aaaaaa ", "aaaaaaé", "ééééééé", "\0\0\0\0\0\0\0"]
    {
        assert_eq!(plain.number_of(text), None, "{text:?}");
    }
    let dressed = mint(r#"{"scheme":"pool","prefix":"go-","check":true}"#);
    let key = key(&dressed, 5);
    assert!(dressed.number_of(&key).is_some());
    for text in [&key[3..], &key[..key.len() - 1], &key.replace("go-", "GO-"), "go-", "", "go"] {
        assert_eq!(dressed.number_of(text), None, "{text:?}");
    }
    for last in ('0'..='9').chain('A'..='Z').chain('a'..='z').filter(|last| !key.ends_with(*last)) {
        let wrong = format!("{}{last}", &key[..key.len() - 1]);
        assert_eq!(dressed.number_of(&wrong), None, "{wrong} has a wrong check symbol");
    }
}

#[test]
fn base36_and_crockford32_are_read_as_people_type_them() {
    let base36 = mint(r#"{"scheme":"pool","alphabet":"base36","length":8,"check":true,"prefix":"k-"}"#);
    let crockford =
        mint(r#"{"scheme":"pool","alphabet":"crockford32","length":8,"check":true,"prefix":"k-"}"#);
    for n in 0..500 {
        let key36 = key(&base36, n);
        assert_eq!(base36.number_of(&format!("k-{}", key36[2..].to_uppercase())), Some(number(n)));
        let key32 = key(&crockford, n);
        for (one, zero) in [("I", "O"), ("l", "o"), ("i", "0"), ("L", "O")] {
            let typed = key32[2..].to_lowercase().replace('1', one).replace('0', zero);
            assert_eq!(crockford.number_of(&format!("k-{typed}")), Some(number(n)), "{typed}");
        }
    }
    assert_eq!(base36.number_of(&key(&base36, 0).to_uppercase()), None, "the prefix is read exactly");
}

#[test]
fn a_sequence_counts_by_its_step_from_its_offset() {
    let odd = mint(r#"{"scheme":"sequence","offset":1,"step":2}"#);
    let even = mint(r#"{"scheme":"sequence","offset":2,"step":2}"#);
    for n in 0..2000 {
        assert_eq!(key(&odd, n), (1 + 2 * n).to_string());
        assert_eq!(key(&even, n), (2 + 2 * n).to_string());
        assert_eq!(odd.number_of(&key(&even, n)), None, "the other server's key");
    }
    assert!(odd.ordered() && even.ordered());
}

#[test]
fn a_sequence_widens_exactly_where_its_values_do() {
    let mint = mint(r#"{"scheme":"sequence","offset":5,"step":7,"length":2}"#);
    let mut start = 0;
    let mut widths = Vec::new();
    while widths.len() < 5 {
        let end = mint.segment_end(number(start)).get();
        widths.push(mint.width(number(start)));
        assert_eq!(mint.width(number(end - 1)), mint.width(number(start)));
        assert_eq!(mint.width(number(end)), mint.width(number(start)) + 1);
        let expected: Vec<_> = (start..end).map(|n| format!("{:02}", 5 + 7 * n)).collect();
        assert_eq!(keys(&slab(&mint, start, end, &[])), expected);
        start = end;
    }
    assert_eq!(widths, [2, 3, 4, 5, 6]);
}

#[test]
fn padding_beyond_the_least_width_is_another_text() {
    let mint = mint(r#"{"scheme":"sequence","length":3}"#);
    assert_eq!(mint.number_of("007"), Some(number(6)));
    assert_eq!(mint.number_of("1000"), Some(number(999)));
    for text in ["7", "07", "0007", "000", "0100", "", "+07", "-01", "9223372036854775808"] {
        assert_eq!(mint.number_of(text), None, "{text}");
    }
}

#[test]
fn a_sequence_ends_at_63_bits() {
    let last = mint(r#"{"scheme":"sequence","offset":"9223372036854775807","step":"9223372036854775807"}"#);
    assert_eq!(last.size(), 1);
    assert_eq!(key(&last, 0), NUMBER_MAX.to_string());
    assert_eq!(last.segment_end(Number::ZERO), number(1));
    let all = mint(r#"{"scheme":"sequence","offset":0}"#);
    assert_eq!(all.size(), NUMBER_MAX, "a cursor cannot pass the number after the last");
    assert_eq!(all.number_of("9223372036854775807"), None, "so the very last value is left out");
    assert_eq!(all.number_of("9223372036854775806"), Some(number(NUMBER_MAX - 1)));
    let near = slab(&all, NUMBER_MAX - 3, NUMBER_MAX, &[]);
    assert_eq!(keys(&near), ["9223372036854775804", "9223372036854775805", "9223372036854775806"]);
}

#[test]
fn holes_are_left_out_wherever_they_lie() {
    let mint = mint(r#"{"scheme":"pool","order":"sequential","alphabet":"decimal","length":5}"#);
    let holes = [0, 7, 100, 101, 1123, 1124, 1125, 3999, 4000, 99_999];
    let slab = slab(&mint, 100, 4000, &holes);
    let expected: Vec<_> = (100..4000).filter(|n| !holes.contains(n)).map(|n| format!("{n:05}")).collect();
    assert_eq!(keys(&slab), expected);
    assert_eq!(slab.block().count(), 3900, "the block is still the one that was reserved");
    assert_eq!(slab.joined(0, 2), b"0010200103");
}

#[test]
fn a_block_of_nothing_but_holes_is_an_empty_slab() {
    let mint = mint(r#"{"scheme":"pool"}"#);
    let slab = slab(&mint, 5, 8, &[5, 6, 7]);
    assert!(slab.is_empty());
    assert_eq!(slab.joined(0, 0), b"");
}

#[test]
fn blocked_numbers_are_skipped_and_the_others_keep_their_keys() {
    let free = mint(r#"{"scheme":"pool","alphabet":"base36","length":4}"#);
    let guarded = mint(r#"{"scheme":"pool","alphabet":"base36","length":4,"blocklist":["foo","bar","sss"]}"#);
    let size = free.size();
    assert_eq!(guarded.size(), size, "a blocked number is burned, not taken out of the space");
    let all = keys(&slab(&free, 0, size, &[]));
    let read = |key: &str| key.replace('0', "o").replace('4', "a").replace('5', "s");
    let is_blocked = |key: &&String| ["foo", "bar", "sss"].iter().any(|word| read(key).contains(word));
    let blocked: Vec<_> = all.iter().filter(is_blocked).collect();
    assert_eq!(keys(&slab(&guarded, 0, size, &[])).len() + blocked.len(), all.len());
    assert!(blocked.iter().any(|key| key.contains("f0o")) && blocked.iter().any(|key| key.contains("s5s")));
    let expected: Vec<_> = all.iter().filter(|key| !is_blocked(key)).cloned().collect();
    assert_eq!(keys(&slab(&guarded, 0, size, &[])), expected);
    for key in blocked {
        let number = guarded.number_of(key).expect("a blocked key has its number");
        assert_eq!(guarded.spell_one(number), None, "{key}");
        assert_eq!(free.number_of(key), Some(number), "and it is the one it would have had");
    }
}

#[test]
fn a_word_is_blocked_across_prefix_and_check_symbol_too() {
    let mint = mint(
        r#"{"scheme":"pool","order":"sequential","alphabet":"base36","length":2,"prefix":"fo","check":true,
            "blocklist":["foo","xyz"]}"#,
    );
    let o = mint.number_of(&format!("foo0{}", check("o0"))).unwrap();
    assert_eq!(mint.spell_one(o), None, "foo begins in the prefix");
    let xyz: Vec<_> = (0..mint.size()).filter(|n| mint.spell_one(number(*n)).is_none()).collect();
    assert!(xyz.len() > 36 && xyz.len() <= 2 * 36 + 1, "36 with o, 36 with 0, and perhaps xyz");
}

fn check(body: &str) -> char {
    let alphabet = Alphabet::parse("base36").unwrap();
    char::from(keymill_id::check_symbol(&alphabet, body.as_bytes()).unwrap())
}

#[test]
fn only_a_shuffled_pool_may_leave_in_any_order() {
    assert!(!mint(r#"{"scheme":"pool"}"#).ordered());
    assert!(mint(r#"{"scheme":"pool","order":"sequential"}"#).ordered());
    assert!(mint(r#"{"scheme":"sequence"}"#).ordered());
}

#[test]
fn sequential_keys_of_one_length_sort_as_text() {
    let mint = mint(r#"{"scheme":"pool","order":"sequential","length":3}"#);
    assert!(keys(&slab(&mint, 0, 62 * 62 * 62, &[])).is_sorted());
}

/// A part of a whole, always less than it.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn share(part: f64, whole: u64) -> u64 {
    ((whole as f64 * part) as u64).min(whole - 1)
}

/// A symbol as some person may type it: any that the alphabet reads alike.
fn alike(symbol: char, alphabet: &Alphabet, typed: &prop::sample::Index) -> char {
    let value = |byte: u8| alphabet.value(byte);
    let digit = value(u8::try_from(symbol).unwrap());
    let group: Vec<u8> = (0..128).filter(|byte| value(*byte) == digit).collect();
    char::from(*typed.get(&group))
}

proptest! {
    #[test]
    fn any_pool_reads_back_what_it_spells(
        alphabet in prop::sample::select(vec![
            "base62", "base58", "base56", "base36", "crockford32", "base64url", "decimal", "custom:ab", "custom:0_-Z",
        ]),
        length in 1..=10_u32,
        prefix in "[A-Za-z0-9_-]{0,16}",
        check: bool,
        grow: bool,
        sequential: bool,
        draw: u64,
    ) {
        let order = if sequential { "sequential" } else { "shuffled" };
        let mint = mint(&format!(
            r#"{{"scheme":"pool","alphabet":"{alphabet}","length":{length},"prefix":"{prefix}","check":{check},"grow":{grow},"order":"{order}"}}"#,
        ));
        let drawn = number(draw % mint.size());
        let end = mint.segment_end(drawn);
        let last = number(mint.size() - 1);
        for n in [Number::ZERO, drawn, number(end.get() - 1), end.min(last), last] {
            let key = mint.spell_one(n).unwrap();
            prop_assert_eq!(key.len(), mint.width(n));
            prop_assert_eq!(mint.number_of(&key), Some(n), "{}", key);
        }
    }

    /// What an alias may look like of a key that the pool spells now, or will spell once it has grown.
    #[test]
    fn a_growing_pool_finds_the_number_of_every_text_that_reads_as_one_of_its_keys(
        alphabet in prop::sample::select(vec!["base36", "crockford32", "base62", "custom:ab"]),
        length in 1..=8_u32,
        prefix in prop::sample::select(vec!["", "p", "A-_9"]),
        check in any::<bool>(),
        order in prop::sample::select(vec!["shuffled", "sequential"]),
        at in 0.0..1.0_f64,
        typed in prop::collection::vec(any::<prop::sample::Index>(), 80),
    ) {
        let mint = mint(&format!(
            r#"{{"scheme":"pool","alphabet":"{alphabet}","length":{length},"prefix":"{prefix}","check":{check},
                "order":"{order}","grow":true}}"#
        ));
        let read_as = Alphabet::parse(alphabet).unwrap();
        // One number of every length there is.
        let mut start = Number::ZERO;
        while start.get() < mint.size() {
            let end = mint.segment_end(start);
            let n = start.get() + share(at, end.get() - start.get());
            let key = key(&mint, n);
            let (fixed, symbols) = key.split_at(prefix.len());
            let text: String = symbols.chars().zip(&typed).map(|(symbol, typed)| alike(symbol, &read_as, typed)).collect();
            prop_assert_eq!(mint.number_of(&format!("{fixed}{text}")), Some(number(n)), "{} as {}", key, text);
            start = end;
        }
    }

    #[test]
    fn any_sequence_reads_back_what_it_spells(
        alphabet in prop::sample::select(vec!["decimal", "base62", "crockford32", "custom:ab"]),
        length in 1..=64_u32,
        check: bool,
        offset in 0..=NUMBER_MAX,
        step in 1..=NUMBER_MAX,
        offset_shift in 0..63_u32,
        step_shift in 0..62_u32,
        draw: u64,
    ) {
        let (offset, step) = (offset >> offset_shift, (step >> step_shift).max(1));
        let mint = mint(&format!(
            r#"{{"scheme":"sequence","alphabet":"{alphabet}","length":{length},"check":{check},"offset":"{offset}","step":"{step}"}}"#,
        ));
        let drawn = number(draw % mint.size());
        let end = mint.segment_end(drawn);
        prop_assert!(end > drawn && end.get() <= mint.size());
        prop_assert_eq!(mint.width(number(end.get() - 1)), mint.width(drawn));
        if end.get() < mint.size() {
            prop_assert!(mint.width(end) > mint.width(drawn));
        }
        let last = number(mint.size() - 1);
        for n in [Number::ZERO, drawn, number(end.get() - 1), end.min(last), last] {
            let key = mint.spell_one(n).unwrap();
            prop_assert_eq!(mint.number_of(&key), Some(n), "{}", key);
        }
    }

    #[test]
    fn a_slab_is_the_same_as_one_key_after_the_other(
        start in 0..1_u64 << 40,
        count in 1..3000_u64,
        holes in prop::collection::btree_set(0..3000_u64, 0..20),
        blocklist: bool,
    ) {
        let blocklist = if blocklist { r#""default""# } else { "[]" };
        let mint = mint(&format!(r#"{{"scheme":"pool","blocklist":{blocklist}}}"#));
        let holes: Vec<_> = holes.into_iter().map(|hole| start + hole).collect();
        let expected: Vec<_> = (start..start + count)
            .filter(|n| !holes.contains(n))
            .filter_map(|n| mint.spell_one(number(n)))
            .collect();
        prop_assert_eq!(keys(&slab(&mint, start, start + count, &holes)), expected);
    }

    #[test]
    fn no_text_breaks_the_reader(text in ".{0,30}") {
        for definition in [
            r#"{"scheme":"pool","grow":true,"check":true}"#,
            r#"{"scheme":"pool","alphabet":"crockford32","length":1,"grow":true}"#,
            r#"{"scheme":"sequence","prefix":"a","check":true}"#,
        ] {
            let mint = mint(definition);
            if let Some(n) = mint.number_of(&text) {
                prop_assert!(n.get() < mint.size());
                prop_assert_eq!(mint.number_of(&key(&mint, n.get())), Some(n));
            }
        }
    }
}
