//! Any text as a target, as content and as a name: what passes is plain, and passes again as it is.
#![no_main]

use keymill_id::Canonical;
use keymill_registry::rules::{
    alias::Alias,
    canonical::canonical,
    target::{Target, TargetRules, check_again},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let rules = TargetRules { deny_private: false, own_hosts: &[] };
    if let Ok(target) = Target::parse(text, &rules) {
        let form = target.as_str();
        assert!(form.starts_with("http://") || form.starts_with("https://"));
        assert!(form.bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(check_again(form, &rules), Ok(()));
        target.is_mixed_script();
    }
    for form in [Canonical::Url, Canonical::UrlDecoded] {
        if let Ok(once) = canonical(text, form) {
            assert_eq!(canonical(&once, form), Ok(once.clone()));
        }
    }
    if let Ok(alias) = Alias::parse(text, 64) {
        assert_eq!(alias.as_str(), text);
    }
});
