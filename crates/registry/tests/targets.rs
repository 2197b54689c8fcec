//! Where links may lead: every row of the security table, and what is kept of those that pass.

use keymill_registry::rules::target::{OwnHost, Target, TargetError, TargetRules, check_again};
use proptest::prelude::*;

const ANYWHERE: TargetRules<'static> = TargetRules { deny_private: false, own_hosts: &[] };
const PUBLIC: TargetRules<'static> = TargetRules { deny_private: true, own_hosts: &[] };

/// The rule that refuses a text, by the words of its message.
fn refused(text: &str, rules: &TargetRules<'_>) -> String {
    match Target::parse(text, rules) {
        Ok(target) => panic!("{text:?} is kept as {}", target.as_str()),
        Err(error) => error.to_string(),
    }
}

fn kept(text: &str) -> String {
    Target::parse(text, &PUBLIC).unwrap_or_else(|error| panic!("{text}: {error}")).as_str().to_owned()
}

#[test]
fn only_http_and_https_lead_anywhere() {
    for text in [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "jAvAsCrIpT://example.com/%0aalert(1)",
        "data:text/html,<script>alert(1)</script>",
        "DATA:text/html;base64,PHNjcmlwdD4=",
        "vbscript:msgbox(1)",
        "file:///etc/passwd",
        "FILE://host/share",
        "blob:https://example.com/0d6b7f6e",
        "about:blank",
        "ftp://example.com/",
        "ws://example.com/",
        "mailto:a@example.com",
        "tel:+123",
        "view-source:https://example.com/",
        "intent://example.com/#Intent;end",
        "chrome://settings",
        "httpx://example.com/",
        "https",
        "https:",
        "https:example.com",
        "https:/example.com",
        "//example.com/",
        "/path",
        "example.com",
        "www.example.com/path",
        "?query",
        "#fragment",
    ] {
        assert!(refused(text, &ANYWHERE).contains("must begin with http:// or https://"), "{text}");
    }
}

#[test]
fn what_a_parser_would_drop_is_refused_where_it_stands() {
    for text in [
        " https://example.com/",
        "https://example.com/ ",
        "\thttps://example.com/",
        "https://example.com/\n",
        "java\tscript:alert(1)",
        "java\r\nscript:alert(1)",
        "ht\ntps://example.com/",
        "https://exam\tple.com/",
        "https://example.com/a\rb",
        "https://example.com/a\nSet-Cookie: a=b",
        "https://example.com/a\r\n\r\n<html>",
        "https://example.com/\0",
        "https://example.com/\u{7f}",
        "https://example.com/\u{85}",
        "https://example.com/\u{1b}[31m",
        "\u{0}javascript:alert(1)",
        "\u{1}https://example.com/",
        "https://example.com/a b",
        "https://example.com/\u{a0}",
        "https://example.com/\u{2028}",
        "\u{3000}https://example.com/",
    ] {
        assert!(refused(text, &ANYWHERE).contains("the target contains"), "{text:?}");
    }
    assert!(refused("", &ANYWHERE).contains("empty"));
    assert_eq!(
        refused("https://example.com/a\nb", &ANYWHERE),
        "the target contains \\u{a}: encode it as %0A, or leave it out"
    );
}

#[test]
fn a_target_has_a_host_and_nobody_in_front_of_it() {
    for text in ["https://", "https:///", "https:///example.com", "https://?a", "https://#a", "https://:443/"]
    {
        assert!(refused(text, &ANYWHERE).contains("names no host"), "{text}");
    }
    for text in [
        "https://a@b/",
        "https://a:b@example.com/",
        "https://@example.com/",
        "https://:@example.com/",
        "https://example.com@evil.example/",
        "https://example.com:443@evil.example/",
        "HTTPS://user@example.com",
    ] {
        assert!(refused(text, &ANYWHERE).contains("before @"), "{text}");
    }
    assert_eq!(kept("https://example.com/@ada?b=c@d#e@f"), "https://example.com/@ada?b=c@d#e@f");
}

