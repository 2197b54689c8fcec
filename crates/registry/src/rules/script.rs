//! Whether a host name mixes scripts that are not written together.
//!
//! The rule is *highly restrictive* of Unicode's UTS 39: the letters of a label come from one script, or are
//! Latin beside what Japanese, Chinese or Korean is written in. It says nothing of a label that looks like
//! another one in a single script; no table does that without crying wolf.

use icu_properties::{CodePointMapData, props::Script};

/// Scripts that are written together.
const TOGETHER: &[&[Script]] = &[
    &[Script::Latin, Script::Han, Script::Hiragana, Script::Katakana],
    &[Script::Latin, Script::Han, Script::Bopomofo],
    &[Script::Latin, Script::Han, Script::Hangul],
];

/// `domain` is in the form in which it is looked up: punycode where it has to be.
pub(super) fn is_mixed(domain: &str) -> bool {
    let (unicode, _) = idna::domain_to_unicode(domain);
    unicode.split('.').any(is_mixed_label)
}

fn is_mixed_label(label: &str) -> bool {
    let script = CodePointMapData::<Script>::new();
    let mut scripts = Vec::new();
    for script in label.chars().map(|c| script.get(c)) {
        // Digits, hyphens and accents are of every script.
        if !matches!(script, Script::Common | Script::Inherited) && !scripts.contains(&script) {
            scripts.push(script);
        }
    }
    let together = |group: &&[Script]| scripts.iter().all(|script| group.contains(script));
    scripts.len() > 1 && !TOGETHER.iter().any(together)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(host: &str) -> bool {
        is_mixed(&idna::domain_to_ascii(host).unwrap())
    }

    #[test]
    fn scripts_that_are_not_written_together_are_told() {
        // A Cyrillic а in the first, a Greek ο in the second.
        for host in ["pаypal.com", "gοogle.com", "www.pаypal.com", "日本аб.jp"] {
            assert!(mixed(host), "{host}");
        }
    }

    #[test]
    fn one_script_a_label_is_fine_and_so_is_what_is_written_together() {
        for host in [
            "example.com",
            "bücher.example",
            "яндекс.рф",
            "почта.example.com",
            "日本語テスト.jp",
            "ソニーのLatin.jp",
            "한국漢字.kr",
            "a1-2.example",
            "ελληνικά.gr",
            "é́x.example",
        ] {
            assert!(!mixed(host), "{host}");
        }
    }
}
