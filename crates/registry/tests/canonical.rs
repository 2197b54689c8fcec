//! Which URLs are one and the same, and that nothing else is.

use keymill_id::Canonical;
use keymill_registry::rules::canonical::{CanonicalError, canonical};
use proptest::prelude::*;

fn url(content: &str) -> String {
    canonical(content, Canonical::Url).unwrap().into_owned()
}

fn decoded(content: &str) -> String {
    canonical(content, Canonical::UrlDecoded).unwrap().into_owned()
}

#[test]
fn two_ways_to_write_one_url_are_one() {
    for (text, form) in [
        ("HTTP://Example.COM/Path", "http://example.com/Path"),
        ("http://example.com", "http://example.com/"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://example.com/%7Eada/%61%2D%2e%5F", "https://example.com/~ada/a-._"),
        ("https://example.com/a%2fb%3f", "https://example.com/a%2Fb%3F"),
        ("https://example.com/a/../b/./c/", "https://example.com/b/c/"),
        ("https://example.com/a/%2E%2E/b", "https://example.com/b"),
        ("https://example.com/é", "https://example.com/%C3%A9"),
        ("https://example.com/%c3%a9", "https://example.com/%C3%A9"),
        ("https://example.com/a|b?c^d", "https://example.com/a%7Cb?c%5Ed"),
        ("https://example.com/?q=%41%20b+c&d", "https://example.com/?q=A%20b+c&d"),
        ("https://example.com/#%41%2f", "https://example.com/#A%2F"),
        ("https://example.com/%2541", "https://example.com/%2541"),
    ] {
        assert_eq!(url(text), form, "{text}");
    }
}

#[test]
fn what_may_be_two_resources_stays_two() {
    for (one, other) in [
        ("http://example.com/", "https://example.com/"),
        ("https://example.com/a", "https://example.com/A"),
        ("https://example.com/a", "https://example.com/a/"),
        ("https://example.com/a", "https://example.com/a?"),
        ("https://example.com/a", "https://example.com/a#"),
        ("https://example.com/a%2Fb", "https://example.com/a/b"),
        ("https://example.com/a+b", "https://example.com/a%20b"),
        ("https://example.com/?a&b", "https://example.com/?b&a"),
        ("https://example.com/?a=%26", "https://example.com/?a=&"),
        ("https://www.example.com/", "https://example.com/"),
        ("http://www.educative.io/distributed.php%3Fid", "http://www.educative.io/distributed.php?id"),
    ] {
        assert_ne!(url(one), url(other));
    }
}

#[test]
fn decoded_whole_the_pair_that_people_take_for_one_meets() {
    let plain = "http://www.educative.io/distributed.php?id=design";
    assert_eq!(decoded("http://www.educative.io/distributed.php%3Fid%3Ddesign"), plain);
    assert_eq!(decoded(plain), plain);
    for (text, form) in [
        ("https://example.com/a%2F..%2Fb", "https://example.com/b"),
        ("https://example.com/a%23b", "https://example.com/a#b"),
        ("https://example.com/?it%27s", "https://example.com/?it's"),
        ("https://example.com/?it's", "https://example.com/?it's"),
        ("https://example.com/%253F", "https://example.com/%253F"),
        ("https://example.com/%20%0d%0A%00%ff", "https://example.com/%20%0D%0A%00%FF"),
    ] {
        assert_eq!(decoded(text), form, "{text}");
    }
}

#[test]
fn other_content_is_its_bytes_or_no_content() {
    for text in ["", " a ", "order 17", "HTTP://EXAMPLE.com"] {
        assert_eq!(canonical(text, Canonical::None).unwrap(), text);
    }
    for text in
        ["", "order 17", "example.com", " https://example.com/", "https://example.com/a\tb", "https://a b/"]
    {
        for form in [Canonical::Url, Canonical::UrlDecoded] {
            let CanonicalError::NotUrl { reason } = canonical(text, form).unwrap_err();
            assert!(!reason.is_empty(), "{text:?}");
        }
    }
}

fn urls() -> impl Strategy<Value = String> {
    const PARTS: &str = "/ // . .. %2e %2F %3f %3F %23 %25 %2525 % %zz %41 %c3%a9 é ? # ' %27 | ^ [ ] { } ` \" < \\ \
                         %5c @ : a B ~ + %2B = & ; %00 %20 %7f";
    let schemes =
        prop::sample::select(vec!["http://h", "https://H.example:443", "https://h:8080/", "urn:", "x://h"]);
    let parts = prop::sample::select(PARTS.split(' ').collect::<Vec<_>>());
    (schemes, prop::collection::vec(parts, 0..12))
        .prop_map(|(scheme, parts)| format!("{scheme}{}", parts.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_canonical_form_is_its_own(text in urls()) {
        for form in [Canonical::Url, Canonical::UrlDecoded, Canonical::None] {
            if let Ok(once) = canonical(&text, form) {
                prop_assert_eq!(canonical(&once, form).unwrap(), once.clone(), "{:?} of {}", form, text);
                prop_assert!(form == Canonical::None || once.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }

    #[test]
    fn what_meets_in_one_form_meets_in_the_wider_one(text in urls()) {
        if let Ok(narrow) = canonical(&text, Canonical::Url) {
            let wide = |text| canonical(text, Canonical::UrlDecoded);
            prop_assert_eq!(wide(&narrow), wide(&text));
        }
    }

    #[test]
    fn no_text_breaks_it(text in any::<String>()) {
        let _ = canonical(&text, Canonical::Url);
        let _ = canonical(&text, Canonical::UrlDecoded);
    }
}