#[test]
fn backslashes_and_broken_encoding_are_refused() {
    for text in ["https:\\\\example.com", "https://example.com\\@evil.example", "https://example.com/a\\b"] {
        let message = refused(text, &ANYWHERE);
        assert!(message.contains("backslash"), "{text}: {message}");
    }
    for (text, shown) in [
        ("https://example.com/%", "`%`"),
        ("https://example.com/%2", "`%2`"),
        ("https://example.com/%zz", "`%zz`"),
        ("https://example.com/100%", "`%`"),
        ("https://example.com/%2é", "`%2é`"),
        ("https://example.com/?a=%%41", "`%`"),
        ("https://example.com/%u0041", "`%u0`"),
    ] {
        let message = refused(text, &ANYWHERE);
        assert!(message.contains(shown) && message.contains("%25"), "{text}: {message}");
    }
}

#[test]
fn a_host_that_is_none_is_refused() {
    for text in [
        "https://[::1/",
        "https://[1:2]/",
        "https://1.2.3.4.5/",
        "https://256.256.256.256/",
        "https://example.com:99999/",
        "https://example.com:port/",
        "https://exa%00mple.com/",
        "https://exa%0Ample.com/",
        "https://exa%2Fmple.com/",
        "https://a<b>.com/",
        "https://xn--a/",
        "https://./",
        "https://%00/",
    ] {
        refused(text, &ANYWHERE);
    }
}

#[test]
fn a_target_has_a_longest_length_as_given_and_as_kept() {
    let of = |length: usize| format!("https://example.com/{}", "a".repeat(length - 20));
    assert_eq!(kept(&of(2048)).len(), 2048);
    assert!(refused(&of(2049), &ANYWHERE).contains("2049 bytes and may have 2048"));
    // Three bytes of every byte that has to be encoded.
    let wide = format!("https://example.com/{}", "é".repeat(500));
    assert!(refused(&wide, &ANYWHERE).contains("3020 bytes"));
    assert!(refused(&"é".repeat(1 << 20), &ANYWHERE).contains("2097152 bytes"));
}

#[test]
fn what_is_kept_is_the_parsed_form() {
    for (text, form) in [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://Example.COM:443/A/../b/./c?D=E#F", "https://example.com/b/c?D=E#F"),
        ("http://example.com:80/", "http://example.com/"),
        ("http://example.com:8080", "http://example.com:8080/"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://例え.jp/パス?鍵=値", "https://xn--r8jz45g.jp/%E3%83%91%E3%82%B9?%E9%8D%B5=%E5%80%A4"),
        ("https://EXAMPLE。com/", "https://example.com/"),
        ("https://example.com/\"<>`{}", "https://example.com/%22%3C%3E%60%7B%7D"),
        ("https://example.com/%0d%0aX", "https://example.com/%0d%0aX"),
        ("https://0x8.8.2056/", "https://8.8.8.8/"),
        ("https://[2606:4700:0:0:0:0:0:1111]/", "https://[2606:4700::1111]/"),
    ] {
        assert_eq!(kept(text), form);
        assert_eq!(check_again(form, &PUBLIC), Ok(()), "{form}");
    }
}

#[test]
fn private_places_are_refused_where_that_is_asked_for() {
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.01",
        "017700000001",
        "10.1.2.3",
        "192.168.1.1:8080",
        "169.254.169.254",
        "0xa9fea9fe",
        "0.0.0.0",
        "[::1]",
        "[::ffff:169.254.169.254]",
        "[::ffff:7f00:1]",
        "[fd00:ec2::254]",
        "localhost",
        "LocalHost:7070",
        "a.localhost.",
        "printer.local",
        "router",
        "①②⑦.0.0.1",
    ] {
        let text = format!("http://{host}/latest/meta-data/");
        let error = Target::parse(&text, &PUBLIC).unwrap_err();
        assert!(matches!(error, TargetError::Private { .. }), "{text}: {error}");
        let harmless = Target::parse(&text, &ANYWHERE).unwrap();
        let later = check_again(harmless.as_str(), &PUBLIC).unwrap_err();
        assert!(
            matches!(later, TargetError::Private { .. }),
            "made before the rule, followed after: {later}"
        );
    }
}

#[test]
fn a_way_back_here_is_a_loop() {
    let own = [OwnHost::of("https://go.example/").unwrap(), OwnHost::of("http://127.0.0.1:7070").unwrap()];
    let rules = TargetRules { deny_private: false, own_hosts: &own };
    for text in [
        "https://go.example/abc",
        "https://GO.Example",
        "http://go.example/abc",
        "https://go.example./abc",
        "http://go.example:443/",
        "https://ｇｏ.example/abc",
        "http://127.0.0.1:7070/abc",
        "http://2130706433:7070/abc",
    ] {
        let error = Target::parse(text, &rules).unwrap_err();
        assert!(error.is_loop(), "{text}: {error}");
    }
    for text in [
        "https://www.go.example/",
        "https://go.example.com/",
        "https://go.example:8443/",
        "http://127.0.0.1:9000/",
        "https://example.com/?u=https://go.example/",
    ] {
        assert!(Target::parse(text, &rules).is_ok(), "{text}");
    }
    assert_eq!(OwnHost::of(""), None);
    assert_eq!(OwnHost::of("go.example"), None);
}

#[test]
fn mixed_scripts_are_told_and_not_refused() {
    let mixed = |text| Target::parse(text, &PUBLIC).unwrap().is_mixed_script();
    assert!(mixed("https://pаypal.com/")); // a Cyrillic а
    assert!(mixed("https://xn--pypal-4ve.com/"), "the same, as it is looked up");
    for text in
        ["https://example.com/", "https://bücher.example/", "https://почта.example/", "https://8.8.8.8/"]
    {
        assert!(!mixed(text), "{text}");
    }
}

#[test]
fn what_was_not_kept_by_us_is_not_sent() {
    let texts = [
        "javascript:alert(1)",
        "https://EXAMPLE.com/",
        "https://example.com",
        "https://a@b/",
        "",
        "https://a/\r\nX: y",
    ];
    for text in texts {
        assert!(check_again(text, &ANYWHERE).is_err(), "{text:?}");
    }
}

/// Texts near a URL, where parsers disagree.
fn nearly_urls() -> impl Strategy<Value = String> {
    const PARTS: &str = "http https javascript HTTPS : / // :// @ \\ % %41 %0d%0a ? # example.com 127.0.0.1 [::1] \
                         localhost . .. é 。 а xn-- :443 & = ' \" < \u{ad} \u{200b} \u{202e} \u{0} \u{7f}";
    let mut parts: Vec<&str> = PARTS.split(' ').collect();
    parts.extend([" ", "\t", "\r\n"]);
    prop::collection::vec(prop::sample::select(parts), 0..10).prop_map(|parts| parts.concat())
}

fn judge(text: &str) -> Result<(), TestCaseError> {
    let Ok(target) = Target::parse(text, &ANYWHERE) else { return Ok(()) };
    let form = target.as_str();
    prop_assert!(form.starts_with("http://") || form.starts_with("https://"), "{:?} became {}", text, form);
    prop_assert!(form.bytes().all(|byte| byte.is_ascii_graphic()) && form.len() <= 2048);
    prop_assert!(!target.host().is_empty() && !target.host().contains('@'));
    prop_assert_eq!(check_again(form, &ANYWHERE), Ok(()), "{} from {:?}", form, text);
    target.is_mixed_script();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn whatever_passes_is_a_plain_url_that_passes_again(text in nearly_urls()) {
        judge(&text)?;
        judge(&format!("https://{text}"))?;
        judge(&format!("https://example.com{text}"))?;
    }

    #[test]
    fn no_text_breaks_the_rules(text in any::<String>()) {
        judge(&text)?;
        judge(&format!("http://{text}"))?;
    }
}
